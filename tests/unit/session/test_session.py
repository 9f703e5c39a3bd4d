"""What a session must have for reads whose filter and tasks are Strata's own."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.connect.session import SparkSession as RemoteSession

from strata.errors import InvalidRequest
from strata.model.types import parse_type
from strata.session.session import context_of
from strata.spark.front.tree import empty_frame
from strata.spark.runner import spark_runner
from tests.support.plain import relation_of


@pytest.mark.parametrize(
    "use",
    [
        context_of,
        spark_runner,
        lambda spark: empty_frame(spark, relation_of([parse_type("int64")])),
    ],
)
def test_a_session_of_spark_connect_hears_what_reads_there(use: Callable[[Any], object]) -> None:
    remote = object.__new__(RemoteSession)  # one with a server would need another Java machine

    with pytest.raises(InvalidRequest, match=r"Spark Connect .*cure: .*spark\.read\.format"):
        use(remote)
