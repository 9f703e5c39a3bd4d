"""A state survives being stored, field by field, and nothing else passes for one."""

import json
from dataclasses import fields, is_dataclass, replace
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata import __version__
from strata.errors import Corrupt, InvalidRequest
from strata.model.schema import Column, Relation
from strata.model.spec import (
    DECIMALS,
    ESCAPES,
    FORMATS,
    LAYOUTS,
    MODES,
    READ_FORMATS,
    THOUSANDS,
    UNWRITTEN,
    AboutSpec,
    ColumnSpec,
    RolloutSpec,
    ShardSpec,
    SourceSpec,
    StatsSpec,
    SumsSpec,
    TimeSpec,
    parse_spec,
)
from strata.model.types import NESTED, ColumnType, Kind, parse_type
from strata.state import rows
from strata.state.codec import decode_commits, decode_state, encode_commits, encode_state
from strata.state.plain import dump, plain
from strata.state.seal import digest_of, sealed
from strata.state.state import (
    Batch,
    Commit,
    Consumed,
    Erasure,
    Evidence,
    Happened,
    Hold,
    Merge,
    Progress,
    Request,
    Rollout,
    RolloutEntry,
    RunSummary,
    Segment,
    Spine,
    SpineBatch,
    State,
    Stratum,
    Tombstone,
    Trip,
    Writer,
)
from tests.support.batches import batch, spec

I64 = st.integers(-(2**63), 2**63 - 1)
COUNT = st.integers(0, 2**53)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
TYPES = st.one_of(
    st.sampled_from([k for k in Kind if k not in NESTED | {Kind.NUMERIC, Kind.CHAR}]).map(
        ColumnType
    ),
    st.sampled_from(["numeric(38,9)", "list<map<int16>>", "record<a: date, b: list<text>>"]).map(
        parse_type
    ),
)
JSON = st.one_of(
    st.none(), st.booleans(), I64, TEXT, st.floats(allow_nan=False, allow_infinity=False)
)


def tuples(items: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, max_size=most).map(tuple)


