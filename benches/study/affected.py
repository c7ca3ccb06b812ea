"""Which versions an advisory affects, read from the language of its source and judged by Python libraries.

A second way beside `crates/versions`: nothing of that crate is used here, neither its reading of ranges nor its orders.
"""
import functools
import re

import semver
import univers.versions as univers
from packaging.version import Version as PypiVersion


def semantic(text, short=False):
    """A semantic version; `short` ones may lack the minor or patch number."""
    text = text.removeprefix("v")
    core = re.split("[-+]", text)[0]
    if short and core == text or short and "+" in text and core == text.split("+")[0]:
        text = core + ".0" * (2 - core.count(".")) + text[len(core):]
    return semver.Version.parse(text)


class Composer:
    """Composer's order; the library lacks the fourth number."""
    STABILITY = {"alpha": 0, "a": 0, "beta": 1, "b": 1, "rc": 2, "": 3, "stable": 3, "patch": 4, "pl": 4, "p": 4}

    def __new__(cls, text):
        found = re.fullmatch(r"v?(\d+(?:\.\d+){0,3})(?:[.-]?([a-z]+)[.-]?(\d*))?", text.lower().split("+")[0])
        if not found or (found[2] or "") not in cls.STABILITY:
            raise ValueError(text)
        numbers = [int(part) for part in found[1].split(".")]
        return (numbers + [0] * (4 - len(numbers)), cls.STABILITY[found[2] or ""], int(found[3] or -1))


def rpm(text):
    return univers.RpmVersion(text)


READERS = {
    "deb": univers.DebianVersion,
    "rpm": rpm,
    "npm": semantic,
    "cargo": semantic,
    "golang": lambda text: semantic(text.removeprefix("go"), short=True),
    "pypi": PypiVersion,
    "maven": univers.MavenVersion,
    "gem": univers.RubygemsVersion,
    "nuget": univers.NugetVersion,
    "composer": Composer,
}


@functools.cache
def read(ty, text):
    """The version; None when the library refuses it."""
    try:
        return READERS[ty](text)
    except Exception:
        return None


def order(ty, left, right):
    """-1, 0 or 1; raises ValueError for what cannot be compared."""
    left, right = read(ty, left), read(ty, right)
    if left is None or right is None:
        raise ValueError("no version")
    if ty == "pypi" and right.local is None:
        left = PypiVersion(left.public)
    return -1 if left < right else 1 if right < left else 0


# An interval is (lowest, whether that is in it, highest, whether that is in it); None is no bound.
ALL = (None, False, None, False)


def within(ty, version, interval):
    low, with_low, high, with_high = interval
    if low is not None:
        at = order(ty, version, low)
        if at < 0 or at == 0 and not with_low:
            return False
    if high is not None:
        at = order(ty, version, high)
        if at > 0 or at == 0 and not with_high:
            return False
    return True


def meet(ty, one, other):
    """What two intervals have in common."""
    low, high = one[:2], one[2:]
    if other[0] is not None and (low[0] is None or order(ty, other[0], low[0]) > 0 or other[0] == low[0] and not other[1]):
        low = other[:2]
    if other[2] is not None and (high[0] is None or order(ty, other[2], high[0]) < 0 or other[2] == high[0] and not other[3]):
        high = other[2:]
    return low + high


def is_empty(ty, interval):
    low, with_low, high, with_high = interval
    if low is None or high is None:
        return False
    at = order(ty, low, high)
    return at > 0 or at == 0 and not (with_low and with_high)


def complement(ty, intervals):
    """What is in none of the intervals."""
    left = [ALL]
    for low, with_low, high, with_high in intervals:
        cut = []
        for one in left:
            if low is not None:
                cut.append(meet(ty, one, (None, False, low, not with_low)))
            if high is not None:
                cut.append(meet(ty, one, (high, not with_high, None, False)))
        left = [one for one in cut if not is_empty(ty, one)]
    return left


def next_of(numbers):
    """The version that comes after all that begin with these numbers."""
    return ".".join(map(str, [*numbers[:-1], numbers[-1] + 1]))


def padded(ty, text, places=3):
    """A short version of an ecosystem that knows none."""
    if ty not in ("npm", "cargo"):
        return text
    core, rest = re.match(r"v?([\d.]*)(.*)", text).groups()
    numbers = [part for part in core.split(".") if part]
    return ".".join(numbers + ["0"] * (places - len(numbers))) + rest


