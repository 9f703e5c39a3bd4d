"""Forms of dates are taken if every text has one meaning in them, and refused with the reason."""

from typing import Any

import pytest

from strata.errors import InvalidRequest
from strata.model.spec import ShardSpec, parse_spec
from strata.model.types import Kind
from strata.model.written import parse_form
from strata.state.declare import settings_of
from strata.state.schema import DropColumn, RenameColumn, evolve
from strata.state.transitions import create

COLUMNS = [
    {"name": "id", "type": "int64", "nullable": False},
    {"name": "day", "type": "date"},
    {"name": "due", "type": "date"},
    {"name": "at", "type": "timestamp"},
    {"name": "seen", "type": "timestamptz"},
]


def declared(**source: Any) -> ShardSpec:
    return parse_spec({"name": "s", "columns": COLUMNS, "key": ["id"], "source": source})


@pytest.mark.parametrize(
    ("form", "kind", "reason"),
    [
        ("dd/MM/uuuu", Kind.DATE, "uuuu is no field"),
        ("EEE dd/MM/yyyy", Kind.DATE, "EEE is no field"),
        ("dd/MM/y", Kind.DATE, "y is no field of 1 letters"),
        ("ddd/MM/yyyy", Kind.DATE, "ddd is no field of 3 letters"),
        ("dd/MM/yy", Kind.DATE, "yy needs its century"),
        ("dd/MM/yyyy from 1950", Kind.DATE, "only a year of two digits"),
        ("dd/MM/yy from 9950", Kind.DATE, "years go from 0001"),
        ("dd/MM", Kind.DATE, "y is missing"),
        ("dd/mm/yyyy", Kind.TIMESTAMP, "M is missing"),
        ("dd/MM/yyyy dd", Kind.DATE, "d stands twice"),
        ("MMM/MM/yyyy dd", Kind.DATE, "M stands twice"),
        ("dMyyyy", Kind.DATE, "needs an end before the next digit"),
        ("d'1'MM/yyyy", Kind.DATE, "needs an end before the next digit"),
        ("dd/MM/yyyy HH", Kind.DATE, "a date has no time of day"),
        ("dd/MM/yyyy hh:mm", Kind.TIMESTAMP, "h does not stand alone: a is missing"),
        ("dd/MM/yyyy HH a", Kind.TIMESTAMP, "a does not stand alone: h is missing"),
        ("dd/MM/yyyy HH h a", Kind.TIMESTAMP, "H and h both say the hour"),
        ("dd/MM/yyyy HH:ss", Kind.TIMESTAMP, "s does not stand alone: m is missing"),
        ("dd/MM/yyyy HH:mmXXX", Kind.TIMESTAMP, "only a timestamptz has an offset"),
        ("dd/MM/yyyy XXX", Kind.TIMESTAMPTZ, "an offset belongs to a time of day"),
        ("dd/MM/yyyy HH:mm z", Kind.TIMESTAMPTZ, "z is no field"),
        ("dd/MM[/yyyy]", Kind.DATE, "has a meaning of its own in Spark"),
        ("dd/MM/yyyy 'at", Kind.DATE, "a quote is not closed"),
        (" dd/MM/yyyy", Kind.DATE, "white space around it"),
    ],
)
def test_a_form_without_one_meaning_is_refused(form: str, kind: Kind, reason: str) -> None:
    with pytest.raises(InvalidRequest, match="no form in which dates are written") as error:
        parse_form(form, kind)
    assert reason in str(error.value.details["reason"])
    assert error.value.details["value"] == form


def test_a_declaration_has_one_form_or_one_for_each_column() -> None:
    every = declared(dates="dd/MM/yyyy", timestamps={"at": "d.M.yyyy H:mm"}).source
    assert every.form_text("day", Kind.DATE) == every.form_text("due", Kind.DATE) == "dd/MM/yyyy"
    assert every.form_text("at", Kind.TIMESTAMP) == "d.M.yyyy H:mm"
    assert every.form_text("seen", Kind.TIMESTAMPTZ) == ""
    assert every.form_text("id", Kind.INT64) == ""
    one = declared(dates={"*": "dd/MM/yyyy", "due": "yyyyMMdd"}).source
    assert [one.form_text(n, Kind.DATE) for n in ("day", "due")] == ["dd/MM/yyyy", "yyyyMMdd"]
    assert one.written("id", Kind.INT64) is None


@pytest.mark.parametrize(
    ("source", "setting", "column"),
    [
        ({"dates": {"at": "dd/MM/yyyy"}}, "source.dates", "at"),
        ({"dates": {"dya": "dd/MM/yyyy"}}, "source.dates", "dya"),
        ({"timestamps": {"id": "dd/MM/yyyy"}}, "source.timestamps", "id"),
        ({"dates": "dd/MM/yyyy HH:mm"}, "source.dates", "*"),
        ({"timestamps": "dd/MM/yyyy HH:mmXXX"}, "source.timestamps", "*"),
        ({"dates": {"day": "dd/MM/yy"}}, "source.dates", "day"),
    ],
)
def test_a_form_is_refused_when_it_is_declared(
    source: dict[str, Any], setting: str, column: str
) -> None:
    with pytest.raises(InvalidRequest) as error:
        declared(**source)
    found = error.value.details
    assert (found["shard"], found["setting"], found["column"]) == ("s", setting, column)
    assert error.value.cure


@pytest.mark.parametrize("wrong", [7, ["dd/MM/yyyy"], {"day": 7}, [["day"]]])
def test_what_is_no_form_at_all_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidRequest):
        declared(dates=wrong)


def test_an_offset_is_for_the_columns_that_have_a_zone() -> None:
    form = "dd/MM/yyyy HH:mmXXX"
    assert declared(timestamps={"seen": form}).source.form_text("seen", Kind.TIMESTAMPTZ) == form


def test_debezium_has_its_own_forms() -> None:
    with pytest.raises(InvalidRequest, match="Debezium has forms of its own"):
        declared(envelope="debezium", dates="dd/MM/yyyy")


def test_forms_follow_the_columns() -> None:
    forms = {"day": "dd/MM/yyyy", "due": "yyyyMMdd"}
    state = create(declared(dates=forms), 1000)
    state, _ = evolve(state, 1001, change=RenameColumn("day", "on"))
    assert settings_of(state.spec)["source.dates"] == {"on": "dd/MM/yyyy", "due": "yyyyMMdd"}
    state, _ = evolve(state, 1002, change=DropColumn("due"))
    assert settings_of(state.spec)["source.dates"] == {"on": "dd/MM/yyyy"}
