"""Names and Arrow types of statistics: the columns that a manifest carries for each part.

    rows                 int64    updates in the part
    s.{id}               struct   one column of the relation, by id: a rename keeps it
    s.{id}$  s.{id}$.a   struct   one path of a JSON column: the root, then a key, and so on
    s.{id}/a  s.{id}/[]  struct   a place inside a nested column: a field of a record, the elements
                                  of a list, `{k}` and `{v}` the keys and values of a map

A whole struct that is null, or a column that is missing, means *unknown*. One exception: a path
without statistics whose nearest known ancestor is `complete` is known to be absent in every row.
A path is the tuple of its keys; lists are not descended. A low or high that is null means that
no bound is known on that side, unless the counts show that there are no values at all.

Beside these, for chosen places only (`strata.stats.members`), by the place's name without `s.`:

    s.set.5  s.set.5$.a      struct   the values of a place, if they are few
    s.bloom.5  s.bloom.5/[]  struct   where the bloom filter of its values is stored

And for places of text, where all texts have one (`strata.stats.shapes`):

    s.shape.5  s.shape.5/a   struct   what all texts of a place are written like

And for pairs of places that a declaration names (`strata.stats.pairs`):

    s.pair.5~7  s.pair.5/a~7  struct  how the values of two places of one row differ

Inside a nested column there is one value a row, until a step into a list or a map. From there on
the values are the elements of all rows, and every struct has their `count`.
"""

import re
from typing import Final

import pyarrow as pa

from strata.format.encodings import arrow_type, encoding
from strata.model.types import ColumnType, Kind

STATS_VERSION: Final = 1  # grows when the meaning of statistics changes; older ones are backfilled

ROWS: Final = "rows"
PREFIX: Final = "s."
SETS: Final = "s.set."
BLOOMS: Final = "s.bloom."
SHAPES: Final = "s.shape."
PAIRS: Final = "s.pair."
OF_VALUES: Final = (SETS, BLOOMS, SHAPES, PAIRS)  # beside bounds and counts
ROOT: Final = "$"

# Steps into nested values. Fields are plain or quoted, so no field can have these names.
ELEMENT: Final = "[]"
KEYS: Final = "{k}"
VALUES: Final = "{v}"

Path = tuple[str, ...]  # the keys that lead to a place in JSON
Steps = tuple[str, ...]  # the steps into nested values: see `field_step` and the three above

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME: Final = re.compile(r"s\.([0-9]+)(?:(\$.*)|((?:/.*)?))", re.DOTALL)
_INSIDE: Final = re.compile(
    r"/(\[\]|\{[kv]\}|[A-Za-z_][A-Za-z0-9_]*|\['(?:[^'\\]|\\.)*'\])", re.DOTALL
)
_SIDE: Final = r"[0-9]+(?:/(?:\[\]|\{[kv]\}|[A-Za-z_][A-Za-z0-9_]*|\['(?:[^'\\]|\\.)*'\]))*"
_PAIR: Final = re.compile(rf"s\.pair\.({_SIDE})~({_SIDE})", re.DOTALL)
_STEP: Final = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\['((?:[^'\\]|\\.)*)'\]", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(u[0-9a-f]{4}|.)", re.DOTALL)
_TO_ESCAPE: Final = re.compile(r"[\\'\x00-\x1f\x7f]")

_JSON_FIELDS: Final = (
    ("present", pa.int64()),  # rows in which the path exists
    ("json_nulls", pa.int64()),
    ("bools", pa.int64()),
    ("trues", pa.int64()),
    ("numbers", pa.int64()),
    ("integers", pa.int64()),  # numbers written without fraction and exponent
    ("num_low", pa.float64()),  # rounded outward
    ("num_high", pa.float64()),
    ("num_exact", pa.bool_()),  # both number bounds are values that occur
    ("strings", pa.int64()),
    ("str_low", pa.string()),
    ("str_high", pa.string()),
    ("str_low_exact", pa.bool_()),
    ("str_high_exact", pa.bool_()),
    ("lists", pa.int64()),
    ("maps", pa.int64()),
    ("complete", pa.bool_()),  # every key of these maps has a path column of its own
)