RELATIONS = st.lists(
    st.tuples(NAMES, TYPES, st.booleans(), JSON), min_size=1, max_size=4, unique_by=lambda c: c[0]
).flatmap(
    lambda cs: st.builds(
        Relation,
        COUNT,
        st.just(tuple(Column(i + 1, n, t, x, d) for i, (n, t, x, d) in enumerate(cs))),
        st.just((1,)),
        tuples(st.integers(1, len(cs))),
    )
)
SPECS = st.builds(
    ShardSpec,
    NAMES,
    tuples(st.builds(ColumnSpec, NAMES, TYPES, st.booleans(), JSON)),
    tuples(NAMES),
    tuples(NAMES),
    st.builds(
        SourceSpec,
        tuples(TEXT),
        st.sampled_from(FORMATS),
        TEXT,
        TEXT,
        st.floats(0, 1),
        TEXT,
        names=tuples(st.tuples(TEXT, NAMES)),
        encoding=st.sampled_from(["utf-8", "cp1252", "utf-16"]),
        decimal=st.sampled_from(DECIMALS),
        thousands=st.sampled_from(THOUSANDS),
        header=tuples(NAMES),
        escape=st.sampled_from(ESCAPES),
        skip_blanks=st.booleans(),
    ),
    st.builds(TimeSpec, TEXT, st.none() | TEXT, TEXT),
    st.sampled_from(LAYOUTS),
    st.sampled_from(READ_FORMATS),
    COUNT,
    COUNT,
    st.builds(StatsSpec, COUNT, tuples(TEXT)),
    st.builds(RolloutSpec, st.sampled_from(MODES), COUNT),
    st.builds(AboutSpec, TEXT, TEXT, tuples(TEXT)),
    st.builds(SumsSpec, TEXT, tuples(TEXT), tuples(TEXT), tuples(TEXT), TEXT),
)
BATCHES = st.builds(
    Batch, I64, I64, I64, COUNT, COUNT, COUNT,
    tuples(st.builds(RunSummary, COUNT, COUNT, COUNT, tuples(COUNT))),
    st.none() | TEXT, tuples(st.tuples(TEXT, COUNT)), COUNT, COUNT, st.none() | st.binary(),
    I64, st.integers(0, 2**64 - 1), st.booleans(), tuples(COUNT), st.none(), st.none() | TEXT,
).flatmap(
    lambda batch: st.sampled_from([None, digest_of(batch.stats_union)]).map(
        lambda digest: replace(batch, stats_digest=digest)
    )
)  # fmt: skip
MERGES = st.builds(
    Merge, COUNT, I64, I64, I64, I64, TEXT, COUNT, COUNT, COUNT, COUNT, COUNT, COUNT, COUNT, COUNT,
    COUNT, COUNT, st.floats(0, 1e6),
)  # fmt: skip
COMMITS = st.builds(Commit, TEXT, COUNT, I64, I64, COUNT, COUNT, COUNT, COUNT, st.none() | TEXT)
MODE = st.sampled_from(MODES)
EVIDENCE = st.builds(
    Evidence,
    TEXT,
    *[COUNT] * 5,
    I64,
    *[COUNT] * 5,
    tuples(st.builds(Stratum, TEXT, COUNT)),
    *[COUNT] * 3,
    st.none() | TEXT,
    st.booleans(),
)
ROLLOUTS = st.builds(
    Rollout, MODE, COUNT, COUNT, TEXT, TEXT, tuples(TEXT), TEXT,
    st.none()
    | st.builds(Request, MODE, COUNT, TEXT, TEXT, I64, I64, tuples(TEXT), st.booleans(), TEXT),
    EVIDENCE,
    tuples(
        st.builds(
            RolloutEntry, I64, st.sampled_from(get_args(Happened)), MODE, MODE, COUNT, TEXT, TEXT,
            TEXT, *[COUNT] * 8, TEXT, COUNT, TEXT, TEXT, TEXT, COUNT, tuples(COUNT), *[COUNT] * 3,
        )
    ),
    COUNT, tuples(COUNT),
)  # fmt: skip
STATES = st.builds(
    State, COUNT, COUNT, SPECS, st.lists(RELATIONS, min_size=1, max_size=2).map(tuple), I64, I64,
    st.builds(Spine, tuples(st.builds(SpineBatch, COUNT, COUNT, COUNT, tuples(BATCHES))), COUNT),
    tuples(st.builds(Hold, TEXT, I64, st.none() | I64, TEXT, COUNT)),
    ROLLOUTS,
    tuples(COMMITS), tuples(TEXT), tuples(TEXT), COUNT, COUNT, COUNT, COUNT,
    tuples(st.builds(Writer, TEXT, COUNT, I64, TEXT)),
    st.none() | st.builds(Tombstone, I64, TEXT, TEXT), tuples(MERGES),
    tuples(
        st.builds(
            Progress, tuples(TEXT), I64, I64, I64, TEXT, COUNT, COUNT, st.none() | TEXT, COUNT, I64
        )
    ),
    st.none() | TEXT,
    st.none() | st.builds(Consumed, I64, I64, tuples(st.builds(Segment, TEXT, COUNT)), COUNT),
    st.none() | st.builds(Trip, I64, TEXT, TEXT, st.none() | COUNT, TEXT, TEXT, TEXT),
    st.none() | TEXT,
    st.none() | st.builds(Erasure, TEXT, I64, TEXT, TEXT, TEXT, COUNT, COUNT),
)  # fmt: skip
FIRST = State(1, 2, spec(), (spec().relation(),))


@given(STATES)
def test_every_field_comes_back(state: State) -> None:
    data = encode_state(state)
    decoded = decode_state(data)
    assert decoded == state
    assert encode_state(decoded) == data
    assert types_of(decoded) == types_of(state)


