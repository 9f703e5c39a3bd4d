"""JSON is read exactly: large numbers are numbers, and a key that stands twice is seen."""

import json
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

from strata.decide.plan import plan_read
from strata.ingest.quarantine import rejected
from strata.ingest.retry import retry_rejected
from strata.ingest.values.cast import from_objects
from strata.ingest.values.exact_json import NumberText, Twice, read_plainly, read_value
from strata.ingest.values.literals import Text
from strata.model.types import parse_type
from strata.read.scan import scan
from tests.unit.ingest.test_engine import World


def world_of(root: Path, form: str, kind: str, **source: Any) -> World:
    columns = [{"name": "id", "type": "int64"}, {"name": "v", "type": kind}]
    return World(root, columns=columns, source={"format": form, "max_rejected": 1.0, **source})


def held(world: World) -> dict[int, Any]:
    """Return what the shard holds: v by id."""
    state = world.state
    batches = scan(world.stores, state, plan_read(world.stores, state))
    return {row["id"]: row["v"] for batch in batches for row in batch.to_pylist()}


def text_of(random: Random, depth: int = 3) -> str:
    """Return JSON of few keys, with white space wherever it may stand."""
    gap = random.choice(["", "", " ", "\t"])
    if depth == 0 or random.random() < 0.3:
        return random.choice(["1", "null", '"x"', '"\\":"', '"a\\": \\"b\\":"', "1e400", "1" * 400])
    if random.random() < 0.3:
        return f"[{gap}{','.join(text_of(random, depth - 1) for _ in range(random.randint(0, 3)))}]"
    pairs = (
        f'"{random.choice("ab:")}"{gap}:{gap}{text_of(random, depth - 1)}'
        for _ in range(random.randint(0, 3))
    )
    return "{" + f"{gap},".join(pairs) + "}"


def repeats(text: str) -> bool:
    """Return whether some object of a text has a key twice, by the standard library."""
    found = False

    def pairs(some: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal found
        found |= len(dict(some)) < len(some)
        return dict(some)

    json.loads(text, object_pairs_hook=pairs)
    return found


def holds_twice(value: Any) -> bool:
    if isinstance(value, Twice):
        return True
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(map(holds_twice, items))


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return str(value) if type(value) in (int, float, NumberText) else value


def test_keys_that_stand_twice_are_seen_wherever_they_are() -> None:
    random = Random(1)
    seen = 0
    for _ in range(5000):
        text = text_of(random)

        value = read_value(text.encode())

        assert holds_twice(value) == repeats(text), text
        assert plain(value) == plain(json.loads(text, parse_int=str, parse_float=str))
        seen += repeats(text)
    assert 100 < seen < 4900


def test_objects_that_are_read_together_are_those_read_one_by_one() -> None:
    """What is read together is right; whatever is repeated or no object is left to the slow way."""
    random = Random(2)
    together = 0
    for _ in range(5000):
        texts = [text_of(random).encode() for _ in range(random.randint(1, 3))]
        texts = [b'{"x":%s}' % text if random.random() < 0.9 else text for text in texts]

        found = read_plainly(texts)

        values = [read_value(text) for text in texts]
        if found is not None:
            together += 1
            assert found == values, texts
            assert not holds_twice(values), texts
            assert all(type(value) is dict for value in values)
    assert 100 < together < 4900


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":1}',
        '{"a":"\\u0022:","b":1,"b":1}',
        '{"a":"\\u003a","b":1,"b":1}',
        '{"a":"\\"\\u003A","b":1,"b":1}',
        '{"a" :1,"a":1}',
        '{"a":1} {"b":2}',
        "[1]",
        "",
    ],
)
def test_a_key_that_stands_twice_is_never_lost_among_others(text: str) -> None:
    assert read_plainly([b'{"a":1}', text.encode(), b'{"a":1}']) is None


