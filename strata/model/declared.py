"""Checks what people declare: pydantic turns a mapping from a file into a frozen dataclass.

A field's annotation says what the field takes. `Range`, `OneOf` and `Parsed` narrow it where a type
is not enough. Values are never converted, and names without a field are refused. Pydantic is loaded
when the first mapping is checked, because most processes never read a declaration.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, ClassVar, Final, TypeVar, cast, get_args, get_origin, get_type_hints

from strata.errors import InvalidRequest
from strata.model.near import one_of

T = TypeVar("T")
Where = Callable[[str], Mapping[str, Any]]  # a setting's name -> details of an error about it

_UNITS: Final = {"bytes": "bytes", "mib": "MiB", "ms": "milliseconds", "s": "seconds"}
_WORDS: Final = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text in quotes",
}

_UNKNOWN: Final = ("extra_forbidden", "unexpected_keyword_argument")


class Declared:
    """Base of the dataclasses that people fill; it configures how pydantic checks them."""

    __slots__ = ()
    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True}


@dataclass(frozen=True, slots=True)
class Range:
    """The range of a whole number, both ends inclusive; None means no upper end."""

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
    """The texts that a setting may take."""

    def __init__(self, *values: str) -> None:
        """Take the texts, in the order in which they are shown to people."""
        self.values = values

    def __str__(self) -> str:
        """Return the texts for people."""
        return f"one of {', '.join(map(repr, self.values))}"

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Return the check."""
        from pydantic_core import core_schema

        return core_schema.literal_schema(list(self.values))


@dataclass(frozen=True, slots=True)
class Parsed:
    """A value that a function makes from the declared one; the function raises InvalidRequest."""

    parse: Callable[[Any], object]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Return the check."""
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self.parse)


def as_declared(kind: type[T], raw: Mapping[str, Any], where: Where) -> T:
    """Return the `kind` that a mapping from a file declares.

    Raises: InvalidRequest with the setting, its value, what it takes, and the details from `where`.
    """
    from pydantic import ValidationError

    try:
        found: T = _adapter(cast(Any, kind)).validate_json(json.dumps(raw, default=str))
    except InvalidRequest as error:  # from a function that parses one setting
        details = {**where(""), **error.details}
        raise InvalidRequest(error.message, **details, cure=error.cure) from error
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
        # A misspelled name often leaves another setting missing; the misspelling explains more.
        first = min(problems, key=lambda one: one["type"] not in _UNKNOWN)
        raise _misfit(kind, first, where) from error
    except TypeError as error:  # a key that is not a text
        raise InvalidRequest("this is not a declaration", **where(""), reason=str(error)) from error
    return found


def converted(hint: Any, text: str) -> Any:
    """Return the value that an environment variable's text means; the text itself if none."""
    from pydantic import TypeAdapter, ValidationError

    if NoneType in get_args(hint) and text.strip().lower() in ("", "none"):
        return None
    try:
        return TypeAdapter(hint).validate_python(text)
    except ValidationError:
        return text


def expectation(hint: Any, name: str) -> str | None:
    """Return what a setting takes, with unit and range; None if its type does not say.

    >>> expectation(int, "grace_ms"), expectation(str | None, "column")
    ('a whole number of milliseconds', 'a text in quotes')
    """
    marker = marker_of(hint)
    if isinstance(marker, OneOf):
        return str(marker)
    if is_dataclass(hint):
        return "a mapping"
    if get_origin(hint) is tuple:
        item = get_args(hint)[0]
        if get_origin(item) is tuple:
            return "a list of lists of texts"
        return "a list of mappings" if is_dataclass(item) else "a list of texts"
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
    """Return the error for the first problem that pydantic found."""
    place = problem["loc"]
    setting = ".".join(map(str, place))
    details: dict[str, Any] = {"setting": setting, **where(setting)}
    for step in place[:-1]:
        kind = hints_of(kind)[step] if is_dataclass(kind) else get_args(kind)[0]
    if problem["type"] in _UNKNOWN:
        fields = hints_of(kind)
        nearest = one_of(place[-1], fields, listed=len(fields))
        return InvalidRequest("unknown setting", **details, cure=nearest)
    hint = hints_of(kind)[place[-1]] if is_dataclass(kind) else kind  # of an item: its list
    cure = expectation(hint, str(place[-1]))
    if problem["type"] == "missing":
        return InvalidRequest("a setting is missing", **details, cure=cure)
    return InvalidRequest("this setting does not fit", **details, value=problem["input"], cure=cure)
