"""What a static verdict tells: whether a filter could ever skip, why not, and what would help."""

import pytest

from strata.decide.static import Outlook, outlook
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Expr, Literal, Opaque
from tests.spec.language import E, call, col

RANDOM = Opaque("Rand: rand()", "boolean")
CLOCK = Opaque("Udf: clock()", "boolean")
TRUE = Literal(True, "boolean")
SAFE = col("n") > 3


def _and(*conjuncts: Expr) -> Expr:
    return Call("and", conjuncts, "boolean")


def _outlook(expr: Expr, *quarantine: str) -> Outlook:
    return outlook(Filter(expr, "", 0, 0), quarantine)


def _unknown(arg: E) -> Expr:
    return call("tomorrow", arg).expr


@pytest.mark.parametrize(
    ("expr", "because"),
    [
        (SAFE.expr, ""),
        (TRUE, "it reads no column"),
        (Call("not", (Literal(False, "boolean"),), "boolean"), "it reads no column"),
        (Call("is_null", (col("n").expr,), "boolean"), ""),
        (_unknown(col("n")), "the function tomorrow is not known"),
        (Call("not", (_unknown(col("n")),), "boolean"), "the function tomorrow is not known"),
        (RANDOM, "Rand: rand()"),
        (Call("or", (RANDOM, RANDOM), "boolean"), "Rand: rand()"),
        (Call("or", (RANDOM, SAFE.expr, CLOCK), "boolean"), "Rand: rand(); Udf: clock()"),
    ],
)
def test_a_conjunct_that_proves_nothing_says_why(expr: Expr, because: str) -> None:
    (prospect,) = _outlook(expr).conjuncts

    assert prospect.because == because


def test_each_conjunct_has_its_own_reason() -> None:
    found = _outlook(_and(TRUE, SAFE.expr, RANDOM, (col("n") + 1 > 0).expr), "add").conjuncts

    assert [p.expression for p in found] == ["true", "n > 3", "{Rand: rand()}", "(n + 1) > 0"]
    assert [p.proves for p in found] == [False, True, False, False]
    assert [p.fails for p in found] == [False, False, True, True]
    assert [p.because for p in found] == [
        "it reads no column",
        "",
        "Rand: rand()",
        "the function add is in quarantine",
    ]


def test_help_names_the_conjunct_that_belongs_in_front() -> None:
    behind = _outlook(_and(RANDOM, TRUE, SAFE.expr, (col("m") < 9).expr))

    assert not behind.could_skip
    assert behind.help == "write `n > 3` in front of `{Rand: rand()}`, which may fail"
    assert _outlook(_and(SAFE.expr, RANDOM)).help == ""


@pytest.mark.parametrize("place", [0, 1, 2])
def test_joined_texts_prove_something_wherever_the_column_stands(place: int) -> None:
    args = [E(Literal(text, "string")) for text in ("-", "a", "b")]
    args[place] = col("name")

    assert _outlook((call("concat_ws", *args) == "x").expr).could_skip


@pytest.mark.parametrize("expr", [TRUE, RANDOM, _and(TRUE, RANDOM)])
def test_without_a_conjunct_that_proves_help_asks_for_one(expr: Expr) -> None:
    found = _outlook(expr)

    assert not found.could_skip
    assert found.help.startswith("put in front a conjunct over a column")


def test_an_outlook_as_json() -> None:
    assert _outlook(_and(SAFE.expr, RANDOM)).to_json() == {
        "could_skip": True,
        "conjuncts": [
            {"expression": "n > 3", "proves": True, "fails": False, "because": ""},
            {
                "expression": "{Rand: rand()}",
                "proves": False,
                "fails": True,
                "because": "Rand: rand()",
            },
        ],
        "help": "",
    }
