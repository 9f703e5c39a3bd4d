"""A filter looks first at values as readers see them."""

from uuid import UUID

import pytest

from strata.decide.plan import plan_read
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.parts import look
from strata.parts.fetch import PartSource
from strata.plain.parse import plain_filter
from strata.read.filtered import filtered_scan
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table

RELATION = Relation(
    0,
    (
        Column(1, "n", parse_type("int64")),
        Column(2, "u", parse_type("uuid")),
        Column(3, "w", parse_type("uint16")),
    ),
    (1,),
    (),
)


@pytest.mark.parametrize(
    ("where", "groups"),
    [(f"u = '{UUID(int=77)}'", 1), ("w = 77", 1), ("n = 77", 1), (f"u < '{UUID(int=2)}'", 1)],
)
def test_row_groups_without_an_accepted_row_are_spared(
    where: str, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = memory_stores()
    create(stores, RELATION, part_bytes=1 << 20, write_format="structured")
    rows = [(n, n.to_bytes(16), n, 0, 1) for n in range(100)]
    state = append(stores, "shard", 0, 1, [table(RELATION, rows)])
    plan = plan_read(stores, state, mode="off")
    chosen: list[int] = []
    real = look.Look.groups

    def noted(self: look.Look, source: PartSource, *args: object) -> object:
        found = real(self, source, *args)  # type: ignore[arg-type]
        chosen.append(-1 if found is None else len(found))
        return found

    monkeypatch.setattr(look.Look, "groups", noted)
    filter = plain_filter(RELATION, where)

    found = [b.to_pylist() for b in filtered_scan(stores, state, plan, filter)]

    assert len(plan.fetched[0].splits) > 4
    assert chosen == [groups]
    assert {row["n"] for some in found for row in some} <= {0, 1, 77}
    assert found
