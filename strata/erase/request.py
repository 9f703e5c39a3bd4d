"""What is to be erased: rows by a filter, and texts by terms, in places where no filter reaches.

Neither is written down: a filter that finds a person names the person. The request is known by a
fingerprint, and the code that confirms it is the beginning of the fingerprint.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import orjson

from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Expr, Literal
from strata.store.keys import content_hash

CODE_CHARS: Final = 8
TERM_CHARS: Final = 4  # a shorter text would be found in texts about somebody else


@dataclass(frozen=True)
class ErasureRequest:
    """Rows and texts of one shard that are to be erased."""

    shard: str
    where: str
    terms: tuple[str, ...] = ()  # as the caller names them

    def __post_init__(self) -> None:
        """Refuse terms that would be found everywhere."""
        for term in self.terms:
            if len(term.strip()) < TERM_CHARS:
                raise InvalidRequest(
                    "this term is too short: it would be found in texts about others",
                    characters=len(term),
                    cure=f"at least {TERM_CHARS} characters",
                )

    @cached_property
    def fingerprint(self) -> str:
        """Return a text that is equal for equal requests, and does not show them."""
        return content_hash(orjson.dumps([self.shard, self.where, sorted(self.terms)]))

    @property
    def code(self) -> str:
        """Return the code that confirms the request."""
        return self.fingerprint[:CODE_CHARS]

    def searched(self, filter: Filter) -> tuple[str, ...]:
        """Return the terms to look for: those of the caller, and the longer texts of the filter."""
        texts = (text for text in constant_texts(filter.expr) if len(text.strip()) >= TERM_CHARS)
        return tuple(sorted({*self.terms, *texts}))


def constant_texts(expr: Expr) -> Iterator[str]:
    """Yield the texts among the constants of an expression, without patterns of LIKE or formats."""
    if isinstance(expr, Literal) and isinstance(expr.value, str):
        yield expr.value
    if isinstance(expr, Call) and not re.search("like|regexp|format|date|time", expr.function):
        for arg in expr.args:
            yield from constant_texts(arg)
