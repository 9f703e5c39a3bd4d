"""An ANSI cast of a JSON number to an integer prunes where all numbers are written as integers."""

import pyarrow as pa
import pytest

from strata.decide.decision import decide
from strata.expr.filter import Filter
from strata.format.manifest import unify
from strata.stats import collect, concat
from tests.spec.language import RELATION, path

JS = next(column for column in RELATION.columns if column.name == "js")
FILTER = Filter((path("$.a").cast("integer") > 100).expr, "", 0, 0)


def stats_of(*texts: str) -> pa.RecordBatch:
    return collect(pa.table({str(JS.id): pa.array(texts, pa.string())}), RELATION)


@pytest.mark.parametrize(
    ("texts", "kept"),
    [
        (['{"a":1}', '{"a":-7}'], False),
        (['{"a":1}', '{"a":101}'], True),
        (['{"a":1}', '{"a":1.5}'], True),  # fails
        (['{"a":1}', '{"a":1e1}'], True),
        (['{"a":1}', '{"a":99999999999}'], True),
    ],
)
def test_integers_prune_and_other_numbers_may_fail(texts: list[str], kept: bool) -> None:
    stats = concat([stats_of(*texts)], [2])

    assert decide(FILTER, stats, RELATION).keep.tolist() == [kept]


def test_statistics_of_before_the_count_keep_their_part_and_no_other() -> None:
    new = stats_of('{"a":1}')
    old = pa.table(new).to_batches()[0]
    for index, field in enumerate(new.schema):
        if pa.types.is_struct(field.type) and field.type.get_field_index("integers") >= 0:
            kept = [f for f in field.type if f.name != "integers"]
            column = pa.StructArray.from_arrays(
                [new.column(index).field(f.name) for f in kept], fields=kept
            )
            old = old.set_column(index, pa.field(field.name, column.type), column)

    for rows in ([old, new], [new, old]):
        stats = unify([pa.table(row) for row in rows])
        assert decide(FILTER, stats, RELATION).keep.tolist() == [row is old for row in rows]
