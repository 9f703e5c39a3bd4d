"""Call every kernel of the merge once, so that it is compiled and cached."""

import pyarrow as pa

from strata.format.columns import D
from strata.format.digest import content_digest
from strata.format.encodings import arrow_type
from strata.format.values.coded import canonical
from strata.format.weigh import Weighed
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.updates.arrange import arrange
from strata.updates.consolidate import consolidate_arranged
from strata.updates.gather import take


def warm() -> None:
    """Arrange, add up, gather, weigh and digest rows that tie in a number and in a long text."""
    number = pa.array([1, 1, 1])
    text = pa.array(["x" * 64, "x" * 40 + "y" * 24, "x" * 64])
    tail = pa.array(["", "y" * 50, "x" * 50])
    arrange([number, text, tail, pa.array([True, None, False])])
    arrange([pa.array([[1], [None], None])])
    order, equal = arrange([number])
    rows = pa.table({"1": pa.array(["text", None, ""]), D: number})
    consolidate_arranged(rows, order, equal)
    take(pa.concat_tables([rows, rows]), order)
    canonical(rows["1"].combine_chunks().dictionary_encode())
    Weighed(rows.set_column(0, "1", rows["1"].dictionary_encode()))
    _digested()


def _digested() -> None:
    """Digest values with and without nulls, and lists."""
    values = {
        "string": ["text", None],
        "int64": [1, 2],
        "list<string>": [["text", None], None],
    }
    columns = [Column(n, f"c{n}", parse_type(kind)) for n, kind in enumerate(values, 1)]
    arrays = {str(c.id): pa.array(values[str(c.type)], arrow_type(c.type)) for c in columns}
    rows = pa.table({**arrays, D: pa.array([1, 1])})
    content_digest(rows, Relation(0, tuple(columns), (1,), ()))