@given(STATES)
def test_pieces_that_were_json_already_change_no_byte(state: State) -> None:
    """Of a state whose values were encoded before, in it or in one that shares most of it."""
    later = replace(state, commits=state.commits[1:], next_column=7)
    for known, asked in ((state, later), (later, state), (state, state)):
        forget_pieces()
        fresh = encode_state(asked)
        forget_pieces()
        encode_state(known)
        assert encode_state(asked) == fresh


@given(STATES)
def test_tables_and_places_say_what_objects_do(state: State) -> None:
    """The obvious encoding, which is format 1 and spells all out."""
    obvious = spelled_out(state)
    assert decode_state(obvious) == state
    assert types_of(decode_state(obvious)) == types_of(state)
    assert rows.from_tables(json.loads(encode_state(state))) == json.loads(obvious)["state"]


@given(tuples(COMMITS, 6))
def test_a_ledger_comes_back(commits: tuple[Commit, ...]) -> None:
    assert decode_commits(encode_commits(commits)) == commits


def test_names_of_a_source_are_written_where_there_are_some() -> None:
    """Programs from before they were known read all other shards."""
    source = replace(FIRST.spec.source, names=(("t", "id"),))
    named = replace(FIRST, spec=replace(FIRST.spec, source=source))

    assert b'"names"' not in encode_state(FIRST)
    assert b'"names":[["t","id"]]' in encode_state(named)
    assert decode_state(encode_state(named)) == named


def test_how_csv_is_written_is_stored_where_it_is_unusual() -> None:
    source = replace(
        FIRST.spec.source,
        encoding="cp1252",
        decimal=",",
        thousands="\u202f",
        header=("id",),
        escape="\\",
        skip_blanks=True,
    )
    other = replace(FIRST, spec=replace(FIRST.spec, source=source))

    for name in (
        b'"encoding"',
        b'"decimal"',
        b'"thousands"',
        b'"header"',
        b'"escape"',
        b'"skip_blanks"',
    ):
        assert name not in encode_state(FIRST)
        assert name in encode_state(other)
    assert decode_state(encode_state(other)) == other


def spelled_out(state: State) -> bytes:
    """Return a state as documents of format 1 have it."""
    return sealed(dump({"by": __version__, "format": 1, "state": plain(state)}))


def forget_pieces() -> None:
    rows._PIECES.clear()
    rows._DECLARED.clear()


def wide(count: int, **changes: Any) -> State:
    """Return a new state of many columns that are all of the key, and in the order."""
    names = [f"c{i}" for i in range(count)]
    columns = [{"name": name, "type": "int64"} for name in names]
    declared = parse_spec({"name": "wide", "columns": columns, "key": names, "order": names[::-1]})
    return replace(State(1, 2, declared, (declared.relation(),)), **changes)


def test_columns_are_written_once() -> None:
    state = wide(200)
    data = encode_state(state)
    assert data.count(b'"c77"') == 1
    assert decode_state(data) == state
    stored = json.loads(data)["state"]
    assert (stored["spec"]["columns"], stored["spec"]["key"]) == ("0-199", "0-199")
    assert (stored["relations"][0]["columns"], stored["relations"][0]["key"]) == ("0-199", "1-200")


def test_a_column_of_several_relations_is_written_once() -> None:
    """And one that became wider as often as it differs."""
    state = wide(20)
    first = state.relation
    wider = replace(first.columns[3], type=parse_type("numeric(38,9)"))
    second = replace(first, version=1, columns=(*first.columns[:3], wider, *first.columns[4:]))
    both = replace(state, relations=(first, second))
    data = encode_state(both)
    assert decode_state(data) == both
    assert (data.count(b'"c3"'), data.count(b'"c4"')) == (2, 1)
    stored = json.loads(data)
    assert stored["state"]["relations"][1]["columns"] == "0-2,20,4-19"
    assert stored["state"]["spec"]["columns"] == "0-19", "as the older relation has them"


