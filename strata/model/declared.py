"""What people declare, checked: a mapping from a file becomes a frozen dataclass, by pydantic.

A field's annotation says what the field takes, with `Range`, `OneOf` and `Parsed` where a type does
not say enough. Nothing is converted, and a name that no field has is refused. Pydantic is loaded
when the first mapping is checked: most processes never read a declaration.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, ClassVar, Final, TypeVar, cast, get_args, get_origin, get_type_hints

from strata.errors import InvalidRequest

T = TypeVar("T")
Where = Callable[[str], Mapping[str, Any]]  # a setting's name -> details of an error about it

_UNITS: Final = {"bytes": "bytes", "mib": "MiB", "ms": "milliseconds", "s": "seconds"}
_WORDS: Final = {
    int: "a whole number", float: "a number", bool: "true or false", str: "a text in quotes"
}  # fmt: skip

_UNKNOWN: Final = ("extra_forbidden", "unexpected_keyword_argument")


class Declared:
    """Base of dataclasses that people fill: how pydantic checks them."""

    __slots__ = ()
    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True}


@dataclass(frozen=True, slots=True)
class Range:
    """What a whole number may be, both ends included; None: no end."""

    low: int = 0
    high: int | None = None

    def __str__(self) -> str:
        """Return the range for people.

        >>> str(Range(1, 100)), str(Range(256)), str(Range())
        ('1 to 100', '256 or more', '0 or more')
        """
        return f"{self.low} or more" if self.high is None else f"{self.low} to {self.high}"

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Return the check."""
        from pydantic_core import core_schema

        return core_schema.int_schema(ge=self.low, le=self.high)


class OneOf:
    """The texts that a setting may be."""

    def __init__(self, *values: str) -> None:
        """Take the texts, in the order in which people are shown them."""
        self.values = values

    def __str__(self) -> str:
        """Return them for people."""
        return f"one of {', '.join(map(repr, self.values))}"

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Return the check."""
        from pydantic_core import core_schema

        return core_schema.literal_schema(list(self.values))


@dataclass(frozen=True, slots=True)
class Parsed:
    """A value that a function makes of what is declared; the function raises InvalidRequest."""

    parse: Callable[[Any], object]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Return the check."""
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self.parse)


def checked(kind: type[T], raw: Mapping[str, Any], where: Where) -> T:
    """Return the `kind` that a mapping of a file declares.

    Raises: InvalidRequest with the setting, its value, what it takes, and the details of `where`.
    """
    from pydantic import ValidationError

    try:
        found: T = _adapter(cast(Any, kind)).validate_json(json.dumps(raw, default=str))
    except InvalidRequest as error:  # of a function that parses one setting
        details = {**where(""), **error.details}
        raise InvalidRequest(error.message, **details, cure=error.cure) from error
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
        # A misspelled name often leaves another setting missing: it explains more.
        first = min(problems, key=lambda one: one["type"] not in _UNKNOWN)
        raise _misfit(kind, first, where) from error
    except TypeError as error:  # a key that is no text
        raise InvalidRequest("this is not a declaration", **where(""), reason=str(error)) from error
    return found


def converted(hint: Any, text: str) -> Any:
    """Return the value that a text of the environment stands for; the text itself if none."""
    from pydantic import TypeAdapter, ValidationError

    if NoneType in get_args(hint) and text.strip().lower() in ("", "none"):
        return None
    try:
        return TypeAdapter(hint).validate_python(text)
    except ValidationError:
        return text


def expectation(hint: Any, name: str) -> str | None:
    """Return what a setting takes, with unit and range; None where its type does not say.

    >>> expectation(int, "grace_ms"), expectation(str | None, "column")
    ('a whole number of milliseconds', 'a text in quotes')
    """
    marker = marker_of(hint)
    if isinstance(marker, OneOf):
        return str(marker)
    if is_dataclass(hint):
        return "a mapping"
    if get_origin(hint) is tuple:
        return "a list of mappings" if is_dataclass(get_args(hint)[0]) else "a list of texts"
    unit = _UNITS.get(name.rpartition("_")[2])
    kinds = {k for part in (hint, *get_args(hint)) for k in (part, *get_args(part)) if k in _WORDS}
    words = " or ".join(text for kind, text in _WORDS.items() if kind in kinds)
    of_unit = f" of {unit}" if unit and int in kinds else ""
    return f"{words}{of_unit}" + (f", {marker}" if marker else "") or None


def marker_of(hint: Any) -> Range | OneOf | None:
    """Return what narrows the type of a field, if anything does."""
    parts = [hint, *get_args(hint)]
    found = [m for part in parts for m in getattr(part, "__metadata__", ())]
    return next((m for m in found if isinstance(m, Range | OneOf)), None)


def hints_of(kind: Any) -> dict[str, Any]:
    """Return the annotation of each field that people may set."""
    hints = get_type_hints(kind, include_extras=True)
    return {f.name: hints[f.name] for f in fields(kind) if f.metadata.get("setting", True)}


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _misfit(kind: Any, problem: Mapping[str, Any], where: Where) -> InvalidRequest:
    """Return the error about what pydantic found first."""
    place = problem["loc"]
    setting = ".".join(map(str, place))
    details: dict[str, Any] = {"setting": setting, **where(setting)}
    for step in place[:-1]:
        kind = hints_of(kind)[step] if is_dataclass(kind) else get_args(kind)[0]
    if problem["type"] in _UNKNOWN:
        known = ", ".join(hints_of(kind))
        return InvalidRequest("unknown setting", **details, cure=f"one of {known}")
    hint = hints_of(kind)[place[-1]] if is_dataclass(kind) else kind  # what is in a list: the list
    cure = expectation(hint, str(place[-1]))
    if problem["type"] == "missing":
        return InvalidRequest("a setting is missing", **details, cure=cure)
    return InvalidRequest("this setting does not fit", **details, value=problem["input"], cure=cure)
