"""Expectations of our own: each looks at one column of a shard's night, and says what it means.

They are Great Expectations' own checks of a column's values under names that people understand; its
modules are loaded only with a report. docs/reference/expectations.md is their gallery.
"""

from typing import Any, Final

from great_expectations.expectations.core.expect_column_pair_values_a_to_be_greater_than_b import (
    ExpectColumnPairValuesAToBeGreaterThanB,
)
from great_expectations.expectations.core.expect_column_pair_values_to_be_equal import (
    ExpectColumnPairValuesToBeEqual,
)
from great_expectations.expectations.core.expect_column_values_to_be_in_set import (
    ExpectColumnValuesToBeInSet,
)
from great_expectations.expectations.metadata_types import FailureSeverity


class ExpectTheShardToKeepItsMode(ExpectColumnValuesToBeInSet):
    """No finding of the night set the shard back."""


class ExpectSkippedPartsToHoldNoAcceptedRow(ExpectColumnValuesToBeInSet):
    """No part that a filter would skip holds a row that the filter accepts."""


class ExpectPlannedChecksToComeBackClean(ExpectColumnValuesToBeInSet):
    """Each planned check came back with a verdict, and found nothing."""


class ExpectPartsToBeReadable(ExpectColumnValuesToBeInSet):
    """Each part could be read and judged."""


class ExpectStatisticsToEncloseTheirRows(ExpectColumnValuesToBeInSet):
    """Each recorded statistic encloses the rows of its part."""


class ExpectBothCodecsToHoldTheSameValues(ExpectColumnValuesToBeInSet):
    """Row codec and columns of a part hold the same values."""


class ExpectKeptStatisticsToBeThere(ExpectColumnValuesToBeInSet):
    """Each statistic that the declaration says to keep is there."""


class ExpectPlannedPartsToBeAudited(ExpectColumnPairValuesToBeEqual):
    """As many parts were audited as a check had planned."""


class ExpectMergesToMakeNoUpdates(ExpectColumnPairValuesAToBeGreaterThanB):
    """A merge has at most as many updates in its result as in its inputs."""


class ExpectKeptPartsToBeInTheResult(ExpectColumnPairValuesAToBeGreaterThanB):
    """A part that a merge kept is in its result."""


class ExpectKeptSumsToEqualTheirSource(ExpectColumnValuesToBeInSet):
    """The sums that the shard keeps of another one equal the sums of its rows."""


OURS: Final = (
    ExpectTheShardToKeepItsMode,
    ExpectSkippedPartsToHoldNoAcceptedRow,
    ExpectPlannedChecksToComeBackClean,
    ExpectPartsToBeReadable,
    ExpectStatisticsToEncloseTheirRows,
    ExpectBothCodecsToHoldTheSameValues,
    ExpectKeptStatisticsToBeThere,
    ExpectPlannedPartsToBeAudited,
    ExpectMergesToMakeNoUpdates,
    ExpectKeptPartsToBeInTheResult,
    ExpectKeptSumsToEqualTheirSource,
)


def values(kind: Any, column: str, value: object, description: str) -> Any:
    """Return an expectation of our own that all values of a column are equal to one."""
    return kind(
        column=column, value_set=[value], description=description, severity=FailureSeverity.CRITICAL
    )


def equal(kind: Any, left: str, right: str, description: str) -> Any:
    """Return an expectation of our own that two columns are equal in each row."""
    return kind(
        column_A=left, column_B=right, description=description, severity=FailureSeverity.CRITICAL
    )


def at_least(kind: Any, large: str, small: str, description: str) -> Any:
    """Return an expectation of our own that one column is at least another in each row."""
    return kind(
        column_A=large,
        column_B=small,
        or_equal=True,
        description=description,
        severity=FailureSeverity.CRITICAL,
    )
