#!/usr/bin/env python3
"""Makes of the shared data what the study replays: catalogs, exports by day, and which images each export is about.

The last is worked out here, by loops over packages and with other libraries than the service's, so that the service can be
held against it. Use: prepare.py DATA OUT
"""
import collections
import json
import pathlib
import re
import subprocess
import sys
import urllib.parse

from affected import Affected

CATALOGS = {
    "real": ("images/images-real.jsonl.zst", "images/purls-real.txt.zst"),
    "debian": ("images/images-debian-2k.jsonl.zst", "images/debian-purls.txt.zst"),
}
CODENAMES = {"wheezy": "7", "jessie": "8", "stretch": "9", "buster": "10", "bullseye": "11", "bookworm": "12"}
DISTROS = ("deb", "rpm", "apk")


def lines(path):
    done = subprocess.run(["zstd", "-dcq", "--long=27", str(path)], check=True, capture_output=True)
    return done.stdout.decode().splitlines()


def split(purl):
    """Type, namespace, name, version and qualifiers of a purl by the rules of matching; None for what is no purl."""
    body, _, rest = purl.removeprefix("pkg:").partition("#")[0].partition("?")
    ty, _, path = body.partition("/")
    at = path.rfind("@")
    has_version = at > 0 and path[at - 1] != "/" and "/" not in path[at:]
    path, version = (path[:at], path[at + 1:]) if has_version else (path, "")
    *spaces, name = [urllib.parse.unquote(part) for part in path.strip("/").split("/") if part not in ("", ".", "..")] or [""]
    if not name:
        return None
    ty, space, version = ty.lower(), "/".join(spaces), urllib.parse.unquote(version)
    qualifiers = dict(pair.split("=", 1) for pair in rest.split("&") if "=" in pair)
    if ty == "alpine":
        ty, space = "apk", space or "alpine"
    if ty in ("deb", "rpm", "apk", "composer", "pypi", "bitnami", "alpine"):
        space = space.lower()
        name = name if ty == "rpm" else name.lower()
    if ty == "pypi":
        name = re.sub(r"[-_.]+", "-", name)
    if ty in ("deb", "rpm"):
        epoch, colon, after = version.partition(":")
        if not (colon and epoch.isdigit() and after):
            epoch, after = qualifiers.get("epoch", ""), version
        epoch = epoch.lstrip("0")
        version = f"{epoch}:{after}" if epoch.isdigit() else after
    return ty, space, name, version, qualifiers


def source_of(ty, upstream, version):
    """Name and version of a source package as the `upstream` qualifier has it."""
    upstream = urllib.parse.unquote(upstream)
    if ty == "rpm" and upstream.endswith(".src.rpm"):
        name, own, release = upstream.removesuffix(".src.rpm").rsplit("-", 2)
        # A file name has no epoch; the packages built from it have the source's nearly always.
        epoch = version.partition(":")[0] + ":" if ":" in version else ""
        return name, f"{epoch}{own}-{release}"
    name, _, own = upstream.partition("@")
    return name, own or version


class Catalog:
    def __init__(self, data, images, purls, sources):
        self.purls = lines(data / purls)
        self.images = [json.loads(line) for line in lines(data / images)]
        # Binary packages of Debian whose document has lost the record of the source.
        self.sources = {}
        self.packages = collections.defaultdict(list)
        self.images_of = collections.defaultdict(list)
        for number, image in enumerate(self.images):
            for purl in image["purls"]:
                self.images_of[purl].append(number)
        for number in sorted(self.images_of):
            parts = split(self.purls[number])
            if parts is None:
                continue
            ty, space, name, version, qualifiers = parts
            names = [(name, version)]
            if ty in DISTROS and "upstream" in qualifiers:
                names.append(source_of(ty, qualifiers["upstream"], version))
            elif (ty, space) == ("deb", "debian") and sources.get(name, name) != name:
                self.sources[number] = sources[name]
                names.append((sources[name], version))
            for name, version in names:
                self.packages[ty, space, name].append((number, version, qualifiers.get("distro", "")))

    def write(self, path):
        with path.open("w") as out:
            for image in self.images:
                packages = [{"purl": self.purls[number], "source": self.sources.get(number)} for number in image["purls"]]
                repository = image.get("repo") or "unknown"
                out.write(json.dumps({"digest": image["digest"], "repository": repository, "packages": packages}) + "\n")


