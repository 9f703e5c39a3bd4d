"""What of values and of sizes is written down for a place, where little is known."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from strata.stats import protected
from strata.stats.members import PlaceValues, member_columns
from strata.stats.protected import LENGTH_BITS, _field_bits
from strata.stats.wire import set_name


def test_a_place_has_a_set_even_where_nothing_is_known_of_it() -> None:
    place: Any = SimpleNamespace(name="s.1", form="int64")
    known = PlaceValues(place, [b"5"], None, 1)
    many = PlaceValues(place, None, None, 0)
    unknown = PlaceValues(place, None, None, 0, False)

    found = [
        member_columns([one], {})[set_name("s.1")].to_pylist() for one in (known, many, unknown)
    ]

    assert found == [
        [{"form": "int64", "values": [b"5"]}],
        [{"form": "int64", "values": None}],
        [{"form": "", "values": None}],
    ]


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_a_text_of_a_budget_is_as_long_as_one_that_is_collected(
    kind: pa.DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protected, "STRING_BYTES", 7)
    monkeypatch.setattr(protected, "COLLECT_BYTES", 9)

    found = [_field_bits(kind, json) for json in (True, False)]

    assert found == [8 * 7 + LENGTH_BITS, 8 * 9 + LENGTH_BITS]
