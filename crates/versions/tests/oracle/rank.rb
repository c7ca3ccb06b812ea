# Reads lines of versions with tabs between them, and writes their ranks as RubyGems orders them.
STDIN.each_line(chomp: true) do |line|
  versions = line.split("\t").map { |text| Gem::Version.correct?(text) ? Gem::Version.new(text) : nil }
  order = versions.compact.sort.chunk_while { |a, b| (a <=> b).zero? }.map(&:first)
  puts versions.map { |version| version ? order.index { |other| (other <=> version).zero? } : "-" }.join(" ")
end
