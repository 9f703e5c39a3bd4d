"""The five kinds of error, by what the caller may do next.

The message is for people and may change; the kind and the details are the contract.
A message is lower-case, without a full stop; details follow as `key=value`; `cure` says
what the user can do. Bugs are `assert`, not an error kind.
"""

import re
from typing import ClassVar, Final

# In the path of a database's address, too: somebody typed a slash too many. A path that was made of
# an address has one slash less.
_PASSWORD: Final = re.compile(
    r"""(?i)(:/{1,2}[^\s/@:'"]*|(?:sqlite|postgres)[^\s/:'"]*:/{1,2}[^\s@:'"]*?)"""
    r"""(?::|%3A)[^\s'"]*(?:@|%40)"""
)
_SECRET: Final = re.compile(
    r"""(?i)([?&][^\s=&'"]*(?:key|secret|token|pass|pwd|sig|credential)[^\s=&'"]*=)[^\s&'"]*"""
)
# As programs of PostgreSQL take it: host=db user=u password=p
_WORD: Final = re.compile(
    r"""(?i)(\b(?:password|passwd|pwd)\s*=\s*)(\\?'[^']*'|[^\s'"&*][^\s'"&]*)"""
)
DETAIL_MAX: Final = 2000  # characters of one value in a message


def bounded(text: str, most: int = DETAIL_MAX) -> str:
    """Return a text of `most` characters, and how many were left out.

    >>> bounded("abcdef", 4), bounded("abcd", 4)
    ('abcd… (2 more characters)', 'abcd')
    """
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def masked(text: str) -> str:
    """Return a text without passwords of addresses in it, and parameters that look secret.

    Errors are logged, sent, and kept in a journal that more people read than know the password.

    >>> masked("no folder 's3://k:pw@bucket' or postgresql://db/x?user=u&password=pw")
    "no folder 's3://k:***@bucket' or postgresql://db/x?user=u&password=***"
    >>> masked("nothing at postgresql+psycopg:///u%3Apw%40h/db or s3://bucket/at=10:00/a@b.csv")
    'nothing at postgresql+psycopg:///u:***@h/db or s3://bucket/at=10:00/a@b.csv'
    >>> masked("no file 'postgres:/u:pw@h/db', no folder 'host=h user=u password=pw'")
    "no file 'postgres:/u:***@h/db', no folder 'host=h user=u password=***'"
    """
    if ":/" not in text and "=" not in text:
        return text
    return _WORD.sub(r"\1***", _SECRET.sub(r"\1***", _PASSWORD.sub(r"\1:***@", text)))


class StrataError(Exception):
    """Base of the five kinds; never raised itself."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, cure: str | None = None, **details: object) -> None:
        """Keep the parts of the message apart, so that callers can show them as they like."""
        self.message = message
        self.cure = cure
        self.details = details
        super().__init__(message)

    def __str__(self) -> str:
        """Return the message, its details and its cure on one line, without passwords."""
        details = "".join(f" {key}={bounded(repr(value))}" for key, value in self.details.items())
        cure = f" (cure: {self.cure})" if self.cure else ""
        return masked(f"{self.message}{details}{cure}")

    def __reduce__(self) -> tuple[object, ...]:
        """Survive the trip from a Spark worker to the driver."""
        return (_rebuild, (type(self), self.message, self.cure, self.details))


def _rebuild(
    kind: type[StrataError], message: str, cure: str | None, details: dict[str, object]
) -> StrataError:
    return kind(message, cure=cure, **details)


class InvalidRequest(StrataError):
    """The call can never succeed as it was made: fix the call."""

    exit_code = 2


class Conflict(StrataError):
    """A compare-and-set lost its race: load the state again, recompute, retry."""

    exit_code = 4


class Unavailable(StrataError):
    """The outside failed. Retry; when not `certain`, read back before concluding anything."""

    def __init__(
        self, message: str, *, certain: bool, cure: str | None = None, **details: object
    ) -> None:
        """`certain`: the operation surely did not happen; otherwise it may have happened."""
        self.certain = certain
        super().__init__(message, cure=cure, **details)

    def __reduce__(self) -> tuple[object, ...]:
        """Survive the trip from a Spark worker to the driver."""
        return (_rebuild_unavailable, (self.message, self.certain, self.cure, self.details))


def _rebuild_unavailable(
    message: str, certain: bool, cure: str | None, details: dict[str, object]
) -> Unavailable:
    return Unavailable(message, certain=certain, cure=cure, **details)


class Corrupt(StrataError):
    """Stored bytes contradict the state: stop and alert, never retry."""


class Fenced(StrataError):
    """This writer or reader was expired or overtaken: give up the handle."""

    exit_code = 4