@pytest.mark.parametrize(
    "change",
    [
        {"default": 0},
        {"default": False},
        {"default": 0.0},
        {"nullable": False},
        {"name": "other"},
        {"type": parse_type("string")},
    ],
)
def test_a_declaration_that_differs_from_its_relation_stays_exact(change: dict[str, Any]) -> None:
    state = wide(20)
    relation = replace(
        state.relation, columns=tuple(replace(c, default=0) for c in state.relation.columns)
    )
    columns = [ColumnSpec(c.name, c.type, c.nullable, c.default) for c in relation.columns]
    columns[7] = replace(columns[7], **change)
    spec_ = replace(state.spec, columns=tuple(columns))
    both = replace(state, spec=spec_, relations=(relation,))
    decoded = decode_state(encode_state(both))
    assert decoded == both
    assert types_of(decoded) == types_of(both)


def test_no_row_leaves_a_field_out() -> None:
    """A table names its fields once for all rows, so none may be there for some only."""
    for kind in (Batch, RunSummary, SpineBatch, Commit, Merge, RolloutEntry, Column, ColumnSpec):
        assert not any(UNWRITTEN in field.metadata for field in fields(kind)), kind


COMMIT: dict[str, Any] = {
    "fields": ["token", "seqno", "lower", "upper", "updates", "parts", "size_bytes", "rejected"],
    "rows": [["t", 1, 2, 3, 4, 5, 6, 7]],
}


def test_a_field_that_a_table_lacks_has_its_default() -> None:
    stored = decode_state(changed_state(commits=COMMIT))
    assert stored.commits == (Commit("t", 1, 2, 3, 4, 5, 6, 7),)


