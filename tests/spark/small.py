"""Who reads what is small."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from strata.spark import tasks


@contextmanager
def in_driver() -> Iterator[None]:
    """Have the driver read the shards of tests, however many parts they have."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tasks, "SMALL_PARTS", 1_000_000)
        yield


@contextmanager
def in_tasks() -> Iterator[None]:
    """Have tasks of Spark read also what is small."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tasks, "SMALL_PARTS", -1)
        yield
