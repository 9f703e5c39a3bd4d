"""Moments with a zone and without: texts are read, and columns get the zone of their type."""

from contextlib import suppress
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from strata.ingest.values.column import MOMENT, NONE_BAD, Cast, all_or_halves

# A zone follows a date and a time; the date's own "-31" is not a zone.
ZONED: Final = r"^.{11,}(Z|[+-]\d\d(:?\d\d)?)$"
# BigQuery and Snowflake write a blank before the zone, which Arrow does not read.
_UTC: Final = r"([ Tt:]\d\d(?:\.\d+)?) (?:UTC|Z)$"
_OFFSET: Final = r"([ Tt:]\d\d(?:\.\d+)?) ([+-]\d\d(?::?\d\d)?)$"
_LOOKED_AT: Final = 1024  # texts among which the first that is not null is sought


def timestamptz_of(texts: pa.Array) -> Cast:
    """Return texts as moments; an offset, Z or UTC is obeyed; none means UTC."""
    goal, bare = pa.timestamp("us", "UTC"), pa.timestamp("us")
    # All have a zone, or none has. A cast that fails looks at each text, so the right one is first
    first = pc.match_substring_regex(texts[:_LOOKED_AT].drop_null()[:1], ZONED)
    with suppress(pa.ArrowInvalid):
        if first.true_count:
            return Cast(texts.cast(goal), NONE_BAD)
        return Cast(_in_utc(texts.cast(bare)), NONE_BAD)
    texts = _joined(pc.utf8_trim_whitespace(texts))
    zoned = pc.match_substring_regex(texts, ZONED)
    nothing = pa.scalar(None, pa.string())
    some, others = pc.if_else(zoned, texts, nothing), pc.if_else(zoned, nothing, texts)
    with_zone = all_or_halves(some, goal, lambda few: few.cast(goal), MOMENT)
    without = all_or_halves(others, bare, lambda few: few.cast(bare), MOMENT)
    return Cast(pc.coalesce(with_zone.values, _in_utc(without.values)), with_zone.bad).also(
        without.bad
    )


def _joined(texts: pa.Array) -> pa.Array:
    """Return texts without a blank before their zone; UTC is Z.

    >>> _joined(pa.array(["2013-12-01 10:00:00.5 UTC", "2013-12-01 10:00 -0800"])).to_pylist()
    ['2013-12-01 10:00:00.5Z', '2013-12-01 10:00-0800']
    """
    in_utc = pc.replace_substring_regex(texts, _UTC, r"\1Z")
    return pc.replace_substring_regex(in_utc, _OFFSET, r"\1\2")


def same_zone(values: pa.Array, goal: pa.TimestampType) -> pa.Array:
    """Return timestamps with a zone exactly when the goal has one; no zone means UTC."""
    if (values.type.tz is None) == (goal.tz is None):
        return values
    if values.type.tz is None:
        return values.cast(pa.int64()).cast(pa.timestamp(values.type.unit, "UTC"))
    return values.cast(pa.timestamp(values.type.unit, "UTC")).cast(pa.timestamp(values.type.unit))


def _in_utc(moments: pa.Array) -> pa.Array:
    """Return moments without a zone as moments of UTC, without copying them."""
    return moments.view(pa.int64()).view(pa.timestamp("us", "UTC"))
