"""Proposes names of columns for the names of a source that no shard can have, or nobody should.

A shard takes no name that every update has, and case does not distinguish two of its columns.
Blanks
at the ends of a name and control characters in it are not seen by people who write filters.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from unicodedata import category

from strata.errors import InvalidRequest
from strata.model.spec import RESERVED

_UNSEEN = ("Cc", "Cf", "Zl", "Zp")  # categories of characters: control, format, separators


def proposed_names(names: Iterable[str]) -> Mapping[str, tuple[str, str]]:
    """Return another name, and why, for each name of a source that is none for a column.

    >>> found = proposed_names(["t", "Name", "name", " x "])
    >>> {name: column for name, (column, _) in found.items()}
    {'t': 't_', 'name': 'name_2', ' x ': 'x'}
    """
    names = list(names)
    found: dict[str, tuple[str, str]] = {}
    taken: set[str] = set()
    for name in names:
        if name and _plainly(name) == name and name.lower() not in RESERVED | taken:
            taken.add(name.lower())
    kept = set(taken)
    for number, name in enumerate(names):
        plain = _plainly(name)
        if plain == name and name.lower() in kept:
            kept.discard(name.lower())
            continue
        base = plain or f"_c{number}"
        first = [base, f"{base}_"]
        why = "with blanks at its ends, or characters that nobody sees"
        if not plain:
            why = "a column needs a name"
        elif plain.lower() in RESERVED:
            why = "every update has a column of this name"
        elif plain == name:
            why = "case does not distinguish two columns"
            first = []
        tried = (*first, *(f"{base}_{n}" for n in range(2, len(names) + 3)))
        column = next(one for one in tried if one.lower() not in RESERVED | taken)
        taken.add(column.lower())
        found[name] = (column, why)
    return found


def check_spelling(files: Sequence[Iterable[str]]) -> None:
    """Refuse files that spell one column in several ways; `files`: the names that each has.

    Two names that differ in case or blanks alone are two columns only if one file has both.
    Raises: InvalidRequest.
    """
    alike: dict[str, str] = {}
    there = [frozenset(names) for names in files]
    for name in dict.fromkeys(chain.from_iterable(files)):
        other = alike.setdefault(_plainly(name).lower(), name)
        if other != name and not any({name, other} <= names for names in there):
            raise InvalidRequest(
                "two files spell a column otherwise",
                column=other,
                other=name,
                cure="give it one name in all files, or infer from those that have the same name",
            )


def _plainly(name: str) -> str:
    """Return a name without blanks at its ends, and with `_` for what nobody sees."""
    return "".join("_" if category(c) in _UNSEEN else c for c in name.strip().strip("\ufeff"))
