"""A command that needs Spark starts a Java machine that serves a short life."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from strata.cli import spark as commands


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (None, "-XX:TieredStopAtLevel=1"),
        ("-Dproxy=a -XX:TieredStopAtLevel=4", "-XX:TieredStopAtLevel=1 {}"),
        ("-XX:TieredStopAtLevel=1 -Da=b", "{}"),
    ],
)
def test_java_compiles_quickly_unless_its_user_asks_for_more(
    asked: str | None, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two options that contradict each other, Java obeys the later."""
    monkeypatch.setenv(commands.JAVA_OPTIONS, asked or "")
    began: list[str] = []

    @contextmanager
    def starting(*_: Any) -> Iterator[str]:
        began.append(os.environ[commands.JAVA_OPTIONS])
        yield "a session"

    monkeypatch.setattr(commands, "spark_session", starting)
    monkeypatch.setattr(commands, "_check_machine", lambda: None)
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    context: Any = SimpleNamespace(settings=SimpleNamespace(spark=None))
    with commands.session(context) as spark:
        assert spark == "a session"
    assert began == [given.format(asked)]
