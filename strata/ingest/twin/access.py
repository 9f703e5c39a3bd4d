"""Access rights: who may do what, and who granted it, in PostgreSQL's and Materialize's texts."""

import re
from collections.abc import Mapping
from typing import Any, Final

from strata.ingest.twin.unreadable import Unreadable
from strata.model.types import ColumnType, Kind

LETTERS: Final = {
    "a": 1 << 0, "r": 1 << 1, "w": 1 << 2, "d": 1 << 3, "D": 1 << 4, "x": 1 << 5, "t": 1 << 6,
    "X": 1 << 7, "U": 1 << 8, "C": 1 << 9, "T": 1 << 10, "c": 1 << 11, "s": 1 << 12, "A": 1 << 13,
    "m": 1 << 14, "R": 1 << 29, "B": 1 << 30, "N": 1 << 31, "P": 1 << 29,
}  # fmt: skip
ITEM: Final = re.compile(r"([^=/]*)=([A-Za-z]*)/([^=/]*)")
MZ_MODES: Final = {"a": 0, "r": 1, "w": 2, "d": 3, "U": 8, "C": 9, "R": 29, "B": 30, "N": 31,
                   "P": 32}  # fmt: skip
ROLE: Final = re.compile(r"p|[sug][0-9]+")


def access_from_text(text: str, column_type: ColumnType) -> dict[str, Any]:
    """Return the rights that a text says. Raises: Unreadable."""
    found = ITEM.fullmatch(text)
    if found is None:
        raise Unreadable("not an access right")
    grantee, letters, grantor = found.groups()
    mode = 0
    for letter in letters:
        if column_type.kind is Kind.MZ_ACLITEM and letter in MZ_MODES:
            mode |= 1 << MZ_MODES[letter]
        elif column_type.kind is Kind.ACLITEM and letter in LETTERS:
            mode |= LETTERS[letter]
        else:
            raise Unreadable("no letter of a privilege")
    nobody = "p" if column_type.kind is Kind.MZ_ACLITEM else "0"
    return access_of({"grantee": grantee or nobody, "grantor": grantor, "mode": mode}, column_type)


def access_of(parts: Mapping[str, Any], column_type: ColumnType) -> dict[str, Any]:
    """Return rights of a grantee, a grantor and a mode (`int`). Raises: Unreadable."""
    if any(parts.get(name) is None for name in ("grantee", "grantor", "mode")):
        raise Unreadable("an access right has grantee, grantor and mode")
    read = _role if column_type.kind is Kind.MZ_ACLITEM else _number
    if not 0 <= parts["mode"] < 2**64:
        raise Unreadable("out of range")
    return {
        "grantee": read(parts["grantee"]),
        "grantor": read(parts["grantor"]),
        "mode": parts["mode"],
    }


def _number(value: Any) -> int:
    text = str(value)
    if re.fullmatch("[0-9]{1,99}", text) is None or int(text) >= 2**32:
        raise Unreadable("not the number of a role")
    return int(text)


def _role(value: Any) -> str:
    if not isinstance(value, str) or ROLE.fullmatch(value) is None:
        raise Unreadable("not a role")
    if value == "p":
        return value
    number = int(value[1:]) if len(value) < 30 else 2**64
    if number >= 2**64:
        raise Unreadable("out of range")
    return f"{value[0]}{number}"
