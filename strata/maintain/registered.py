"""Registered filters as trimming weighs statistics with them: plain ones need no Spark."""

from collections.abc import Callable, Iterable

from strata.config.filters import RegisteredFilter
from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.maintain.trim_report import Named
from strata.model.schema import Relation
from strata.plain.parse import plain_filter


def named_filters(
    relation: Relation,
    filters: Iterable[RegisteredFilter],
    analyse: Callable[[RegisteredFilter], Filter],
) -> list[Named]:
    """Return registered filters in the form for `trim_shard`; `analyse` is for those not plain.

    Raises: what `analyse` raises, for a wrong filter, too.
    """
    return [Named(one.name, "registered", _meaning(relation, one, analyse)) for one in filters]


def _meaning(
    relation: Relation, registered: RegisteredFilter, analyse: Callable[[RegisteredFilter], Filter]
) -> Filter:
    try:
        return plain_filter(relation, registered.where)
    except InvalidRequest:
        return analyse(registered)
