"""Encodings are chosen by what a sample of the values shows."""

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.format.part_settings import SAMPLE_BLOCKS, SAMPLE_ROWS, sample_of, writer_settings

ROWS = 40_000
DRAW = random.Random(7)
INTS = [DRAW.randrange(10**6) for _ in range(ROWS)]
NOISE = [DRAW.getrandbits(64) - 2**63 for _ in range(ROWS)]
_DIFFERENCES = "DELTA_BINARY_PACKED"
COLUMNS: dict[str, tuple[Any, str]] = {
    "seconds": (pa.array(range(0, ROWS * 1000, 1000)), _DIFFERENCES),
    "small": (pa.array(INTS), _DIFFERENCES),
    "noise": (pa.array(NOISE), "PLAIN"),
    "ones": (pa.array([1] * ROWS), _DIFFERENCES),
    "few": (pa.array([NOISE[i % 9] for i in INTS]), "RLE_DICTIONARY"),
    "random": (pa.array([DRAW.random() for _ in range(ROWS)]), "BYTE_STREAM_SPLIT"),
    "prices": (pa.array([i / 100 for i in INTS]), "PLAIN"),
    "hex": (pa.array([f"{i:016x}" for i in NOISE]), "DELTA_LENGTH_BYTE_ARRAY"),
    "carrier": (pa.array([f"carrier {i % 5000}" for i in INTS]), "RLE_DICTIONARY"),
    "sorted": (pa.array([f"carrier {i // 2:020}" for i in range(ROWS)]), "PLAIN"),
    "stretches": (pa.array([f"carrier {i // 5000}" for i in range(ROWS)]), "RLE_DICTIONARY"),
    "amount": (pa.array([Decimal(i) / 100 for i in INTS], pa.decimal128(18, 2)), _DIFFERENCES),
    "wide": (pa.array([Decimal(i) / 100 for i in INTS], pa.decimal128(19, 2)), "PLAIN"),
    "flag": (pa.array([i % 2 == 0 for i in INTS]), "PLAIN"),
}


def test_each_column_gets_the_encoding_that_suits_its_values() -> None:
    table = pa.table({name: values for name, (values, _) in COLUMNS.items()})
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink, table.schema, **writer_settings(sample_of(table), ROWS, "structured")
    ) as writer:
        writer.write_table(table)
    file = pq.ParquetFile(pa.BufferReader(sink.getvalue()))
    assert file.read() == table
    group = file.metadata.row_group(0)
    found = {
        group.column(i).path_in_schema: next(
            e for e in [*group.column(i).encodings][::-1] if e != "RLE"
        )
        for i in range(group.num_columns)
    }
    assert found == {name: encoding for name, (_, encoding) in COLUMNS.items()}


def test_few_rows_get_no_other_encodings() -> None:
    table = pa.table({"a": [1.5, 2.5]})
    assert writer_settings(sample_of(table), 2, "row")["column_encoding"] is None


def test_a_sample_is_taken_from_everywhere() -> None:
    table = pa.table({"a": range(ROWS)})
    sample = sample_of(table)["a"].to_pylist()

    assert len(sample) == SAMPLE_BLOCKS * SAMPLE_ROWS
    assert max(sample) >= ROWS * (SAMPLE_BLOCKS - 1) // SAMPLE_BLOCKS
    assert sample_of(table.slice(0, 0)).num_rows == 0
    assert sample_of(table.slice(0, 10)).num_rows == 10


@pytest.mark.parametrize("rows", [SAMPLE_ROWS + 1, 4_000, 5_001, 16_384, 100_000])
def test_a_sample_is_a_small_part_of_the_rows_and_never_too_small_to_choose_by(rows: int) -> None:
    sample = sample_of(pa.table({"a": range(rows)}))["a"].to_pylist()

    assert SAMPLE_ROWS <= len(sample) <= max(SAMPLE_ROWS, rows // 4)
    assert sample == sorted(set(sample))
    assert max(sample) >= rows * (SAMPLE_BLOCKS - 1) // SAMPLE_BLOCKS


def test_codec_bytes_get_neither_dictionary_nor_statistics() -> None:
    sample = pa.table({"t": [1, 2], "d": [1, 1]}).take([0, 0, 0])
    settings = writer_settings(sample, 3, "both")
    assert settings["write_statistics"] == ["t", "d"]
    assert settings["use_dictionary"] == ["t", "d"]


def test_what_does_not_shrink_is_not_compressed() -> None:
    table = pa.table({"noise": COLUMNS["noise"][0], "hex": COLUMNS["hex"][0]})

    for layout, codecs in (("structured", {}), ("both", {"k": "lz4", "v": "lz4"})):
        settings = writer_settings(sample_of(table), ROWS, layout)
        assert settings["compression"] == {"noise": "none", "hex": "zstd", **codecs}
        assert settings["compression_level"] == {"hex": 1}


def test_times_are_differences_also_where_plain_ones_would_compress_a_little_better() -> None:
    cents = [round(DRAW.lognormvariate(6, 1)) for _ in range(ROWS)]
    settings = writer_settings(sample_of(pa.table({"cents": cents})), ROWS, "structured")
    assert settings["column_encoding"] == {"cents": "DELTA_BINARY_PACKED"}
