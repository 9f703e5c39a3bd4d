"""S12: a field of a form holds one value, and nothing behind it."""

import re

import pytest

pytestmark = pytest.mark.dags
GOOD = ("2013-01-01", "2013-01-01T10:20", "2013-01-01 10:20:30.5Z", "2013-01-01T10:20:30+01:00")


@pytest.mark.parametrize(
    "value",
    [
        "2013-01-01 --config=evil.toml",
        "2013-01-01T",
        "2013-01-01\n",
        "2013-01-01 10:20\n--x",
        "2013-01-01T10:20:30Z --x",
        "--config=x",
        "\u0662\u0660\u0661\u0663-01-01",
        "",
    ],
)
def test_a_time_is_a_time_alone(value: str) -> None:
    from strata_airflow.forms import MOMENT

    assert not re.search(MOMENT, value)
    assert all(re.search(MOMENT, good) for good in GOOD)


@pytest.mark.parametrize("value", ["a\n", "-a", "a b", "a;b", "a/b", "", "a\u2028"])
def test_a_name_is_one_word(value: str) -> None:
    from strata_airflow.forms import NAME

    assert not re.search(NAME, value)
    assert re.search(NAME, "flights.2013-x_1")


@pytest.mark.parametrize("value", ["a\0b", "a b", "-a", ""])
def test_a_column_is_one_word(value: str) -> None:
    from strata_airflow.forms import columns

    pattern = columns().schema["items"]["pattern"]
    assert not re.search(pattern, value)
    assert re.search(pattern, "payload['a-b']")


def test_a_number_that_no_task_is_started_with_is_refused() -> None:
    """Airflow hands numbers of 64 bits to a task: its failure had no log, and no words."""
    from airflow.sdk.exceptions import ParamValidationError

    from strata_airflow.forms import number

    assert number("x", "y").resolve(2**63 - 1)
    with pytest.raises(ParamValidationError):
        number("x", "y").resolve(10**30)


@pytest.mark.parametrize("word", ["a\0b", "x" * 140_000, "\ud800"])
def test_a_text_that_no_command_line_carries_is_refused_for_good(word: str) -> None:
    """The system's error named nothing, and the task was tried twice more."""
    from airflow.sdk.exceptions import AirflowFailException

    from strata_airflow.commands import run_strata

    with pytest.raises(AirflowFailException, match="no text for a command") as raised:
        run_strata("rollout", "request", "s", "--reason", word)
    assert len(str(raised.value)) < 300