@pytest.mark.parametrize("text", ["1e400x", "[1e400", '{"a":1e400,}', "01e400", '"\\ud800" 1e400'])
def test_a_large_number_excuses_nothing(text: str) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        read_value(text.encode())


@pytest.mark.parametrize("form", ["jsonl", "json"])
def test_numbers_beyond_floats_are_numbers(tmp_path: Path, form: str) -> None:
    world = world_of(tmp_path, form, "jsonb")
    rows = ['{"id":1,"v":1e400}', '{"id":2,"v":-' + "7" * 400 + "}", '{"id":3,"v":{"a":1e-400}}']
    text = "\n".join(rows) if form == "jsonl" else f"[{','.join(rows)}]"

    report = world.ingest(world.put("x", text), lower=0, upper=10)

    assert report["rejected"] == 0
    assert held(world) == {1: "1e+400", 2: "-" + "7" * 400, 3: '{"a":1e-400}'}


@pytest.mark.parametrize("kind", ["int64", "map<int64>", "record<a: int64>", "jsonb"])
@pytest.mark.parametrize("form", ["jsonl", "json"])
def test_a_key_that_stands_twice_is_refused_but_in_jsonb(
    tmp_path: Path, form: str, kind: str
) -> None:
    world = world_of(tmp_path, form, kind)
    good = "1" if kind == "int64" else '{"a":1}'
    bad = '"v":1,"v":2' if kind == "int64" else '"v":{"a":1,"a":2}'
    rows = [f'{{"id":1,"v":{good}}}', f'{{"id":2,{bad}}}', f'{{"id":3,"x":1,"x":2,"v":{good}}}']
    text = "\n".join(rows) if form == "jsonl" else f"[{','.join(rows)}]"

    report = world.ingest(world.put("x", text), lower=0, upper=10)

    taken = {1, 3} if kind != "jsonb" else {1, 2, 3}
    assert held(world).keys() == taken
    assert report["rejected"] == 3 - len(taken)
    for group in rejected(world.stores, "s"):
        assert [row["line"] for row in group.rows] == [2]
        assert b'"a":1,"a":2' in group.rows[0]["raw"] or b'"v":1,"v":2' in group.rows[0]["raw"]
    assert all(one.taken == 0 for one in retry_rejected(world.stores, world.settings, "s"))


@pytest.mark.parametrize(
    "message",
    [
        '{"before":null,"after":{"id":1,"v":1,"v":2},"op":"c","ts_ms":1}',
        '{"before":null,"after":{"id":1,"v":1},"after":{"id":1,"v":2},"op":"c","ts_ms":1}',
        '{"payload":{"before":null,"after":{"id":1,"id":2,"v":1},"op":"c"},"schema":null}',
    ],
)
def test_a_change_event_with_a_key_twice_is_refused(tmp_path: Path, message: str) -> None:
    world = world_of(tmp_path, "jsonl", "int64", envelope="debezium")
    other = '{"before":null,"after":{"id":9,"v":9},"op":"c","ts_ms":1}'

    report = world.ingest(world.put("x", f"{message}\n{other}\n"), lower=0, upper=10)

    assert (report["rejected"], held(world).keys()) == (1, {9})


def test_a_mark_of_tombstones_that_is_no_boolean_is_refused(tmp_path: Path) -> None:
    world = world_of(tmp_path, "jsonl", "int64", envelope="upsert", deleted_column="gone")
    rows = ['{"id":1,"v":1,"gone":"yes"}', '{"id":2,"v":2,"gone":false}', '{"id":3,"v":3}']

    report = world.ingest(world.put("x", "\n".join(rows)), lower=0, upper=10)

    assert (report["rejected"], held(world).keys()) == (1, {2, 3})


def test_a_number_is_no_int2vector_and_its_text_is() -> None:
    found = from_objects([NumberText("5"), "5", Text("5 6")], parse_type("int2vector"))

    assert found.bad.tolist() == [0]
    assert [one and one["vals"] for one in found.values.to_pylist()] == [None, [5], [5, 6]]
