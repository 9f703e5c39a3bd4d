"""What no budget drops, and which declarations are refused for it."""

import pyarrow as pa
import pytest

from strata.errors import InvalidRequest
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.settings import StoreSettings
from strata.model.spec import ShardSpec, parse_spec
from strata.model.types import parse_type
from strata.stats import collect, encoded_size, trim
from strata.stats.protected import keep_pattern, kept_names, kept_paths, most_bytes
from strata.stats.wire import path_name
from strata.store.open import open_stores

DOC = '{"event":"%s","created_at":"2024-01-01","sender":{"received_url":"%s"}}'


def spec(**changes: object) -> ShardSpec:
    columns = [
        {"name": "event", "type": "string"},
        {"name": "delivery", "type": "string"},
        {"name": "payload", "type": "jsonb"},
        {"name": "sent_at", "type": "timestamptz"},
    ]
    declared = {"name": "s", "columns": columns, "key": ["event", "delivery"], "order": ["event"]}
    return parse_spec({**declared, **changes})


def created(name: str, declared: ShardSpec) -> None:
    address = f"memory://protected {name}"
    Machine(open_stores(StoreSettings(blob=address, consensus=address))).create(declared)


def test_times_in_json_do_not_push_out_the_sort_column() -> None:
    """The default keep list is about columns: JSON has keys that end in _at by the dozen."""
    relation, keep = spec().relation(), spec().stats.keep
    paths = ",".join(f'"k{n}_at":"{"x" * 90}{n}"' for n in range(40))
    texts = [f"{{{paths}}}", DOC % ("push", "u" * 90)]
    table = pa.table(
        [pa.array(v) for v in (["push", "status"], ["a", "b"], texts)], names=["1", "2", "3"]
    )
    row = collect(table, relation)

    trimmed, report = trim(row, relation, 1024, keep)

    assert encoded_size(row) > 4096
    assert report.bytes_after <= 1024
    assert trimmed.column("s.1")[0].as_py()["low"] == "push"
    assert "s.1" not in report.shortened


def test_a_budget_below_what_is_protected_is_refused_with_the_sum() -> None:
    most = most_bytes(spec().relation(), spec().stats.keep)

    with pytest.raises(InvalidRequest, match=r"sort order and of stats\.keep") as caught:
        created("small", spec(stats={"budget_bytes": most - 1}))
    created("enough", spec(stats={"budget_bytes": most}))

    assert f"raise it to {most}" in str(caught.value)


def test_what_is_protected_costs_at_most_the_sum() -> None:
    """Texts at their longest, numbers at their widest."""
    relation, keep = spec().relation(), ("payload.a.b", "sent_at", "delivery")
    ends = [-(2**62), 2**62]
    table = pa.table(
        [
            pa.array(["a" * 300, "z" * 300]),
            pa.array(["a" * 300, "z" * 300]),
            pa.array([f'{{"a":{{"b":"{c * 300}"}}}}' for c in "az"]),
            pa.array(ends, pa.timestamp("us", "UTC")),
        ],
        names=["1", "2", "3", "4"],
    )

    trimmed, _ = trim(collect(table, relation), relation, 0, keep)

    assert {"s.1", "s.2", "s.4", "s.3$.a.b"} <= {*trimmed.schema.names}
    assert 3 * 204 < encoded_size(trimmed) <= most_bytes(relation, keep)


@pytest.mark.parametrize(("order", "more"), [(["event"], 0), (["event", "delivery"], 1)])
def test_every_column_of_the_declared_order_is_protected(order: list[str], more: int) -> None:
    plain = most_bytes(spec(order=[]).relation(), ())

    assert most_bytes(spec(order=order).relation(), ()) == pytest.approx(plain * (1 + more), abs=1)


@pytest.mark.parametrize("path", [("a",), ("A", "b.c"), ("a*", "b?", "[c]")])
def test_a_pattern_for_a_path_protects_it_and_no_other(path: tuple[str, ...]) -> None:
    relation = Relation(0, (Column(8, "Doc", parse_type("jsonb")),), (8,), ())
    name, other = path_name(8, path), path_name(8, (*path[:-1], "zz"))
    pattern = keep_pattern(name, relation)

    assert name in kept_names([name], relation, [pattern])
    assert other not in kept_names([other], relation, [pattern])
    chosen = kept_paths("Doc", [pattern])
    assert chosen is not None
    assert chosen(path)
    assert not chosen((*path[:-1], "zz"))