def constraint(ty, sign, text):
    """A comparator with a version as an interval."""
    short = [int(part) for part in re.match(r"v?([\d.]*)", text)[1].split(".") if part]
    partial = ty in ("npm", "cargo") and len(short) < 3 or text.endswith((".x", ".*"))
    whole = text.removesuffix(".x").removesuffix(".*")
    if text in ("*", "x", "") or partial and not short:
        return ALL
    low = padded(ty, whole)
    if sign in ("^", "~", "~>") or partial and sign in ("", "=", "==", "<=", ">"):
        if sign == "^":
            fixed = 1 + next((at for at, number in enumerate(short) if number), len(short) - 1)
        elif sign == "~>":
            fixed = max(len(short) - 1, 1)
        elif sign == "~":
            fixed = min(len(short), 2)
        else:
            fixed = len(short)
        high = padded(ty, next_of(short[:fixed]))
        if sign == "<=":
            return (None, False, high, False)
        if sign == ">":
            return (high, True, None, False)
        return (low, True, high, False)
    return {
        "<": (None, False, low, False), "<=": (None, False, low, True), ">": (low, False, None, False),
        ">=": (low, True, None, False), "=": (low, True, low, True), "==": (low, True, low, True), "": (low, True, low, True),
    }[sign]


def comparators(ty, text):
    """Comparators that hold together, with blanks or commas between them."""
    text = re.sub(r"([<>=~^!]+)\s+", r"\1", text.strip())
    hyphen = re.fullmatch(r"(\S+) - (\S+)", text)
    if hyphen:
        return meet(ty, constraint(ty, ">=", hyphen[1]), constraint(ty, "<=", hyphen[2]))
    parts = [part for part in re.split(r"[\s,]+", text) if part]
    found = [re.fullmatch(r"([<>=~^!]*)(.*)", part).groups() for part in parts]
    return functools.reduce(lambda a, b: meet(ty, a, b), (constraint(ty, *one) for one in found), ALL)


def brackets(text):
    """Intervals as Maven and NuGet write them."""
    found = []
    for left, inner, right in re.findall(r"([\[(])([^\[\]()]*)([\])])", text):
        low, comma, high = (part.strip() for part in inner.partition(","))
        if not comma:
            high = low
        found.append((low or None, left == "[", high or None, right == "]"))
    if not found:
        raise ValueError(text)
    return found


def intervals_of(ty, text):
    """A range in the language of its ecosystem."""
    if text.lstrip().startswith(("[", "(")):
        return brackets(text)
    return [comparators(ty, part) for part in text.split("||")]


def osv(spans):
    """Intervals of OSV events."""
    found = []
    for span in spans:
        if span.get("type") == "GIT":
            continue
        low = None
        for event in span["events"]:
            (kind, version), = event.items()
            if kind == "introduced":
                if low is not None:
                    found.append((*low, None, False))
                low = (None, False) if version == "0" else (version, True)
            elif kind in ("fixed", "last_affected"):
                found.append((*(low or (None, False)), version, kind == "last_affected"))
                low = None
        if low is not None:
            found.append((*low, None, False))
    return found


class Affected:
    """The affected versions of one package by one advisory."""

    def __init__(self, ty, record):
        self.ty, self.known = ty, ty in READERS
        self.safe = self.hit = None
        try:
            if "patched" in record and record.get("vulnerable") is None:
                listed = (record.get("patched") or []) + (record.get("unaffected") or [])
                self.safe = [comparators(ty, one) for one in listed]
                self.hit = complement(ty, self.safe) if self.known else None
            elif record.get("state"):
                self.hit = [] if record["state"] == "<not-affected>" else [ALL]
            elif record.get("ranges") is not None:
                self.hit = osv(record["ranges"]) or [ALL]
            elif record.get("vulnerable") or record.get("range"):
                self.hit = intervals_of(ty, record.get("vulnerable") or record["range"])
        except (ValueError, KeyError, AttributeError, TypeError):
            self.safe = self.hit = None

    @functools.lru_cache(maxsize=None)
    def affects(self, version):
        """Whether a version is affected; None when nobody can tell."""
        if self.hit is None or not self.known:
            return None
        try:
            # What a list of safe versions leaves is judged by the list itself, not by what was made of it.
            if self.safe is not None:
                return not any(within(self.ty, version, one) for one in self.safe)
            return any(within(self.ty, version, one) for one in self.hit)
        except ValueError:
            return None

    def vers(self):
        """`vers` ranges that say the same, to be united; None: it cannot be said."""
        if self.hit is None:
            return None
        texts = []
        for low, with_low, high, with_high in self.hit:
            parts = [f">{'=' * with_low}{escaped(low)}"] if low is not None else []
            parts += [f"<{'=' * with_high}{escaped(high)}"] if high is not None else []
            if low is not None and low == high:
                parts = [escaped(low)]
            texts.append(parts or ["*"])
        if len(texts) > 1 and not self.is_ascending():
            return [f"vers:{self.ty}/{'|'.join(parts)}" for parts in texts]
        # Nothing is affected, and every version there is says so.
        return [f"vers:{self.ty}/{'|'.join(part for parts in texts for part in parts)}"] if texts else []

    def is_ascending(self):
        """Whether the intervals come one after the other, as the notation wants it."""
        try:
            pairs = zip(self.hit, self.hit[1:])
            return all(a[2] is not None and b[0] is not None and order(self.ty, a[2], b[0]) <= 0 for a, b in pairs)
        except ValueError:
            return False


def escaped(version):
    return "".join(f"%{ord(c):02X}" if c in "%|,<>=!* /" else c for c in version)