# `form` says how values are written as bytes. `values` null: there are too many, or they cannot be
# known. A filter's `bits` are never stored in a manifest: readers add them once they are fetched.
SET: Final = pa.struct([("form", pa.string()), ("values", pa.list_(pa.binary()))])
BLOOM: Final = pa.struct(
    [
        ("form", pa.string()),
        ("key", pa.string()),
        ("size_bytes", pa.int64()),
        ("distinct", pa.int64()),
    ]
)
BITS: Final = "bits"

# Few fields, since a manifest pays for each in each column. `whole`: the numbers have no fraction,
# and their bounds are rounded outward; others are rounded to the nearest. `low` and `high` null:
# some text is no number. `patterns`: of moments, with a line for each.
SHAPE: Final = pa.struct(
    [
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("whole", pa.bool_()),
        ("patterns", pa.string()),
    ]
)

# Of two places, left and right, with a form for the types of both. An empty form: nothing can be
# known. `low` and `high` enclose left - right, `ratio_low` and `ratio_high` the doubles that
# left / right gives. Bounds are rounded outward.
PAIR: Final = pa.struct(
    [
        ("form", pa.string()),
        ("both", pa.int64()),  # rows in which neither is null
        ("zeros", pa.int64()),  # rows in which the right one is zero
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("ratio_low", pa.float64()),
        ("ratio_high", pa.float64()),
    ]
)

JSON_PATH: Final = pa.struct(list(_JSON_FIELDS))
# Of a JSON column. `paths`: how many different paths the texts have, of up to 8 keys, the root not
# counted. Each piece of a part counts its own, so that a part may have more, never fewer.
DOCUMENTS: Final = pa.struct([("nulls", pa.int64()), ("paths", pa.int64())])
LENGTHS: Final = ("shortest", "longest")  # of the lists or maps that are not null; exact


def column_name(column_id: int) -> str:
    """Return the name of the statistics of a column of the relation."""
    return f"{PREFIX}{column_id}"


def path_name(column_id: int, path: Path) -> str:
    r"""Return the name of the statistics of a path inside a JSON column.

    >>> path_name(5, ("a", "it's odd"))
    "s.5$.a['it\\'s odd']"
    """
    return f"{PREFIX}{column_id}{ROOT}" + "".join(_step(key) for key in path)


def parse_name(name: str) -> tuple[int, Path | None] | None:
    """Return the column id and the JSON path that a statistics name stands for.

    The path is None for the column itself and for places inside a nested one (`parse_inside`);
    the result is None for any other name.

    >>> parse_name("s.5"), parse_name("s.5$"), parse_name("s.5$.a['b c']"), parse_name("rows")
    ((5, None), (5, ()), (5, ('a', 'b c')), None)
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    if match[2] is None:
        return None if _inside(match[3]) is None else (int(match[1]), None)
    path = _steps(match[2])
    return None if path is None else (int(match[1]), path)


def inside_name(column_id: int, steps: Steps) -> str:
    """Return the name of the statistics of a place inside a nested column.

    >>> inside_name(5, (field_step("lat"),)), inside_name(5, (ELEMENT, field_step("a/b")))
    ('s.5/lat', "s.5/[]/['a/b']")
    """
    return f"{PREFIX}{column_id}" + "".join(f"/{step}" for step in steps)


def field_step(name: str) -> str:
    """Return the step into a field of a record, quoted if the name is unusual."""
    return name if _PLAIN.fullmatch(name) else f"['{_TO_ESCAPE.sub(_escape, name)}']"


def parse_inside(name: str) -> tuple[int, Steps] | None:
    """Return the column id and the steps that a statistics name stands for.

    Errs: None for JSON paths and for any other name.

    >>> parse_inside("s.5"), parse_inside("s.5/[]/['a/b']"), parse_inside("s.5$")
    ((5, ()), (5, ('[]', "['a/b']")), None)
    """
    match = _NAME.fullmatch(name)
    steps = None if match is None or match[2] is not None else _inside(match[3])
    return None if match is None or steps is None else (int(match[1]), steps)


def set_name(place: str) -> str:
    """Return the name of the set of a place's values.

    >>> set_name("s.5$.a"), bloom_name("s.5/[]")
    ('s.set.5$.a', 's.bloom.5/[]')
    """
    return SETS + place.removeprefix(PREFIX)


def bloom_name(place: str) -> str:
    """Return the name of the bloom filter of a place's values."""
    return BLOOMS + place.removeprefix(PREFIX)


