"""Finds records in a CSV text again, with their lines: rejected and verified ones."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from strata.ingest.land.files import SourceFile
from strata.ingest.land.plain_csv import plainly
from strata.ingest.land.source_file import Dialect
from strata.ingest.readers.records import CsvRecords
from strata.ingest.readers.source import Located
from strata.kernels.csv_scan import blanks_before_fields, find_records, swallowing

Ints = npt.NDArray[np.int64]


def located_records(
    source: SourceFile, data: bytes, records: Sequence[int], total: int
) -> list[Located]:
    """Return line and text of records, counted from 0 after the header, which is a record itself.

    `total`: how many records the parser found after the header; where there are others, none has a
    line. A file whose names are declared has no such record.
    """
    if not records:
        return []
    before = int(source.has_header)
    wanted, places = np.unique(np.asarray(records, np.int64) + before, return_inverse=True)
    starts, stops, lines = (np.zeros(len(wanted), np.int64) for _ in range(3))
    raw, delimiter = np.frombuffer(data, np.uint8), ord(source.dialect.delimiter)
    if find_records(raw, delimiter, wanted, starts, stops, lines) != total + before:
        return [(None, "")] * len(records)
    found: list[Located] = [
        (line + source.before + 1, data[start:stop].decode(errors="surrogateescape"))
        for start, stop, line in zip(starts.tolist(), stops.tolist(), lines.tolist(), strict=True)
    ]
    return [found[place] for place in places.tolist()]


def ends_of_records(source: SourceFile, data: bytes) -> Ints:
    """Return where the text of each record behind the header ends, before its line break."""
    raw, delimiter = np.frombuffer(data, np.uint8), ord(source.dialect.delimiter)
    none = np.zeros(0, np.int64)
    total = find_records(raw, delimiter, none, none, none, none)
    starts, stops, lines = (np.zeros(total, np.int64) for _ in range(3))
    find_records(raw, delimiter, np.arange(total), starts, stops, lines)
    return stops[int(source.has_header) :]


def warm() -> None:
    """Use each kernel of this room once."""
    text = b'a,b\n"1",2\n'
    CsvRecords().take(text)
    located_records(SourceFile("", "", len(text)), text, [0], 1)
    swallowing(np.frombuffer(text, np.uint8), ord(","))
    spaced = Dialect(escape="\\", skip_blanks=True)
    plainly(SourceFile("", "", len(text), dialect=spaced))(text)
    blanks_before_fields(np.frombuffer(text, np.uint8), ord(","))
