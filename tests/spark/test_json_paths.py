"""A path that statistics are asked by leads Spark to the same key, or to nothing that is known."""

import json

import pytest
from pyspark.sql import SparkSession

from strata.expr.functions.json import parse_path

pytestmark = pytest.mark.spark
ODD = (
    *" \t\n\r\x0b\x0c\x1c\x85\xa0\u2003",
    *"?*-@é😀0",
    "\\",
    '"',
    *"][($/:,",
)
KEYS = [form.format(c) for c in ODD for form in ("{0}a", "a{0}", "a{0}b", "{0}", "{0}{0}a")]
PATHS = [form.format(key) for key in KEYS for form in ("$.{0}", "$['{0}']", "$.b.{0}", "$[{0}]")]


def test_a_path_that_is_understood_leads_spark_to_the_same_key(spark: SparkSession) -> None:
    """Each key of the document has a value of its own, those without the odd letter as well."""
    inner = {key: f"inside {n}" for n, key in enumerate([*KEYS, "a", "b"])}
    document = {key: f"value {n}" for n, key in enumerate([*KEYS, "a"])} | {"b": inner}
    frame = spark.createDataFrame(
        [(path, json.dumps(document), json.dumps(document, ensure_ascii=False)) for path in PATHS],
        "path string, escaped string, plain string",
    )

    found = frame.selectExpr(
        "path", "get_json_object(escaped, path)", "get_json_object(plain, path)"
    ).collect()

    understood = 0
    for path, escaped, plain in found:
        keys = parse_path(path)
        if keys is not None:
            value = document
            for key in keys:
                value = value.get(key)  # type: ignore[assignment, attr-defined]
            assert escaped == plain == value, repr(path)
            understood += 1
    assert understood > len(PATHS) / 3


def test_the_same_for_variants(spark: SparkSession) -> None:
    document = {key: f"value {n}" for n, key in enumerate(["a", "b", *KEYS])}
    for path in (f"$['{character}a']" for character in ODD):
        keys = parse_path(path)
        if keys is None:
            continue
        got = spark.sql(
            "select try_variant_get(parse_json(:d), :p, 'string')",
            args={"d": json.dumps(document), "p": path},
        ).collect()[0][0]
        assert got == document.get(keys[0]), repr(path)
