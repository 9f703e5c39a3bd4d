"""Times: exact in UTC, widened elsewhere. The clock stands at 2013-03-31 12:00."""

from tests.spec.language import E, call, check, col, constant, days


def _trunc(unit: str, zone: str = "UTC") -> E:
    return call("date_trunc", constant(unit, "string"), col("ts"), kind="timestamp", zone=zone)


def _since(count: int) -> E:
    now = call("current_timestamp", kind="timestamp")
    return call("timestamp_add_interval", now, days(-count), kind="timestamp", zone="UTC")


def test_the_last_thirty_days() -> None:
    check(
        _trunc("day") > _since(30),
        """
        ts                                       | verdict
        [2013-01-01T00:00, 2013-02-28T23:59]      | SKIP
        [2013-03-01T00:00, 2013-03-01T23:59]      | SKIP
        [2013-03-01T00:00, 2013-03-02T00:00]      | KEEP
        [2013-02-01T00:00, …]                     | KEEP
        ?                                         | KEEP
        """,
    )


def test_another_zone_widens_by_more_than_any_offset() -> None:
    check(
        _trunc("day", zone="America/New_York") > _since(30),
        """
        ts                                       | verdict
        [2013-01-01T00:00, 2013-02-20T23:59]      | SKIP
        [2013-03-01T00:00, 2013-03-01T23:59]      | KEEP
        """,
    )
    check(  # the year begins at five o'clock
        _trunc("year", zone="America/New_York") > "2013-01-01T04:00",
        """
        ts                                        | verdict
        [2013-06-01T00:00, 2013-06-01T00:00]      | KEEP
        """,
    )


def test_a_year_is_monotone_and_a_month_only_within_one_year() -> None:
    check(
        call("year", col("day"), kind="integer") == 2013,
        """
        day                      | verdict
        [2012-01-01, 2012-12-31] | SKIP
        [2012-01-01, 2013-01-01] | KEEP
        [2014-01-01, 2014-01-02] | SKIP
        """,
    )
    check(
        call("month", col("day"), kind="integer") == 7,
        """
        day                      | verdict
        [2012-01-01, 2012-06-30] | SKIP
        [2012-01-01, 2012-07-01] | KEEP
        [2012-12-31, 2013-01-01] | KEEP
        """,
    )


def test_months_may_end_early() -> None:
    later = call("add_months", col("day"), constant(1, "integer"), kind="date")
    check(
        later == "2013-02-28",
        """
        day                      | verdict
        [2013-01-01, 2013-01-27] | SKIP
        [2013-01-29, 2013-01-31] | KEEP
        [2013-02-01, 2013-02-02] | SKIP
        """,
    )


def test_a_month_interval_on_a_timestamp_keeps_whole_days() -> None:
    """January 30 at 23:00 and January 31 at 01:00 change places: both fall on February 28."""
    month = E(constant(1, "interval month").expr)
    later = call("timestamp_add_ym_interval", col("ts"), month, kind="timestamp", zone="UTC")
    check(
        later > "2013-02-28T02:00",
        """
        ts                                   | verdict
        [2013-01-30T23:00, 2013-01-31T01:00] | KEEP
        [2013-01-30T01:00, 2013-01-30T02:00] | SKIP
        """,
    )


def test_seconds_with_a_fraction_are_an_instant() -> None:
    """Milliseconds of JSON divided by 1000; what no instant has fails, or is null."""
    table = """
        x                          | verdict
        [1.5e9, 1.6e9]             | KEEP
        [1.5e9, 1517443200]        | SKIP
        [1.5e9, 1517443200.000001] | KEEP
        [1e300, 1e300]             | KEEP
        [-1e12, 0]                 | SKIP
        [-1e300, 0]                | KEEP
        [1.5e9, 1.5e9], NaN        | KEEP
        [5, 1]                     | KEEP
        [nan, 1]                   | KEEP
        […, 1]                     | KEEP
        """
    check(col("x").cast("timestamp") > "2018-02-01T00:00", table)
