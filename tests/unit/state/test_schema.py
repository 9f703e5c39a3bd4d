"""A relation changes by rules that keep every stored part readable."""

import shlex
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import Conflict, Corrupt, InvalidRequest
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.spec import parse_spec
from strata.model.types import parse_type
from strata.state.codec import decode_state, encode_state
from strata.state.difference import check_same, column_commands
from strata.state.schema import AddColumn, DropColumn, RenameColumn, WidenColumn, evolve
from strata.state.spine import check_merge
from strata.state.state import State
from strata.state.transitions import append, create
from tests.support.batches import batch, spec
from tests.support.stored import memory_stores

COLUMNS = [
    {"name": "id", "type": "int64", "nullable": False},
    {"name": "note", "type": "string"},
    {"name": "size", "type": "int16", "nullable": False},
]
NEW = create(spec(columns=COLUMNS, key=["id"], order=["size"]), 1000)
INT = parse_type("int32")


def changed(state: State, *changes: Any) -> State:
    for change in changes:
        state, _ = evolve(state, 2000, change=change)
    return state


def test_a_name_that_comes_back_is_another_column() -> None:
    state = changed(
        NEW,
        DropColumn("note"),
        AddColumn("note", INT, default=50),
        DropColumn("note"),
        AddColumn("other", INT),
        DropColumn("other"),
        AddColumn("note", INT),
    )

    assert [sorted(r.by_id) for r in state.relations] == [
        [1, 2, 3],
        [1, 3],
        [1, 3, 4],
        [1, 3],
        [1, 3, 5],
        [1, 3],
        [1, 3, 6],
    ]
    assert [r.version for r in state.relations] == list(range(7))


def test_ids_are_not_given_again_even_if_old_versions_were_forgotten() -> None:
    state = changed(NEW, AddColumn("x", INT), DropColumn("x"))
    pruned = decode_state(encode_state(replace(state, relations=state.relations[-1:])))

    assert changed(pruned, AddColumn("x", INT)).relation.by_name["x"].id == 5


def test_a_state_from_before_ids_were_counted_goes_on_counting() -> None:
    assert replace(NEW, next_column=0).next_column_id == 4


def test_a_new_column_stands_behind_the_others_and_sorts_last() -> None:
    relation = changed(NEW, AddColumn("x", INT, default=5)).relation

    assert relation.columns[-1] == Column(4, "x", INT, default=5)
    assert (relation.key, relation.order, relation.sort_ids) == ((1,), (3,), (3, 1, 2, 4))


