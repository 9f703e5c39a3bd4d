"""The unit of times that come as integers without a schema: microseconds, or they are refused.

Debezium writes milliseconds, too: by default for a DATETIME of MySQL, a `datetime` of SQL Server, a
DATE of Oracle or a `timestamp(3)` of PostgreSQL. Taken for microseconds they are days of 1970.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np

from strata.errors import InvalidRequest
from strata.kernels.arrays import Ints

FIRST, LAST = 315_532_800_000, 4_102_444_800_000  # milliseconds: years 1980 to 2099
LONG_AGO: Final = -10_000_000_000_000  # milliseconds: the year 1653; 0001-01-01 means "never"
FOR_EVER: Final = (250_000_000_000_000, 260_000_000_000_000)  # milliseconds: 9999-12-31 is between
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def check_unit(file: str, column: str, numbers: Ints | Iterable[int]) -> None:
    """Refuse times that are days of our years only if they count milliseconds.

    Errs: refuses times that all lie between 1970-01-04 and 1970-02-17, too.
    Raises: InvalidRequest with both readings of the first.
    """
    found = np.asarray(numbers if isinstance(numbers, np.ndarray) else [*numbers], np.float64)
    ours = (found >= FIRST) & (found < LAST)
    marks = (found == 0) | (found < LONG_AGO) | ((found > FOR_EVER[0]) & (found < FOR_EVER[1]))
    if not ours.any() or not (ours | marks).all():
        return
    first = int(found[np.argmax(ours)])
    raise InvalidRequest(
        "times without a schema are microseconds, and those of this column look like milliseconds",
        file=file,
        column=column,
        value=first,
        as_microseconds=(EPOCH + timedelta(microseconds=first)).isoformat(),
        as_milliseconds=(EPOCH + timedelta(milliseconds=first)).isoformat(),
        cure="time.precision.mode=microseconds, or value.converter.schemas.enable=true, with which "
        "each event says its unit",
    )
