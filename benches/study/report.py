#!/usr/bin/env python3
"""Makes the tables and the plot of `docs/results/precision.md` of what `study` wrote. Use: report.py FOLDER DOCS

The page keeps its text: only what stands between the two marks is made anew.
"""
import collections
import csv
import math
import pathlib
import sys

CATALOGS = {"real": "real images", "debian": "Debian images"}
BEGIN, END = "<!-- made by `make study` -->", "<!-- end of what `make study` makes -->"
COUNTS = ("asked", "narrowed", "relevant", "hit", "hit_narrowed")


def rows(path):
    with path.open() as file:
        for row in csv.DictReader(file):
            yield {name: int(value) if value.isdigit() else value for name, value in row.items()}


def sums(folder, name):
    """By (kind, group): the number of exports, of images, and the sums of the counts."""
    found = collections.defaultdict(collections.Counter)
    for row in rows(folder / f"{name}-asked.csv"):
        total = found[row["kind"], row["group"]]
        total["exports"] += 1
        total["everything"] += row["images"]
        for count in COUNTS:
            total[count] += row[count]
    return found


def missed(found):
    """Affected images that nobody asks for: there must be none."""
    return sum(2 * total["relevant"] - total["hit"] - total["hit_narrowed"] for total in found.values())


def share(part, whole):
    return "-" if whole == 0 else f"{100 * part / whole:.1f} %"


def number(value):
    return f"{value:,}"


def table(head, body):
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def line_of(label, total):
    return [
        label, number(total["exports"]), number(total["everything"]), number(total["asked"]), number(total["narrowed"]),
        number(total["relevant"]), share(total["hit"], total["relevant"]), share(total["hit_narrowed"], total["relevant"]),
        share(total["hit"], total["asked"]), share(total["hit_narrowed"], total["narrowed"]),
    ]


HEAD = ["", "exports", "rescan everything", "asked by key", "asked, narrowed", "affected", "recall", "recall, narrowed",
        "precision", "precision, narrowed"]


def tables(folder):
    found = {name: sums(folder, name) for name in CATALOGS}
    if any(missed(of_catalog) for of_catalog in found.values()):
        sys.exit("affected images are not asked for: recall is below 1")
    whole = [line_of(f"{label}, {kind}", found[name][kind, "all"])
             for name, label in CATALOGS.items() for kind in ("published", "modified")]
    groups = sorted({group for _, group in found["real"]} - {"all"})
    by_type = [line_of(group, found["real"]["published", group]) for group in groups]
    checks = collections.Counter()
    for name in CATALOGS:
        for row in rows(folder / f"{name}-checks.csv"):
            checks[row["type"], row["left_out"], row["affected"]] += row["count"]
    judged = []
    for ty in sorted({key[0] for key in checks}):
        count = lambda left_out, affected: checks[ty, left_out, affected]
        judged.append([ty, *(number(count(*way)) for way in (
            ("false", "yes"), ("true", "yes"), ("true", "no"), ("false", "no"), ("false", "unknown"), ("true", "unknown")))])
    return (
        table(HEAD, whole) + "\n\nThe advisories that are published, real images, by ecosystem (an export of several ecosystems"
        " counts in each):\n\n" + table(HEAD, by_type)
        + "\n\nEach distinct pair of a version and the ranges of a change, by ecosystem:\n\n"
        + table(["", "affected, kept", "affected, left out", "not affected, left out", "not affected, kept", "not known, kept",
                 "not known, left out"], judged)
    )


def steps(folder, name):
    """Cumulative sums by day of what is published: everything, asked, narrowed, affected."""
    total, found = collections.Counter(), []
    for row in rows(folder / f"{name}-asked.csv"):
        if (row["kind"], row["group"]) != ("published", "all"):
            continue
        year, month, day = (int(part) for part in row["day"].split("-"))
        for count, column in (("everything", "images"), ("asked", "asked"), ("narrowed", "narrowed"), ("relevant", "relevant")):
            total[count] += row[column]
        found.append((year + (month - 1) / 12 + (day - 1) / 365, dict(total)))
    return found


LINES = [("everything", "rescan everything", "#8c8c8c"), ("asked", "asked by key", "#d1495b"),
         ("narrowed", "asked, narrowed by range", "#2e86ab"), ("relevant", "affected", "#3b7a57")]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 940, 400, 88, 250, 34, 36


def plot(folder, name, label):
    """The sums over the years as lines on a logarithmic scale."""
    found = steps(folder, name)
    first, last = math.floor(found[0][0]), math.ceil(found[-1][0])
    top = math.ceil(math.log10(max(found[-1][1]["everything"], 10)))
    x = lambda year: LEFT + (year - first) / (last - first) * (WIDTH - LEFT - RIGHT)
    y = lambda value: HEIGHT - BOTTOM - math.log10(max(value, 1)) / top * (HEIGHT - TOP - BOTTOM)
    text = lambda left, at, what, extra="": f'<text x="{left:.1f}" y="{at:.1f}" {extra}>{what}</text>'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
             text(LEFT, 20, f"Images asked for since {first}, {label}, summed over the days of published advisories")]
    for power in range(top + 1):
        at = y(10 ** power)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#e4e4e4"/>')
        parts.append(text(LEFT - 8, at + 4, f"{10 ** power:,}", 'text-anchor="end"'))
    for year in range(first, last + 1, 4):
        parts.append(text(x(year), HEIGHT - BOTTOM + 18, year, 'text-anchor="middle"'))
    ends = []
    for count, what, colour in LINES:
        points = [(x(at), y(total[count])) for at, total in found if total[count] > 0]
        # One point for each tenth of a pixel is enough.
        thin = [point for at, point in enumerate(points) if at == 0 or at == len(points) - 1 or
                round(point[0]) != round(points[at - 1][0])]
        if thin:
            path = "M" + " L".join(f"{left:.1f},{at:.1f}" for left, at in thin)
            parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        ends.append([points[-1][1] if points else y(1), what, colour, found[-1][1][count]])
    ends.sort()
    for above, below in zip(ends, ends[1:]):
        below[0] = max(below[0], above[0] + 15)
    for at, what, colour, value in ends:
        parts.append(text(WIDTH - RIGHT + 8, at + 4, f"{what}: {value:,}", f'fill="{colour}"'))
    return "\n".join([*parts, "</svg>"]) + "\n"


def main():
    folder, docs = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    for name, label in CATALOGS.items():
        (docs / f"precision-{name}.svg").write_text(plot(folder, name, label))
    page = docs / "precision.md"
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{tables(folder)}\n\n{END}{after}")


if __name__ == "__main__":
    main()
