"""Names that differ from a wanted name in capital letters or blanks alone: `ID` and ` id` for `id`.

A missing name is null, and other names are ignored. A value under such a name would be lost.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Names = tuple[str, ...]


def spelt_otherwise(keys: Iterable[str], names: Sequence[str]) -> dict[str, Names]:
    """Return the keys that differ from names in capital letters or blanks alone, with the names."""
    others = set(keys).difference(names)
    if not others:
        return {}
    alike: dict[str, Names] = {}
    for name in names:
        alike[_plainly(name)] = (*alike.get(_plainly(name), ()), name)
    return {key: alike[_plainly(key)] for key in sorted(others) if _plainly(key) in alike}


def keys_spelt_otherwise(
    objects: Iterable[Mapping[str, Any] | None], names: Sequence[str]
) -> Mapping[str, Names]:
    """Return what `spelt_otherwise` returns for the keys of objects that lack a name."""
    known = set(names)
    lacking = (value for value in objects if value is not None and not known <= value.keys())
    return spelt_otherwise({key for value in lacking for key in value}, names)


def lost_key(value: Mapping[str, Any], otherwise: Mapping[str, Names]) -> str | None:
    """Return the first key of an object whose value would be lost, as the object lacks a name."""
    if not otherwise:
        return None
    keys = otherwise.keys() & value.keys()
    return next((key for key in sorted(keys) if _lacking(value, otherwise[key])), None)


def why_lost(value: Mapping[str, Any], otherwise: Mapping[str, Names]) -> str | None:
    """Return why an object is rejected whose value would be lost; None: none would be."""
    key = lost_key(value, otherwise)
    if key is None:
        return None
    column = _lacking(value, otherwise[key])[0]
    if _plainly(key) != _plainly(column):
        return (
            f"the key {key} is a name that the shard has or had for what the source calls "
            f"{column}: write {column}, or correct source.names"
        )
    what = "capital letters" if key == key.strip() else "blanks or capital letters"
    return f"the key {key} differs from the column {column} in {what} alone"


def _lacking(value: Mapping[str, Any], names: Names) -> list[str]:
    return [name for name in names if name not in value]


def _plainly(name: str) -> str:
    return name.strip().lower()
