-- Reads lines of versions with tabs between them, and writes their ranks as rpm itself orders them.
local out = io.open(os.getenv("RANK_OUTPUT"), "w")
for line in io.lines(os.getenv("RANK_INPUT")) do
  local versions, order, ranks, words = {}, {}, {}, {}
  for text in line:gmatch("[^\t]+") do
    -- An epoch that is no number, or two hyphens, rpm refuses.
    local body = text:gsub("^%d+:", "")
    local valid = not body:find(":") and select(2, body:gsub("-", "")) <= 1 and not text:find("[^%w%.%+_~^:-]")
    versions[#versions + 1] = { text, valid }
    if valid then order[#order + 1] = text end
  end
  table.sort(order, function(a, b) return rpm.vercmp(a, b) < 0 end)
  local rank = -1
  for at, text in ipairs(order) do
    if at == 1 or rpm.vercmp(order[at - 1], text) ~= 0 then rank = rank + 1 end
    ranks[text] = rank
  end
  for _, version in ipairs(versions) do words[#words + 1] = version[2] and ranks[version[1]] or "-" end
  out:write(table.concat(words, " "), "\n")
end
out:close()
