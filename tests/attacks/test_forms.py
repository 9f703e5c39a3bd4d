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
