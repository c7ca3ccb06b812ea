#!/usr/bin/env python3
"""Writes the golden file of version orders: what each ecosystem's own tools say of all versions in the shared data.

Each line is an ecosystem, a hash of the name with its versions, and the rank of each version in their own order; `-` is a
version that the tool refuses. So a line holds every pair of its versions, and no text of the data. The tools: Dpkg::Version,
checked pair by pair against `dpkg --compare-versions`, rpm, node-semver as npm brings it, golang.org/x/mod, RubyGems,
Maven's ComparableVersion, composer/semver, and of Python packaging and univers.

Needs: apt-get install dpkg-dev rpm ruby golang-go golang-golang-x-mod-dev nodejs npm maven default-jdk-headless
       php-cli php-composer-semver zstd;
       pip install packaging univers.
Use: orders.py DATA [OUT]
"""
import functools
import glob
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile

from gather import gather

HERE = pathlib.Path(__file__).parent


def ask(command, groups, **environment):
    """The ranks of each group's versions, from a program that reads and writes lines."""
    lines = "".join("\t".join(versions) + "\n" for versions in groups)
    done = subprocess.run(command, input=lines.encode(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True,
                          env={**os.environ, **environment})
    return [line.split(" ") for line in done.stdout.decode().splitlines()]


def ranked(parse, order=None):
    """The same within Python: `parse` gives something comparable, or raises for what is no version."""
    def rank(versions):
        parsed = []
        for version in versions:
            try:
                parsed.append(parse(version))
            except Exception:
                parsed.append(None)
        good = sorted((version for version in parsed if version is not None), key=order)
        key = order or (lambda version: version)
        distinct = [v for at, v in enumerate(good) if at == 0 or key(good[at - 1]) != key(v)]
        keys = [key(version) for version in distinct]
        return ["-" if version is None else str(keys.index(key(version))) for version in parsed]
    return lambda groups: [rank(versions) for versions in groups]


def deb(groups):
    ranks = ask(["perl", str(HERE / "rank.pl")], groups)
    for versions, numbers in zip(groups, ranks):
        ordered = sorted((int(rank), version) for rank, version in zip(numbers, versions) if rank != "-")
        for (left_rank, left), (right_rank, right) in zip(ordered, ordered[1:]):
            relation = "eq" if left_rank == right_rank else "lt"
            if subprocess.run(["dpkg", "--compare-versions", left, relation, right]).returncode != 0:
                sys.exit(f"dpkg does not say {left} {relation} {right}")
    return ranks


def rpm(groups):
    with tempfile.TemporaryDirectory() as folder:
        asked, answer = pathlib.Path(folder, "asked"), pathlib.Path(folder, "answer")
        asked.write_text("".join("\t".join(versions) + "\n" for versions in groups))
        script = "%{lua:" + (HERE / "rank.lua").read_text() + "}"
        ask(["rpm", "--eval", script], [], RANK_INPUT=str(asked), RANK_OUTPUT=str(answer))
        return [line.split(" ") for line in answer.read_text().splitlines()]


def golang(groups):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder, "src/rank")
        root.mkdir(parents=True)
        (root / "rank.go").write_text((HERE / "rank.go").read_text())
        environment = {"GO111MODULE": "off", "GOPATH": f"{folder}:/usr/share/gocode", "GOCACHE": f"{folder}/cache"}
        return ask(["go", "run", str(root / "rank.go")], groups, **environment)


def npm(groups):
    found = glob.glob("/usr/lib/node_modules/npm/node_modules/semver") + glob.glob("/usr/share/nodejs/semver")
    return ask(["node", str(HERE / "rank.cjs"), found[0]], groups)


def maven(groups):
    jars = "/usr/share/java/maven-artifact-3.x.jar:/usr/share/java/commons-lang3.jar"
    return ask(["java", "-cp", jars, str(HERE / "Rank.java")], groups)


def gem(groups):
    return ask(["ruby", str(HERE / "rank.rb")], groups)


def composer(groups):
    return ask(["php", str(HERE / "rank.php")], groups)


def pypi(groups):
    from packaging.version import Version
    return ranked(Version)(groups)


def univers(name):
    def rank(groups):
        import univers.versions
        kind = getattr(univers.versions, name)
        order = functools.cmp_to_key(lambda a, b: -1 if a < b else 1 if b < a else 0)
        return ranked(kind, order)(groups)
    return rank


TOOLS = {"deb": deb, "rpm": rpm, "apk": univers("AlpineLinuxVersion"), "npm": npm, "cargo": npm, "golang": golang,
         "pypi": pypi, "maven": maven, "gem": gem, "nuget": univers("NugetVersion"), "composer": composer}


def main():
    data, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else HERE / "../golden/orders.txt.zst")
    found = gather(data)
    lines = []
    for ecosystem, tool in TOOLS.items():
        of_ecosystem = [(named, versions) for named, versions in found if named[0] == ecosystem]
        ranks = tool([versions for _, versions in of_ecosystem])
        for (named, versions), numbers in zip(of_ecosystem, ranks, strict=True):
            assert len(numbers) == len(versions), named
            digest = hashlib.sha256("\0".join([*named, *versions]).encode()).hexdigest()[:8]
            lines.append(f"{ecosystem} {digest} {' '.join(numbers)}\n")
        print(ecosystem, len(of_ecosystem), "names", file=sys.stderr)
    out.parent.mkdir(exist_ok=True)
    subprocess.run(["zstd", "-19", "-q", "-f", "-o", str(out)], input="".join(lines).encode(), check=True)


if __name__ == "__main__":
    main()
