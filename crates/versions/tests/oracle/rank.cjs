// Reads lines of versions with tabs between them, and writes their ranks as npm orders them.
const semver = require(process.argv[2]);
const lines = require("fs").readFileSync(0, "utf8").split("\n").slice(0, -1);
for (const line of lines) {
  const versions = line.split("\t").map((text) => semver.parse(text));
  const order = versions.filter(Boolean).sort((a, b) => a.compare(b));
  const distinct = order.filter((version, at) => at === 0 || order[at - 1].compare(version) !== 0);
  const rank = (version) => (version ? distinct.findIndex((other) => other.compare(version) === 0) : "-");
  console.log(versions.map(rank).join(" "));
}
