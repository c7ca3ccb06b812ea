"""Every version that the shared data offers, by ecosystem and package name.

`tests/orders.rs` gathers the same in Rust; a change here is a change there.
"""
import json
import pathlib
import re
import subprocess

TYPES = {"deb": "deb", "rpm": "rpm", "apk": "apk", "alpine": "apk", "npm": "npm", "cargo": "cargo", "golang": "golang",
         "pypi": "pypi", "maven": "maven", "gem": "gem", "nuget": "nuget", "composer": "composer"}
VERSION_LEN_MAX = 128
LISTS = ["images/purls-real.txt.zst", "images/debian-purls.txt.zst"]
IN_DOCUMENTS = re.compile(rb'"(pkg:[^"\\]*)"')
IN_RANGE = re.compile(r"[\s,|()\[\]]+")


def content(path):
    """The bytes of a file, unpacked."""
    if path.suffix != ".zst":
        return path.read_bytes()
    return subprocess.run(["zstd", "-dcq", "--long=27", str(path)], check=True, capture_output=True).stdout


def percent_decoded(text):
    return re.sub(rb"%([0-9A-Fa-f]{2})", lambda m: bytes([int(m[1], 16)]), text.encode()).decode("utf-8", "replace")


def split_purl(purl):
    """Ecosystem, name and version of a purl; None for one of no interest here."""
    body, _, rest = purl.removeprefix("pkg:").partition("#")[0].partition("?")
    kind, slash, path = body.partition("/")
    ecosystem = TYPES.get(kind.lower())
    if not slash or ecosystem is None:
        return None
    at = path.rfind("@")
    # The at sign of a scope is no version's: something stands before it, and no slash after it.
    has_version = at > 0 and path[at - 1] != "/" and "/" not in path[at:]
    name, version = (path[:at], path[at + 1:]) if has_version else (path, "")
    version = percent_decoded(version)
    epochs = [pair[6:] for pair in rest.split("&") if pair.startswith("epoch=")]
    if ecosystem == "rpm" and epochs and ":" not in version and version:
        version = f"{epochs[0]}:{version}"
    return ecosystem, percent_decoded(name), version


def bounds(affected):
    """The versions that an advisory speaks of, whatever the language of its ranges."""
    texts = [event_version for span in affected.get("ranges", []) if span.get("type") != "GIT"
             for event in span["events"] for event_version in event.values()]
    for member in ("patched", "unaffected", "fixed", "versions"):
        listed = affected.get(member) or []
        texts += [listed] if isinstance(listed, str) else listed
    texts += [affected[member] for member in ("range", "vulnerable") if affected.get(member)]
    for text in texts:
        for token in IN_RANGE.split(text):
            yield token.lstrip("<>=!~^")


def gather(data):
    """Of each (ecosystem, name) the distinct versions, in the order of their bytes; names with one version are left out."""
    groups = {}

    def add(named, version):
        if named is not None and version and len(version.encode()) <= VERSION_LEN_MAX and \
                any(c.isdigit() and c.isascii() for c in version):
            groups.setdefault(named[:2], set()).add(version)

    for file in LISTS:
        for line in content(data / file).decode().splitlines():
            named = split_purl(line)
            add(named, named[2] if named else "")
    for file in sorted((data / "advisories").glob("*.jsonl.zst")):
        for line in content(file).decode().splitlines():
            for affected in json.loads(line)["affected"]:
                for purl in affected.get("purls") or [affected.get("purl", "")]:
                    for version in bounds(affected):
                        add(split_purl(purl), version)
    for folder in ("sbom", "vex"):
        for file in sorted((data / folder).rglob("*")):
            if file.is_file():
                for purl in IN_DOCUMENTS.findall(content(file)):
                    named = split_purl(purl.decode("utf-8", "replace"))
                    add(named, named[2] if named else "")
    ordered = sorted(groups.items(), key=lambda item: (item[0][0].encode(), item[0][1].encode()))
    return [(named, sorted(versions, key=str.encode)) for named, versions in ordered if len(versions) > 1]


if __name__ == "__main__":
    import collections
    import sys
    found = gather(pathlib.Path(sys.argv[1]))
    count = collections.Counter()
    for (ecosystem, _), versions in found:
        count[ecosystem, "names"] += 1
        count[ecosystem, "versions"] += len(versions)
        count[ecosystem, "pairs"] += len(versions) * (len(versions) - 1) // 2
    for key, number in sorted(count.items()):
        print(*key, number)