def relations_with(**changes: Any) -> list[Any]:
    return [{"version": 0, "columns": "0-1", "key": [1], "order": [], **changes}]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"commits": {**COMMIT, "rows": [["t", 1]]}}, "state.commits.rows[0]: no list of 8 values"),
        ({"commits": {**COMMIT, "rows": [COMMIT]}}, "state.commits.rows[0]: no list of 8 values"),
        ({"commits": {**COMMIT, "rows": 5}}, "state.commits: no table"),
        ({"commits": {**COMMIT, "fields": ["token"] * 8}}, "state.commits: no table"),
        ({"commits": {"rows": []}}, "state.commits.fields: no names"),
        ({"commits": {**COMMIT, "fields": [1, 2]}}, "state.commits.fields: no names"),
        ({"commits": {**COMMIT, "fields": []}}, "state.commits.fields: no names"),
        ({"commits": "x"}, 'state.commits: "x" is not list'),
        ({"merges": {"fields": ["seqno"], "rows": [[1]]}}, "state.merges[0].at_ms: missing"),
        ({"relations": relations_with(columns="0-99")}, "relations[0].columns: no column 99"),
        ({"relations": relations_with(columns="2-0")}, "relations[0].columns: '2-0' is not"),
        ({"relations": relations_with(key="x")}, "relations[0].key: 'x' is no order"),
        ({"relations": [5]}, "relations[0]"),
        ({"relations": 5}, "state.relations"),
        ({"spec": 5}, "state.spec"),
        ({"spine": 5}, "state.spine"),
        ({"spine": {"slots": 5}}, "state.spine.slots: no table"),
        ({"spine": {"runs": {"fields": ["parts"], "rows": [[1]]}}}, "1 runs belong to none"),
        (
            {"spine": {"batches": {"fields": ["runs"], "rows": [[-1]]}}},
            "state.spine.batches[0].runs: -1 of 0 left",
        ),
        (
            {"spine": {"slots": {"fields": ["batches"], "rows": [[True]]}}},
            "state.spine.slots[0].batches: True of 0 left",
        ),
    ],
)
def test_a_table_or_place_that_does_not_fit_is_corrupt(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(Corrupt) as caught:
        decode_state(changed_state(**changes))
    assert named in str(caught.value).replace("\\", "")


def test_every_field_is_written() -> None:
    """Else a change of a default would change what old documents mean."""
    written = json.loads(encode_state(FIRST))["state"]
    assert set(written) == {f.name for f in fields(State)}
    assert set(written["spec"]["source"]) == {f.name for f in fields(SourceSpec)} - {
        "names",
        "in_place",
        "encoding",
        "decimal",
        "thousands",
        "header",
        "escape",
        "skip_blanks",
    }
    table = json.loads(encode_state(FIRST))["columns"]
    assert dict(zip(table["fields"], table["rows"][1], strict=True))["type"] == "string"
    assert set(table["fields"]) == {f.name for f in fields(Column)}


def test_no_field_is_left_out_of_the_strategies() -> None:
    """`st.builds` would leave a new field at its default, and not test it."""
    counts = {kind.__name__: len(fields(kind)) for kind in (State, Batch, ShardSpec, Rollout, Hold)}
    assert counts == {"State": 25, "Batch": 18, "ShardSpec": 14, "Rollout": 12, "Hold": 5}


def test_every_type_in_the_state_is_covered_by_this_test() -> None:
    """A dataclass that joins the state must join the strategies above."""
    seen: set[type] = set()

    def visit(kind: Any) -> None:
        for inner in getattr(kind, "__args__", ()):
            visit(inner)
        if isinstance(kind, type) and is_dataclass(kind) and kind not in seen:
            seen.add(kind)
            for hint in get_type_hints(kind).values():
                visit(hint)

    visit(State)
    assert {kind.__name__ for kind in seen} == {
        "State", "Consumed", "Segment",
        "ShardSpec", "ColumnSpec", "SourceSpec", "TimeSpec", "StatsSpec", "RolloutSpec",
        "AboutSpec", "SumsSpec",
        "Relation", "Column", "ColumnType", "Field", "Spine", "SpineBatch", "Batch", "RunSummary",
        "Stratum", "Evidence", "Request", "RolloutEntry", "Hold", "Rollout", "Commit", "Writer",
        "Tombstone", "Trip", "Merge", "Progress", "Erasure",
    }  # fmt: skip


def changed(**changes: Any) -> bytes:
    """Return a document that was written so: its digest is the right one."""
    return sealed(without_digest(encode_state(FIRST), **changes))


def before_digests(**changes: Any) -> bytes:
    return without_digest(spelled_out(FIRST), **changes)


def without_digest(data: bytes, **changes: Any) -> bytes:
    document = json.loads(data)
    del document["digest"]
    return json.dumps({**document, **changes}).encode()


def changed_state(**changes: Any) -> bytes:
    return changed(state={**json.loads(encode_state(FIRST))["state"], **changes})


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (changed(format=None), ["format=None"]),
        (changed(format="1"), ["format='1'"]),
        (b"{}", ["no state"]),
        (b"[]", ["no state"]),
        (b"\x00\x01", ["JSON"]),
        (changed(state=5), ["5 is not dict"]),
        (changed_state(seqno="1"), ["state.seqno", "int"]),
        (changed_state(seqno=True), ["state.seqno", "int"]),
        (changed_state(seqno=1.5), ["state.seqno", "int"]),
        (changed_state(upper=2**70), ["state.upper", "int"]),
        (changed_state(ledger={"a": 1}), ["state.ledger", "list"]),
        (changed_state(rollout={"mode": "maybe"}), ["state.rollout.mode", "maybe"]),
        (changed_state(spine={"slots": [{"id_lower": 0}], "next_id": 1}), ["state.spine.slots[0]"]),
        (
            changed_state(relations=[{"version": 0, "columns": [], "key": [], "order": []}]),
            ["at least one column"],
        ),
    ],
)
def test_what_is_no_state_of_this_format_is_corrupt(data: bytes, named: list[str]) -> None:
    with pytest.raises(Corrupt) as caught:
        decode_state(data)
    for part in named:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (changed(format=4, by="9.9"), ["format=4", "known='1 and 3'", "written_by='9.9'"]),
        (changed_state(commits={"fields": ["moon"], "rows": [[1]]}), ["state.commits[0].moon"]),
        (changed_state(commits={**COMMIT, "moon": 1}), ["state.commits.moon", "newer"]),
        (changed_state(spine={"moon": 5}), ["state.spine.moon", "newer"]),
        (changed_state(colour="red"), ["state.colour", "newer"]),
        (changed_state(rollout={"moon": 5}), ["state.rollout.moon", "newer"]),
        (changed_state(commits=[{"sum": 1}]), ["state.commits[0].sum", "newer"]),
    ],
)
def test_a_state_from_the_future_is_refused_and_nothing_is_called_damaged(
    data: bytes, named: list[str]
) -> None:
    with pytest.raises(InvalidRequest, match="newer version of Strata") as caught:
        decode_state(data)
    for part in named:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"colour": "red"}, "colour"),
        ({"state": {**json.loads(spelled_out(FIRST))["state"], "moon": 5}}, "state.moon"),
        ({"format": 3}, "format=3"),
    ],
)
def test_what_no_older_version_wrote_is_damage_where_there_is_no_digest(
    changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(Corrupt) as caught:
        decode_state(before_digests(**changes))
    assert named in str(caught.value)


def test_a_missing_required_field_is_corrupt_and_others_take_their_default() -> None:
    for encode, written in ((encode_state, changed), (spelled_out, before_digests)):
        stored = json.loads(encode(FIRST))["state"]
        del stored["ledger"], stored["holds"]
        assert decode_state(written(state=stored)) == FIRST
        del stored["spec"]
        with pytest.raises(Corrupt, match=r"state\.spec: missing"):
            decode_state(written(state=stored))


def test_bad_base64_is_corrupt() -> None:
    batch = Batch(0, 1, 0, stats_union=b"abc")
    state = replace(FIRST, spine=Spine((SpineBatch(0, 1, 0, (batch,)),), 1))
    data = encode_state(state)
    assert b'"YWJj"' in data
    with pytest.raises(Corrupt, match="base64"):
        decode_state(sealed(b"{" + data.replace(b'"YWJj"', b'"YW*j"').partition(b",")[2]))


def test_a_value_that_json_cannot_hold_is_refused() -> None:
    relation = replace(
        FIRST.relation,
        columns=(Column(1, "a", ColumnType(Kind.DATE), True, {1}),),
        key=(1,),
        order=(),
    )
    with pytest.raises(InvalidRequest):
        encode_state(replace(FIRST, relations=(relation,)))


def types_of(value: Any) -> Any:
    """Return the types of a value and everything in it; 1 and True and 1.0 are equal."""
    if isinstance(value, tuple):
        return tuple(types_of(item) for item in value)
    if is_dataclass(value):
        return type(value), tuple(types_of(getattr(value, f.name)) for f in fields(value))
    return type(value)


def test_statistics_of_a_batch_that_are_not_its_own_are_never_written() -> None:
    """A bit that flipped in memory would be sealed with the digest of the damage."""
    right = replace(batch(0, 10, 5), stats_union=b"ARROW", stats_digest=digest_of(b"ARROW"))
    rows.check_batch(right)

    with pytest.raises(Corrupt, match="statistics of a batch are damaged"):
        rows.check_batch(replace(right, stats_union=b"ARROX"))


@pytest.mark.parametrize(("count", "left"), [(2, 1), (-1, 1), ("1", 1), (None, 1)])
def test_a_table_whose_counts_do_not_fit_says_how_many_are_left(count: object, left: int) -> None:
    with pytest.raises(rows.MismatchError, match=f"x.1..items: {count} of {left} left"):
        rows._grouped([{"items": 2}, {"items": count}], "items", [{}] * 3, "x")
    with pytest.raises(rows.MismatchError, match="1 items belong to none"):
        rows._grouped([{"items": 2}], "items", [{}] * 3, "x")
