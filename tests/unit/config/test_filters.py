"""Registered filters are read exactly, and what is wrong is named."""

from pathlib import Path

import pytest

from strata.config.filters import RegisteredFilter, load_filters, parse_filter, uses_column
from strata.errors import InvalidRequest

GOOD = {"shard": "flights", "name": "late", "where": " dep_delay > 60 "}


def test_a_filter_keeps_its_text_without_the_edges() -> None:
    assert parse_filter(GOOD) == RegisteredFilter("flights", "late", "dep_delay > 60")


@pytest.mark.parametrize(
    ("now", "span"),
    [
        ("1970-01-01T00:00:01Z", (1000, 1000)),
        (["1970-01-01", "1970-01-02"], (0, 86_400_000)),
        (5, (5, 5)),
    ],
)
def test_now_is_a_time_or_a_span(now: object, span: tuple[int, int]) -> None:
    assert parse_filter({**GOOD, "now": now}).now == span


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"wehre": "x"}, "wehre"),
        ({"where": ""}, "where"),
        ({"shard": "../x"}, "../x"),
        ({"now": "yesterday"}, "yesterday"),
        ({"now": ["1970-01-02", "1970-01-01"]}, "now"),
        ({"columns": "a"}, "columns"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidRequest, match=named.replace(".", r"\.")):
        parse_filter({**GOOD, **change}, "filters/late.yaml")


@pytest.mark.parametrize(
    ("where", "columns", "used"),
    [
        ("DELAY > 5", (), True),
        ("`Delay` > 5", (), True),
        ("`de``lay` > 5", (), False),
        ("x = 'delay' and y = \"delay\"", (), False),
        ("delayed > 5 or a_delay > 5", (), False),
        ("x > 5", ("x", "Delay"), True),
        ("x > 5", ("x",), False),
    ],
)
def test_a_filter_uses_a_column_that_it_names_or_shows(
    where: str, columns: tuple[str, ...], used: bool
) -> None:
    found = RegisteredFilter("flights", "late", where, columns=columns)
    assert uses_column(found, "delay") is used
    assert uses_column(found, "de`lay") is ("``" in where)


def test_filters_are_loaded_by_shard_and_name(tmp_path: Path) -> None:
    for shard, name in (("b", "x"), ("a", "y"), ("a", "x")):
        text = f"shard: {shard}\nname: {name}\nwhere: i > 1\n"
        (tmp_path / f"{shard}-{name}.yaml").write_text(text)

    assert [(f.shard, f.name) for f in load_filters(str(tmp_path))] == [
        ("a", "x"),
        ("a", "y"),
        ("b", "x"),
    ]
    assert [f.name for f in load_filters(str(tmp_path), "b")] == ["x"]


def test_a_name_registered_twice_is_refused(tmp_path: Path) -> None:
    for file in ("one.yaml", "two.yaml"):
        (tmp_path / file).write_text("shard: a\nname: x\nwhere: i > 1\n")

    with pytest.raises(InvalidRequest, match="twice"):
        load_filters(str(tmp_path))


def test_the_filters_of_the_demo_can_be_loaded() -> None:
    root = Path(__file__).parents[3] / "config" / "filters"

    assert len(load_filters(str(root))) >= 3
