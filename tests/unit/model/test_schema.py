"""Relations that contradict themselves are none."""

import pytest

from strata.errors import InvalidRequest
from strata.model.schema import Column, Relation
from strata.model.types import parse_type

TEXT = parse_type("string")


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ([(1, "a"), (1, "b")], "declared twice"),
        ([(1, "a"), (2, "a")], "declared twice"),
        ([(1, "a"), (2, "A")], "declared twice"),  # Spark ignores case
        ([], "at least one column"),
    ],
)
def test_a_column_is_its_id_and_its_name(columns: list[tuple[int, str]], reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        Relation(0, tuple(Column(number, name, TEXT) for number, name in columns), (), ())


@pytest.mark.parametrize(("key", "order"), [((1, 3), ()), ((1,), (3,))])
def test_key_and_order_are_of_columns_that_are_there(
    key: tuple[int, ...], order: tuple[int, ...]
) -> None:
    columns = (Column(1, "a", TEXT), Column(2, "b", TEXT))
    with pytest.raises(InvalidRequest, match="unknown column") as caught:
        Relation(0, columns, key, order)

    assert caught.value.details["ids"] == [3]


def test_the_sort_order_is_the_declared_one_then_key_then_value() -> None:
    columns = tuple(Column(n, f"c{n}", TEXT) for n in (5, 1, 9, 3))
    relation = Relation(0, columns, key=(9, 1), order=(3, 9))

    assert relation.sort_ids == (3, 9, 1, 5)
    assert relation.highest_id == 9
    assert [column.id for column in relation.value_columns] == [5, 3]
