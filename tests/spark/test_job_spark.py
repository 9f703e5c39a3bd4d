"""The Spark of a job, in a process of its own: made when it is asked for, or not at all."""

import subprocess
import sys

import pytest
from pyspark.sql import SparkSession

from strata.model.settings import SparkSettings
from strata.session.job_spark import JobSpark, job_spark

pytestmark = pytest.mark.spark

HEAD = """
import sys, time
from strata.errors import InvalidRequest
from strata.model.settings import SparkSettings
from strata.session import job_spark as room
from strata.session.job_spark import JobSpark, job_spark

SETTINGS = SparkSettings(master="local[2]")

def until(look, seconds=120):
    end = time.monotonic() + seconds
    while not look() and time.monotonic() < end:
        time.sleep(0.02)
    return look()
"""


def ran(body: str) -> list[str]:
    """Return the words that a process printed."""
    done = subprocess.run(
        [sys.executable, "-c", HEAD + body], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.split()


def test_a_job_that_asks_for_nothing_loads_nothing() -> None:
    body = """
with job_spark("test", SETTINGS) as spark:
    assert not spark.has_workers
    assert spark.about(str) == ""
print("pyspark.sql" in sys.modules)
"""
    assert ran(body) == ["False"]


def test_what_is_begun_is_made_beside_the_job() -> None:
    body = """
with job_spark("test", SETTINGS) as spark:
    began = time.monotonic()
    spark.begin(session=True)
    spark.begin()
    waited = time.monotonic() - began
    first = spark.about(str)
    assert until(lambda: spark.has_workers)
    session = spark.session
    assert session.sparkContext is spark.context
    assert session.conf.get("spark.sql.session.timeZone") == "UTC"
    assert session.conf.get("spark.sql.constraintPropagation.enabled") == "false"
    assert session.range(3).count() == 3
    print(waited < 0.5, first.replace(" ", "_"), spark.about(lambda context: "there"))
from pyspark import SparkContext
print(SparkContext._active_spark_context)
"""
    assert ran(body) == ["True", "Spark_starts", "there", "None"]


def test_a_job_that_ends_while_its_workers_start_says_nothing_of_it() -> None:
    """Spark would print the end of the task that starts them as an error, now and then."""
    body = """
from pyspark import SparkContext
levels, real = [], SparkContext.setLogLevel
SparkContext.setLogLevel = lambda self, level: (levels.append(level), real(self, level))
for wait in (0.5, 120):
    with job_spark("test", SETTINGS) as spark:
        spark.begin()
        spark.context
        until(lambda: spark.has_workers, wait)
print(*levels)
"""
    assert ran(body) == ["ERROR", "OFF", "ERROR"]


def test_executors_that_cannot_work_are_heard_of_by_who_needs_them() -> None:
    body = """
from strata.session import session
def refused(*_):
    raise InvalidRequest("Spark's executors cannot run Strata")
session.new_context = refused
with job_spark("test", SETTINGS) as spark:
    spark.begin(session=True)
    for look in ("context", "session"):
        try:
            getattr(spark, look)
        except InvalidRequest as error:
            print("refused")
    print(until(lambda: spark.has_workers, 10))
"""
    assert ran(body) == ["refused", "refused", "True"]


def test_workers_that_cannot_start_are_not_waited_for() -> None:
    body = """
from strata.session import session
def broken(context):
    raise OSError("no interpreter")
session.load_workers = broken
with job_spark("test", SETTINGS) as spark:
    spark.begin()
    print(until(lambda: spark.has_workers, 60))
"""
    assert ran(body) == ["True"]


def test_workers_may_be_asked_for_behind_the_session() -> None:
    body = """
with job_spark("test", SETTINGS) as spark:
    spark.begin(workers=False, session=True)
    spark.session
    print(until(lambda: spark.has_workers, 3))
    spark.begin()
    print(until(lambda: spark.has_workers))
"""
    assert ran(body) == ["False", "True"]


def test_a_session_that_comes_too_late_makes_no_other_context() -> None:
    body = """
from pyspark import SparkContext
with job_spark("test", SETTINGS) as spark:
    spark.begin(session=False)
    spark.context
try:
    spark.session
except RuntimeError as error:
    print("refused")
print(SparkContext._active_spark_context)
with job_spark("again", SETTINGS) as spark:
    print(spark.session.range(3).count())
"""
    assert ran(body) == ["refused", "None", "3"]


def test_a_cluster_without_room_keeps_no_job_that_has_ended() -> None:
    body = """
from strata.session import session
session.new_context = lambda *_: time.sleep(60)
room.PATIENCE_SECONDS = 0.5
began = time.monotonic()
with job_spark("test", SETTINGS) as spark:
    spark.begin(session=True)
print(time.monotonic() - began < 30)
"""
    assert ran(body) == ["True"]


def test_a_session_that_is_there_is_used_and_left(spark: SparkSession) -> None:
    with job_spark("test", SparkSettings()) as found:
        assert found.has_workers
        assert found.session is spark
        assert found.context is spark.sparkContext
    assert spark.range(3).count() == 3
    assert JobSpark("test", SparkSettings()).context is spark.sparkContext