def shape_name(place: str) -> str:
    """Return the name of the shape of a place's texts."""
    return SHAPES + place.removeprefix(PREFIX)


def pair_name(left: str, right: str) -> str:
    """Return the name of the statistics of two places together.

    >>> pair_name("s.5", "s.7/a"), parse_pair("s.pair.5~7/a"), parse_pair("s.5")
    ('s.pair.5~7/a', ('s.5', 's.7/a'), None)
    """
    return f"{PAIRS}{left.removeprefix(PREFIX)}~{right.removeprefix(PREFIX)}"


def parse_pair(name: str) -> tuple[str, str] | None:
    """Return the two places that a statistics name stands for; None for any other name."""
    match = _PAIR.fullmatch(name)
    return None if match is None else (PREFIX + match[1], PREFIX + match[2])


def place_of(name: str) -> str:
    """Return the place that any statistics column is about; other names are returned as they are.

    A pair is about two places, so what is returned for its name is none.

    >>> place_of("s.set.5$.a"), place_of("s.5"), place_of("rows")
    ('s.5$.a', 's.5', 'rows')
    """
    for prefix in OF_VALUES:
        if name.startswith(prefix):
            return PREFIX + name.removeprefix(prefix)
    return name


def is_summary(name: str) -> bool:
    """Return whether a column is of the bounds and counts of one place."""
    return name.startswith(PREFIX) and not name.startswith(OF_VALUES)


def is_budgeted(name: str) -> bool:
    """Return whether a column is one of those that a budget limits."""
    return is_summary(name) or name.startswith(PAIRS)


def parent_name(name: str) -> str | None:
    """Return the name of the parent's statistics, for a path or a place inside a column.

    >>> parent_name("s.5$.a.b"), parent_name("s.5/[]/lat"), parent_name("s.5"), parent_name("s.5$")
    ('s.5$.a', 's.5/[]', None, None)
    """
    parsed, inside = parse_name(name), parse_inside(name)
    if parsed is not None and parsed[1]:
        return path_name(parsed[0], parsed[1][:-1])
    return inside_name(inside[0], inside[1][:-1]) if inside is not None and inside[1] else None


def has_bounds(column_type: ColumnType) -> bool:
    """Return whether statistics of this type have a low and a high."""
    kind = encoding(column_type)
    return kind.stats == "range" and not pa.types.is_struct(kind.arrow(column_type))


def scalar_type(column_type: ColumnType, *, counted: bool = False) -> pa.StructType:
    """Return the Arrow type of the statistics of a column that is not JSON.

    `counted`: the place is inside lists or maps, so the number of values is included.
    """
    fields = [("count", pa.int64())] if counted else []
    fields.append(("nulls", pa.int64()))
    if column_type.kind in (Kind.LIST, Kind.MAP):
        fields += [(name, pa.int64()) for name in LENGTHS]
    if not has_bounds(column_type):
        return pa.struct(fields)
    value = arrow_type(column_type)
    fields += [("nans", pa.int64())] if pa.types.is_floating(value) else []
    fields += [("low", value), ("high", value)]
    return pa.struct([*fields, ("low_exact", pa.bool_()), ("high_exact", pa.bool_())])


def _inside(text: str) -> Steps | None:
    steps = tuple(_INSIDE.findall(text))
    return steps if "".join(f"/{step}" for step in steps) == text else None


def _step(key: str) -> str:
    if _PLAIN.fullmatch(key):
        return f".{key}"
    return f"['{_TO_ESCAPE.sub(_escape, key)}']"


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    # Control characters are written out: a NUL would end the name in Arrow's C interface.
    return f"\\{char}" if char in "\\'" else f"\\u{ord(char):04x}"


def _unescape(key: str) -> str:
    return _ESCAPED.sub(lambda m: chr(int(m[1][1:], 16)) if len(m[1]) == 5 else m[1], key)


def _steps(text: str) -> Path | None:
    """Return the keys that a path names, None if one is malformed; the text begins with `ROOT`."""
    keys: list[str] = []
    position = len(ROOT)
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            return None
        keys.append(match[1] if match[1] is not None else _unescape(match[2]))
        position = match.end()
    return tuple(keys)