def test_the_declaration_follows() -> None:
    state = changed(
        create(
            spec(
                columns=[*COLUMNS, {"name": "at", "type": "timestamptz"}],
                key=["id"],
                order=["size"],
                time={"from": "column", "column": "at"},
                stats={"keep": ["at"]},
            ),
            1000,
        ),
        RenameColumn("at", "seen"),
        RenameColumn("size", "bytes"),
        AddColumn("x", INT, default=5),
        WidenColumn("bytes", INT, nullable=True),
    )

    assert (state.spec.time.column, state.spec.stats.keep) == ("seen", ("seen",))
    assert state.spec.order == ("bytes",)
    fresh = state.spec.relation()
    assert [(c.name, c.type, c.nullable, c.default) for c in fresh.columns] == [
        (c.name, c.type, c.nullable, c.default) for c in state.relation.columns
    ]
    check_same(state, replace(state.spec, columns=state.spec.columns[::-1]))
    assert decode_state(encode_state(state)) == state


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (AddColumn("x", INT, key=True), "key"),
        (AddColumn("ID", INT), "name"),
        (AddColumn("D", INT), "taken by every update"),
        (AddColumn(" ", INT), "name"),
        (AddColumn("x", INT, nullable=False), "default"),
        (AddColumn("x", INT, default="5"), "default"),
        (AddColumn("x", INT, default=2**31), "default"),
        (AddColumn("x", parse_type("float64"), default=float("nan")), "default"),
        (AddColumn("x", parse_type("varchar(2)"), default="abc"), "default"),
        (AddColumn("x", parse_type("list<int32>"), default=5), "default"),
        (DropColumn("id"), "key"),
        (DropColumn("size"), "order"),
        (DropColumn("nope"), "no such column"),
        (RenameColumn("note", "note"), "already"),
        (RenameColumn("note", "Size"), "name"),
        (RenameColumn("note", "__part"), "taken by every update"),
        (RenameColumn("nope", "x"), "no such column"),
        (WidenColumn("note"), "nothing"),
        (WidenColumn("note", nullable=False), "forbid"),
        (WidenColumn("id", INT), "wider"),
        (WidenColumn("note", INT), "wider"),
        (WidenColumn("size", parse_type("float64")), "wider"),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_refused(change: Any, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        evolve(NEW, 2000, change=change)


@pytest.mark.parametrize(
    ("kind", "default", "wide"),
    [
        ("float32", 0.1, "float64"),
        ("char(4)", "ab  ", "varchar(4)"),
        ("char(4)", "ab  ", "string"),
        ("list<float32>", [0.5, 0.1], "list<float64>"),
        ("list<char(3)>", ["a "], "list<string>"),
        ("array<float32>", [0.1], "array<float64>"),
        ("map<float32>", {"k": 0.1}, "map<float64>"),
        ("record<a: float32>", {"a": 0.1}, "record<a: float64>"),
        ("record<a: float32>", {"a": 0.1}, "record<a: float64, b: int32>"),
    ],
)
def test_a_default_is_one_value_for_ever(kind: str, default: Any, wide: str) -> None:
    """Parts that lack the column read the default as it is now, others have it as it was then."""
    state = changed(NEW, AddColumn("x", parse_type(kind), default=default))

    with pytest.raises(InvalidRequest, match="would be another value"):
        evolve(state, 2000, change=WidenColumn("x", parse_type(wide)))


@pytest.mark.parametrize(
    ("kind", "default", "wide"),
    [
        ("float32", 0.5, "float64"),
        ("float32", "NaN", "float64"),
        ("float32", -0.0, "float64"),
        ("float32", None, "float64"),
        ("char(4)", "ab  ", "char(6)"),
        ("char(4)", "ab", "string"),
        ("varchar(4)", "ab  ", "string"),
        ("numeric(4,2)", "1.5", "numeric(9,2)"),
        ("uint8", 255, "int16"),
        ("record<a: float32>", {"a": 0.5}, "record<a: float64, b: int32>"),
    ],
)
def test_a_default_that_stays_widens_with_its_column(kind: str, default: Any, wide: str) -> None:
    state = changed(
        NEW, AddColumn("x", parse_type(kind), default=default), WidenColumn("x", parse_type(wide))
    )

    assert str(state.relation.by_name["x"].type) == wide


def test_the_only_column_stays() -> None:
    one = create(spec(columns=COLUMNS[:1], key=["id"]), 1000)
    with pytest.raises(InvalidRequest, match="only column"):
        evolve(one, 2000, change=DropColumn("id"))


def test_what_the_source_reads_by_name_is_not_taken() -> None:
    diffs = create(spec(columns=COLUMNS, key=["id"], source={"envelope": "diff"}), 1000)
    with pytest.raises(InvalidRequest, match="diff column"):
        evolve(diffs, 2000, change=AddColumn("diff", INT))
    with pytest.raises(InvalidRequest, match="diff column"):
        evolve(diffs, 2000, change=RenameColumn("note", "diff"))
    timed = create(spec(columns=COLUMNS, key=["id"], time={"from": "source", "column": "ts"}), 1000)
    with pytest.raises(InvalidRequest, match="time"):
        evolve(timed, 2000, change=AddColumn("ts", parse_type("string")))
    assert changed(timed, AddColumn("ts", parse_type("int64"))).relation.by_name["ts"].id == 4


def test_case_alone_may_be_renamed() -> None:
    assert changed(NEW, RenameColumn("note", "Note")).relation.by_id[2].name == "Note"


def test_a_lost_race_is_told_and_a_repetition_is_not_one() -> None:
    add = AddColumn("x", INT, default=5)
    state, done = evolve(NEW, 2000, change=add, expected_version=0)
    assert (done.already, done.relation.version) == (False, 1)

    again, done = evolve(state, 3000, change=add, expected_version=0)
    assert again is state
    assert done.already
    for change, expected in (
        (AddColumn("x", INT), 0),
        (DropColumn("note"), 0),
        (DropColumn("note"), 7),
    ):
        with pytest.raises(Conflict, match="meanwhile"):
            evolve(state, 3000, change=change, expected_version=expected)


CHANGES = st.one_of(
    st.builds(AddColumn, st.sampled_from("abc"), st.just(INT), st.booleans(), st.just(5)),
    st.builds(DropColumn, st.sampled_from(["a", "b", "c", "note"])),
    st.builds(RenameColumn, st.sampled_from(["a", "b", "note"]), st.sampled_from("abcA")),
    st.builds(
        WidenColumn,
        st.sampled_from(["a", "size"]),
        st.sampled_from([None, INT, parse_type("int64")]),
        st.sampled_from([None, True]),
    ),
)


@given(st.lists(CHANGES, max_size=12))
def test_an_id_means_one_column_for_ever(changes: list[Any]) -> None:
    state = NEW
    for change in changes:
        try:
            state = changed(state, change)
        except InvalidRequest:
            continue
        _, done = evolve(state, 0, change=change, expected_version=state.relation.version - 1)
        assert done.already
    lives = [[r.version for r in state.relations if i in r.by_id] for i in range(1, 20)]
    assert all(life == list(range(life[0], life[-1] + 1)) for life in lives if life)
    for old, new in pairwise(state.relations):
        for i in set(new.by_id) - set(old.by_id):
            assert i > max(r.highest_id for r in state.relations[: new.version])
        assert len({c.name.lower() for c in new.columns}) == len(new.columns)


def test_two_columns_whose_names_differ_in_case_are_no_relation() -> None:
    with pytest.raises(InvalidRequest, match="twice"):
        Relation(0, (Column(1, "a", INT), Column(2, "A", INT)), (1,), ())


def test_a_declared_default_must_fit() -> None:
    wrong = spec(columns=[{"name": "id", "type": "int16", "default": "x"}])
    with pytest.raises(InvalidRequest, match="default"):
        Machine(memory_stores()).create(wrong)


def test_a_batch_of_an_older_version_is_taken_one_of_an_unknown_is_not() -> None:
    state = changed(NEW, AddColumn("x", INT))
    old, new = batch(0, 10, 5), replace(batch(10, 20, 5), versions=(2,))

    state, _ = append(state, 0, token="a", lower=0, upper=10, batch=old)
    with pytest.raises(InvalidRequest, match="relation version"):
        append(state, 0, token="b", lower=10, upper=20, batch=new)


def test_a_digest_may_shift_only_between_versions() -> None:
    old = batch(0, 10, 5)
    shifted = replace(old, digest=(old.digest + 7) % 2**64)

    with pytest.raises(Corrupt, match="one relation version"):
        check_merge([old], shifted, old.since, 7)
    with pytest.raises(Corrupt, match="does not hold"):
        check_merge([old], replace(shifted, versions=(1,)), old.since, 0)
    check_merge([old], replace(shifted, versions=(1,)), old.since, 7)
    other = replace(shifted, versions=(1,), diffs_sum=old.diffs_sum + 1)
    with pytest.raises(Corrupt, match="does not hold"):
        check_merge([old], other, old.since, 7)


NAMED = [
    {"name": "id", "type": "int64", "nullable": False},
    {"name": "unit price", "type": "int16"},
    {"name": "it's", "type": "string"},
]


@pytest.mark.parametrize(
    ("columns", "commands"),
    [
        (
            [*NAMED[:1], {"name": "unit price", "type": "int64"}, NAMED[2]],
            [["widen", "items", "unit price", "int64"]],
        ),
        (
            [*NAMED[:2], {"name": "whose is it", "type": "string"}],
            [["rename", "items", "it's", "whose is it"]],
        ),
        (NAMED[:2], [["drop", "items", "it's"]]),
        (
            [*NAMED, {"name": "$HOME", "type": "string", "nullable": False, "default": "a b"}],
            [["add", "items", "$HOME", "string", "--not-null", "--default", "a b"]],
        ),
        ([*NAMED[:2], {"name": "it's", "type": "string", "nullable": False}], []),
    ],
)
def test_the_commands_of_a_difference_are_for_a_shell(
    columns: list[dict[str, Any]], commands: list[list[str]]
) -> None:
    state = create(parse_spec({"name": "items", "columns": NAMED, "key": ["id"]}), 1000)
    asked = parse_spec({"name": "items", "columns": columns, "key": ["id"]})

    found = [shlex.split(command) for command in column_commands(state.relation, asked)]

    assert found == [["strata", "schema", *words] for words in commands]


def test_each_default_of_a_declaration_is_looked_at() -> None:
    wrong = {"name": "n", "type": "int16", "default": "x"}
    columns = [COLUMNS[0], {"name": "note", "type": "string"}, wrong]
    asked = parse_spec({"name": "items", "columns": columns, "key": ["id"]})
    with pytest.raises(InvalidRequest, match="default does not fit"):
        Machine(memory_stores()).create(asked)


@pytest.mark.parametrize(
    ("names", "field", "after"),
    [
        ({}, "note", "remark"),
        ({"Bemerkung": "note"}, "Bemerkung", "Bemerkung"),  # the source keeps its own name
    ],
)
def test_a_field_without_a_name_in_its_file_follows_its_column(
    names: dict[str, str], field: str, after: str
) -> None:
    source = {"format": "csv", "header": ["id", field, "size"], "names": names}
    asked = spec(columns=COLUMNS, key=["id"], source=source)

    state = changed(create(asked, 1000), RenameColumn("note", "remark"))

    assert list(state.spec.source.header) == ["id", after, "size"]


@pytest.mark.parametrize("default", [2**64, b"1", float("nan")])
def test_a_default_that_a_state_cannot_keep_is_refused_by_its_column(default: object) -> None:
    with pytest.raises(InvalidRequest, match="does not fit its column") as caught:
        changed(NEW, AddColumn("x", parse_type("numeric(38,0)"), default=default))

    assert caught.value.details["column"] == "x"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (AddColumn("x", INT), "add x int32"),
        (AddColumn("x", INT, nullable=False, default=3), "add x int32 not null default 3"),
        (WidenColumn("size", INT), "widen size int32"),
        (WidenColumn("size", None, True), "widen size null"),
        (RenameColumn("size", "much"), "rename size much"),
        (DropColumn("size"), "drop size"),
    ],
)
def test_a_change_is_shown_as_the_command_line_writes_it(change: Any, text: str) -> None:
    assert str(change) == text
