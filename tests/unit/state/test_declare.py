"""A declaration changes by the rules of its settings, in one commit, and a repetition is empty."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import Conflict, InvalidRequest
from strata.model.spec import ShardSpec, parse_spec
from strata.state.codec import decode_state, encode_state
from strata.state.declare import RULES, Effect, Follow, compared_with, redeclare, settings_of
from strata.state.state import State
from strata.state.transitions import append, create
from tests.support.batches import batch

BASE: dict[str, Any] = {
    "name": "events",
    "columns": [
        {"name": "id", "type": "int64", "nullable": False},
        {"name": "kind", "type": "string"},
        {"name": "size", "type": "int16", "nullable": False, "default": 3},
    ],
    "key": ["id"],
    "order": ["kind"],
    "source": {"paths": ["in"], "format": "jsonl"},
    "stats": {"keep": ["kind"]},
}
# For each setting another value, and what becomes of it in a shard with rows.
OTHERS: dict[str, tuple[Any, Effect, Follow | None]] = {
    "key": (["id", "kind"], Effect.REFUSED, None),
    "order": (["size"], Effect.FOLLOWED, Follow.MIGRATE),
    "source.paths": (["in", "more"], Effect.AT_ONCE, None),
    "source.format": ("csv", Effect.AT_ONCE, None),
    "source.envelope": ("upsert", Effect.REFUSED, None),
    "source.diff_column": ("change", Effect.AT_ONCE, None),
    "source.max_rejected": (0.5, Effect.AT_ONCE, None),
    "source.same_content": ("each", Effect.AT_ONCE, None),
    "source.late_files": ("take", Effect.AT_ONCE, None),
    "source.deleted_column": ("gone", Effect.AT_ONCE, None),
    "source.contradictions": ("count", Effect.AT_ONCE, None),
    "source.snapshots": ("merge", Effect.AT_ONCE, None),
    "source.schema_changes": ("report", Effect.AT_ONCE, None),
    "source.tables": (["public.orders"], Effect.AT_ONCE, None),
    "source.delimiter": (";", Effect.AT_ONCE, None),
    "source.nulls": ([""], Effect.AT_ONCE, None),
    "source.dates": ("dd/MM/yyyy", Effect.AT_ONCE, None),
    "source.timestamps": ("d.M.yyyy H:mm", Effect.AT_ONCE, None),
    "source.verify": ("always", Effect.AT_ONCE, None),
    "source.in_place": (True, Effect.AT_ONCE, None),
    "source.encoding": ("cp1252", Effect.AT_ONCE, None),
    "source.decimal": (",", Effect.AT_ONCE, None),
    "source.thousands": ("'", Effect.AT_ONCE, None),
    "source.header": (["id", "kind"], Effect.AT_ONCE, None),
    "source.escape": ("\\", Effect.AT_ONCE, None),
    "source.skip_blanks": (True, Effect.AT_ONCE, None),
    "source.names": ({"t": "kind"}, Effect.AT_ONCE, None),
    "time.from": ("column", Effect.AT_ONCE, None),
    "time.column": ("id", Effect.AT_ONCE, None),
    "time.late": ("refuse", Effect.AT_ONCE, None),
    "time.early": ("last", Effect.AT_ONCE, None),
    "write_format": ("row", Effect.FOLLOWED, Follow.MIGRATE),
    "read_format": ("row", Effect.AT_ONCE, None),
    "part_bytes": (4096, Effect.AT_ONCE, None),
    "row_group_bytes": (4096, Effect.AT_ONCE, None),
    "stats.budget_bytes": (9000, Effect.FOLLOWED, Follow.COLLECT),
    "stats.keep": (["kind", "size"], Effect.FOLLOWED, Follow.COLLECT),
    "stats.sets": (["kind"], Effect.FOLLOWED, Follow.ADD),
    "stats.blooms": (["kind"], Effect.FOLLOWED, Follow.ADD),
    "stats.pairs": ([["id", "size"]], Effect.FOLLOWED, Follow.ADD),
    "stats.bloom_bits": (12, Effect.AT_ONCE, None),
    "rollout.mode": ("soft", Effect.REFUSED, None),
    "rollout.audit_percent": (5, Effect.REFUSED, None),
    "about.owner": ("events team", Effect.AT_ONCE, None),
    "about.description": ("one row for each event", Effect.AT_ONCE, None),
    "about.tags": (["pii"], Effect.AT_ONCE, None),
    "sums.of": ("flights", Effect.REFUSED, None),
    "sums.sum": (["delay"], Effect.REFUSED, None),
    "sums.min": (["delay"], Effect.REFUSED, None),
    "sums.max": (["delay"], Effect.REFUSED, None),
    "sums.where": ("delay > 0", Effect.REFUSED, None),
}


def declared(**settings: Any) -> ShardSpec:
    """Return the declaration with other values; a name is written as `stats__keep`."""
    raw = {**BASE}
    for name, value in settings.items():
        group, _, inner = name.partition("__")
        raw[group] = {**raw.get(group, {}), inner: value} if inner else value
    return parse_spec(raw)


def with_columns(*columns: dict[str, Any], **settings: Any) -> ShardSpec:
    return declared(columns=list(columns), **settings)


def changed(setting: str, value: Any) -> ShardSpec:
    more = {"time__column": "id"} if setting == "time.from" else {}
    return declared(**{setting.replace(".", "__"): value}, **more)


EMPTY = create(declared(), 1000)
FULL, _ = append(EMPTY, 1000, token="a", lower=0, upper=10, batch=batch(0, 10, 5))
ID, KIND, SIZE = BASE["columns"]


def test_each_setting_of_a_declaration_has_a_rule() -> None:
    assert RULES.keys() == settings_of(declared()).keys()
    assert OTHERS.keys() == RULES.keys() - {"name", "columns"}
    for setting, rule in RULES.items():
        assert rule.effect != Effect.KEPT
        if rule.effect == Effect.REFUSED:
            assert rule.note, setting
            assert rule.cure, setting


@pytest.mark.parametrize("setting", OTHERS)
def test_a_setting_changes_by_its_rule(setting: str) -> None:
    value, effect, follow = OTHERS[setting]
    asked = changed(setting, value)
    assert settings_of(asked)[setting] == value != settings_of(FULL.spec)[setting]

    found = compared_with(FULL, asked)

    [line] = [line for line in found.lines if line.setting == setting]
    assert (line.effect, line.follow) == (effect, follow)
    assert (line.before, line.after) == (settings_of(FULL.spec)[setting], value)
    if effect == Effect.REFUSED:
        assert line.cure
        with pytest.raises(InvalidRequest, match="cannot become this one") as error:
            redeclare(FULL, 2000, asked=asked, seen=FULL.spec)
        assert error.value.details["setting"] == setting
        return
    state, _ = redeclare(FULL, 2000, asked=asked, seen=FULL.spec)
    assert (state.seqno, settings_of(state.spec)) == (FULL.seqno + 1, settings_of(asked))
    assert decode_state(encode_state(state)) == state
    assert not compared_with(state, asked).differences
    assert redeclare(state, 3000, asked=asked, seen=FULL.spec)[0] is state


@pytest.mark.parametrize("setting", ["order", "write_format", "stats.budget_bytes", "stats.keep"])
def test_nothing_follows_in_a_shard_without_parts(setting: str) -> None:
    [line] = compared_with(EMPTY, changed(setting, OTHERS[setting][0])).differences
    assert (line.effect, line.follow) == (Effect.AT_ONCE, None)


def test_an_empty_shard_may_have_another_envelope() -> None:
    [line] = compared_with(EMPTY, changed("source.envelope", "upsert")).differences
    assert line.effect == Effect.AT_ONCE
    assert [
        x.effect for x in compared_with(FULL, changed("source.envelope", "diff")).differences
    ] == [Effect.AT_ONCE]


@pytest.mark.parametrize(
    ("setting", "value", "follow"),
    [
        ("stats.budget_bytes", 500, Follow.TRIM),
        ("stats.keep", [], None),
        ("stats.keep", ["size"], Follow.COLLECT),
    ],
)
def test_less_is_trimmed_or_left(setting: str, value: Any, follow: Follow | None) -> None:
    [line] = compared_with(FULL, changed(setting, value)).differences
    assert line.follow == follow


def test_columns_come_and_grow_and_go_in_one_commit() -> None:
    new = {"name": "note", "type": "float64", "default": 1.5}
    wide = {**SIZE, "type": "int64", "nullable": True}
    asked = with_columns(ID, wide, new, order=["note"], stats__keep=["note"])

    state, found = redeclare(FULL, 2000, asked=asked, seen=FULL.spec)

    assert [(x.setting, x.effect) for x in found.differences] == [
        ("columns.size", Effect.AT_ONCE),
        ("columns.note", Effect.AT_ONCE),
        ("order", Effect.FOLLOWED),
        ("columns.kind", Effect.AT_ONCE),
        ("stats.keep", Effect.FOLLOWED),
    ]
    assert state.seqno == FULL.seqno + 1
    assert [r.version for r in state.relations] == [0, 1, 2, 3, 4]
    assert [(c.id, c.name, str(c.type)) for c in state.relation.columns] == [
        (1, "id", "int64"),
        (3, "size", "int64"),
        (4, "note", "float64"),
    ]
    assert state.next_column_id == 5
    assert state.relation.order == (4,)
    assert state.spec.order == ("note",)
    assert decode_state(encode_state(state)) == state
    assert not compared_with(state, asked).differences
    back, _ = redeclare(
        state,
        3000,
        seen=state.spec,
        asked=with_columns(ID, wide, new, KIND, order=["note"], stats__keep=["note"]),
    )
    assert back.relation.by_name["kind"].id == 5, "an id is never used again"


def test_the_sequence_of_columns_means_nothing() -> None:
    assert not compared_with(FULL, with_columns(SIZE, KIND, ID)).differences


@pytest.mark.parametrize(
    ("columns", "setting", "said"),
    [
        ([ID, KIND, {**SIZE, "type": "uint8"}], "columns.size", "no wider type"),
        ([ID, {**KIND, "nullable": False}, SIZE], "columns.kind", "cannot forbid"),
        ([ID, KIND, {**SIZE, "default": 4}], "columns.size", "another value than before"),
        ([ID, {**KIND, "name": "sort"}, SIZE], "columns.sort", "a renamed column keeps its values"),
        (
            [ID, KIND, SIZE, {"name": "x", "type": "uint8", "nullable": False}],
            "columns.x",
            "needs a default",
        ),
    ],
)
def test_columns_that_may_not_be_are_refused(columns: Any, setting: str, said: str) -> None:
    order = ["size"] if setting == "columns.sort" else ["kind"]
    found = compared_with(FULL, with_columns(*columns, order=order))
    [line] = [x for x in found.refused if x.setting == setting]
    assert said in line.note
    if setting == "columns.sort":
        assert "strata schema rename events kind sort" in line.cure
        assert "columns.kind" not in [x.setting for x in found.lines], "it does not go either"


def test_a_whole_key_that_would_grow_is_refused_with_the_words_that_keep_it() -> None:
    whole = create(parse_spec({"name": "w", "columns": [ID, KIND]}), 1000)
    found = compared_with(whole, parse_spec({"name": "w", "columns": [ID, KIND, SIZE]}))
    assert [(x.setting, x.cure) for x in found.refused] == [
        ("key", "declare key: [id, kind], so that a new column is no part of it")
    ]
    kept = parse_spec({"name": "w", "columns": [ID, KIND, SIZE], "key": ["id", "kind"]})
    assert not compared_with(whole, kept).refused


def test_an_order_that_sorts_alike_is_kept() -> None:
    plain = create(parse_spec({**BASE, "order": []}), 1000)
    found = compared_with(plain, parse_spec({**BASE, "order": ["id"]}))
    assert not found.differences
    [line] = [x for x in found.lines if x.setting == "order"]
    assert line.note == "it is the same sort order"


def test_a_declaration_that_was_changed_meanwhile_is_a_conflict() -> None:
    other, _ = redeclare(FULL, 2000, asked=changed("part_bytes", 4096), seen=FULL.spec)
    with pytest.raises(Conflict, match="meanwhile"):
        redeclare(other, 3000, asked=changed("stats.bloom_bits", 9), seen=FULL.spec)


ALLOWED = [name for name, (_, effect, _) in OTHERS.items() if effect != Effect.REFUSED]


@given(st.lists(st.lists(st.sampled_from(ALLOWED), unique=True, max_size=6), max_size=5))
def test_any_course_of_declarations_ends_with_the_last(courses: list[list[str]]) -> None:
    state: State = FULL
    for course in courses:
        given_ = {name.replace(".", "__"): OTHERS[name][0] for name in course}
        if "time.from" in course:
            given_.setdefault("time__column", "id")
        asked = declared(**given_)
        differs = settings_of(asked) != settings_of(state.spec)
        following, _ = redeclare(state, state.walltime_ms, asked=asked, seen=state.spec)
        assert (following is not state) == differs
        assert settings_of(following.spec) == settings_of(asked)
        assert following.spine == state.spine
        state = following
    assert replace(state, seqno=0, walltime_ms=0).commits == FULL.commits


def test_new_columns_of_one_declaration_have_ids_of_their_own() -> None:
    """Two that share one would be read from the same values."""
    state = create(parse_spec(BASE), 0)
    more = [{"name": name, "type": "int64"} for name in ("a", "b", "c")]
    asked = parse_spec({**BASE, "columns": [*BASE["columns"], *more]})

    following, _ = redeclare(state, 1, asked=asked, seen=state.spec)

    ids = [column.id for column in following.relation.columns]
    assert len(ids) == len(set(ids)) == 6
    assert following.next_column_id == max(ids) + 1


@pytest.mark.parametrize(
    ("key", "cure"),
    [
        (["id", "kind"], "create a shard with this key"),  # not for a new column
        (["id", "kind", "size"], "declare key: [id]"),  # as where none is declared
        (["kind"], "create a shard with this key"),
    ],
)
def test_a_key_that_may_not_change_says_what_helps(key: list[str], cure: str) -> None:
    found = compared_with(create(parse_spec(BASE), 0), parse_spec({**BASE, "key": key}))

    [refused] = found.refused
    assert refused.cure.startswith(cure)


def test_columns_are_shown_as_the_commands_of_a_schema_write_them() -> None:
    shown = settings_of(parse_spec(BASE))["columns"]

    assert shown == ["int64 not null", "string", "int16 not null default 3"]