class Entry:
    """One package of one advisory."""

    def __init__(self, purl, record):
        self.purl, parts = purl, split(purl)
        self.ty, self.space, self.name, _, qualifiers = parts
        self.distro = qualifiers.get("distro", "")
        self.affected = Affected(self.ty, record)
        self.vers = self.affected.vers()

    def change(self):
        return {"key": self.purl, "affected": self.vers}

    def is_of(self, distro):
        """Whether the entry is about that distribution's version; when one does not say, it may be."""
        if not (distro and self.distro):
            return True
        wanted = f"debian-{CODENAMES[self.distro]}" if self.distro in CODENAMES else self.distro
        return distro == wanted or distro.startswith(wanted + ".")


def advisories(data):
    """The entries of each advisory id."""
    entries = collections.defaultdict(list)
    for file in sorted((data / "advisories").glob("*.jsonl.zst")):
        for line in lines(file):
            advisory = json.loads(line)
            for record in advisory["affected"]:
                for purl in record.get("purls") or [record["purl"]]:
                    if split(purl) is not None:
                        entries[advisory["id"]].append(Entry(purl, record))
    return entries


class Judge:
    """Which images an entry is about, and what was said of each version on the way."""

    def __init__(self, catalog):
        self.catalog, self.checks, self.found = catalog, {}, {}

    def images(self, entry):
        known = self.found.get(id(entry))
        if known is None:
            known = self.found[id(entry)] = self.look(entry)
        return known

    def look(self, entry):
        """The images whose findings the entry makes or may make, and whether any package has its name."""
        images, packages = set(), self.catalog.packages.get((entry.ty, entry.space, entry.name), [])
        for number, version, distro in packages:
            verdict = entry.affected.affects(version) if version else None
            if version and entry.vers:
                self.checks[entry.ty, version, " ".join(entry.vers)] = verdict
            if verdict is not False and entry.is_of(distro):
                images.update(self.catalog.images_of[number])
        return images, bool(packages)


def replay(data, catalog, entries, out, checks):
    judge = Judge(catalog)
    with out.open("w") as file:
        for line in lines(data / "replay/advisory-days.jsonl.zst"):
            day = json.loads(line)
            for kind in ("published", "modified"):
                groups = collections.defaultdict(lambda: ([], set()))
                for advisory in dict.fromkeys(day[kind]):
                    for entry in entries.get(advisory, []):
                        # One that says that no version is affected is no change of the package.
                        if entry.vers == []:
                            continue
                        images, is_there = judge.images(entry)
                        for group in ("all", entry.ty) if is_there else ("all",):
                            groups[group][0].append(entry.change())
                            groups[group][1].update(images)
                for group, (changes, images) in groups.items():
                    file.write(json.dumps({"day": day["day"], "kind": kind, "group": group, "changes": changes,
                                           "relevant": sorted(images)}) + "\n")
    with checks.open("w") as file:
        for (ty, version, vers), verdict in sorted(judge.checks.items()):
            file.write(json.dumps({"type": ty, "version": version, "vers": vers.split(" "), "affected": verdict}) + "\n")


def main():
    data, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    rows = [line.split("\t") for line in lines(data / "images/debian-source-map.tsv.zst")]
    sources = {row[0]: row[1] for row in rows}
    entries = advisories(data)
    for name, (images, purls) in CATALOGS.items():
        catalog = Catalog(data, images, purls, sources)
        catalog.write(out / f"{name}-images.jsonl")
        replay(data, catalog, entries, out / f"{name}-exports.jsonl", out / f"{name}-verdicts.jsonl")
        print(f"{name}: {len(catalog.images)} images", file=sys.stderr)


if __name__ == "__main__":
    main()
