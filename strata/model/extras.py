"""The extras of the distribution: what each brings, and the cure where it is missing."""

import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from strata.errors import InvalidRequest

DISTRIBUTION: Final = "strata-shards"
# The importable names that an extra brings; a test compares the extras with pyproject.toml.
BRINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "delta": ("deltalake",),
    "duckdb": ("duckdb",),
    "iceberg": ("pyiceberg",),
    "otlp": ("opentelemetry",),
    "polars": ("polars",),
    "postgres": ("psycopg",),
    "s3": ("boto3", "botocore"),
    "spark": ("pandas", "pyspark"),
    "ui": ("fastapi", "jinja2", "uvicorn"),
    "validate": ("great_expectations", "pandas"),
}


def cure(extra: str) -> str:
    """Return the command that installs an extra.

    >>> cure("s3")
    "pip install 'strata-shards[s3]'"
    """
    assert extra in BRINGS, extra
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def require(extra: str, what: str) -> None:
    """Refuse to go on without a library that an extra brings; nothing is imported.

    `what` begins the message: "a store on S3". Raises: InvalidRequest naming library and extra.
    """
    with needed(extra, what):
        for name in BRINGS[extra]:
            if importlib.util.find_spec(name) is None:
                raise ModuleNotFoundError(name=name)


@contextmanager
def needed(extra: str, what: str) -> Iterator[None]:
    """Turn the failed import of a library that an extra brings into a request with its cure.

    `what` begins the message: "the console". Raises: InvalidRequest naming library and extra; any
    other failed import is left as it is.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in BRINGS[extra]:
            raise
        raise InvalidRequest(
            f"{what} needs a library that is not installed", missing=error.name, cure=cure(extra)
        ) from error
