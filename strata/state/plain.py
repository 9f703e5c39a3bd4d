"""Values of a state as JSON: bytes are base64, a type is its text, a long order is ranges."""

from base64 import b64encode
from dataclasses import Field, fields, is_dataclass
from typing import Any

import orjson

from strata.errors import InvalidRequest
from strata.model.spec import UNWRITTEN
from strata.model.types import ColumnType
from strata.state.order import SPELLED_OUT, order_text
from strata.state.state import RunSummary


def dump(document: Any) -> bytes:
    """Return JSON with sorted keys. Raises: InvalidRequest for a value that it cannot hold."""
    try:
        return orjson.dumps(document, default=plain, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise InvalidRequest("this state cannot be stored", reason=str(error)) from error


def plain(value: object) -> Any:
    """Return `value` as orjson takes it.

    Raises: InvalidRequest for a value that JSON cannot hold.
    """
    match value:
        case ColumnType():
            return str(value)
        case bytes():
            return b64encode(value).decode("ascii")
        case tuple():
            return [plain(item) for item in value]
        case RunSummary(order=order) if len(order) > SPELLED_OUT:
            figures = ((f.name, getattr(value, f.name)) for f in fields(value))
            return dict(figures) | {"order": order_text(order)}
        case _ if is_dataclass(value):
            found = {f.name: getattr(value, f.name) for f in fields(value) if _is_written(f, value)}
            return {name: plain(one) for name, one in found.items()}
        case None | bool() | int() | float() | str() | list() | dict():
            return value
    raise InvalidRequest("this state cannot be stored", reason=f"{type(value).__name__} in it")


def _is_written(field: Field[Any], value: object) -> bool:
    return UNWRITTEN not in field.metadata or getattr(value, field.name) != field.default
