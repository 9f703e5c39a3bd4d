"""Texts in a declared form: the fast reader and its twin agree on random forms and texts."""

from datetime import datetime, timedelta
from typing import Final

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import settings as trying
from hypothesis import strategies as st

from strata.ingest import twin
from strata.ingest.twin import Undecided, Unreadable
from strata.ingest.values.written import from_written, read_written
from strata.model.types import ColumnType, Kind
from strata.model.written import parse_form
from tests.support.sizes import tries

EDGES: Final = "0123456789/-. :,TZ+'aApPmM\té٣\u0130ſ"
GAPS: Final = ("/", ".", "-", " ", "'T'", ", ", "''", "年", "'of'")
TYPES: Final = {kind: ColumnType(kind) for kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)}


@st.composite
def forms(draw: st.DrawFn) -> tuple[str, Kind]:
    """Return a form that can be declared, and a type that it is for."""
    kind = draw(st.sampled_from([*TYPES]))
    year = draw(st.sampled_from(["yyyy", "yyyy", "yy"]))
    month, day = (
        draw(st.sampled_from(["MM", "M", "MMM", "MMMM"])),
        draw(st.sampled_from(["dd", "d"])),
    )
    gap = draw(st.sampled_from(GAPS))
    text = gap.join(draw(st.permutations([year, month, day])))
    if kind is not Kind.DATE and draw(st.booleans()):
        hour = draw(st.sampled_from(["HH:mm", "H:mm", "H", "hh:mm a", "h:mma"]))
        more = ["", ":ss", ":s", ":ss.SSS", ":ss.SSSSSSSSS"] if hour in ("HH:mm", "H:mm") else [""]
        text += draw(st.sampled_from([" ", "'T'", "', at '"])) + hour + draw(st.sampled_from(more))
        if kind is Kind.TIMESTAMPTZ:
            text += draw(st.sampled_from(["", "XXX", " XX"]))
    if year == "yy":
        text += draw(st.sampled_from([" from 1950", " from 2000", " from 9900", " from 0001"]))
    return text, kind


def shown(form: str, kind: Kind, moment: datetime, twist: int) -> str:
    """Return a moment in a form; every other `twist` writes numbers of one letter short."""
    hour = moment.hour % 12 or 12
    values = {"y": moment.year, "M": moment.month, "d": moment.day, "H": moment.hour, "h": hour}
    values |= {"m": moment.minute, "s": moment.second}
    found = ""
    for piece in parse_form(form, kind).pieces:
        if piece.field in values:
            number = values[piece.field] % 100 if piece.most == 2 else values[piece.field]
            width = piece.least if twist % 2 else piece.most
            found += f"{number:0{width}}"
        elif piece.field == "name":
            name = moment.strftime("%B")
            found += (name[:3] if piece.most == 3 else name).upper() if twist % 3 else name[:3]
        elif piece.field == "a":
            found += "pm" if moment.hour > 11 else "AM"
        elif piece.field == "S":
            found += f"{moment.microsecond:06}"[: piece.most]
        elif piece.field == "X":
            found += ("Z", f"+02{piece.text}30", f"-11{piece.text}00")[twist % 3]
        else:
            found += piece.text
    return found


MOMENTS = st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31))  # noqa: DTZ001
NOISE = st.tuples(st.integers(0, 30), st.sampled_from([*EDGES, ""]), st.integers(0, 2))


def noisy(text: str, noise: tuple[int, str, int]) -> str:
    at, what, cut = noise
    return text[:at] + what + text[at + cut :]


@st.composite
def texts_of(draw: st.DrawFn) -> tuple[str, Kind, list[str | None]]:
    form, kind = draw(forms())
    found: list[str | None] = []
    for moment in draw(st.lists(MOMENTS, min_size=1, max_size=6)):
        text = shown(form, kind, moment, draw(st.integers(0, 5)))
        if draw(st.booleans()):
            text = noisy(text, draw(NOISE))
        found.append(draw(st.sampled_from([text, text, f" {text}\t", None])))
    return form, kind, found


@given(texts_of())
@trying(max_examples=tries(60, 5000))
@example(("d/M/yyyy", Kind.DATE, ["1/2/2020", "3", "11/12/2020", "29/2/2023", "29/2/2024"]))
@example(("d", Kind.DATE, []))
@example(("dd/MM/yy from 1950", Kind.DATE, ["01/01/49", "01/01/50", "01/01/00"]))
@example(("yyyyMMddHHmm", Kind.TIMESTAMP, ["202401312359", "000101010000", "202401312460"]))
@example(
    (
        "d/M/yyyy H:m:s.SSSSSSSSS",
        Kind.TIMESTAMP,
        ["1/2/2020 1:2:3.123456789", "1/2/2020 1:2:3.123456000", "1/2/2020 1:2:3.5"],
    )
)
@example(("dd.MM.yyyy HH:mmXXX", Kind.TIMESTAMPTZ, ["01.01.0001 00:00+01:00", "1", "٣"]))
def test_the_fast_reader_reads_as_its_twin(given_texts: tuple[str, Kind, list[str | None]]) -> None:
    text, kind, values = given_texts
    if not values:
        return
    form, target = parse_form(text, kind), TYPES[kind]
    encoded = [None if v is None else v.encode(errors="surrogatepass") for v in values]
    padded = pa.array([b"31/12/2024", *encoded, None], pa.binary())[1:-1]  # of a larger array
    cast = read_written(padded, target, form)
    made = twin.stored(cast.values, target)
    bad = set(cast.bad.tolist())
    for row, value in enumerate(values):
        try:
            meant = None if value is None else twin.from_form(value, text, target)
        except Undecided:
            continue
        except Unreadable:
            assert row in bad, value
        else:
            assert row not in bad, (text, value, meant)
            assert made[row] == meant, (text, value)


@given(texts_of())
@trying(max_examples=tries(15, 500))
def test_objects_and_arrays_are_read_alike(given_texts: tuple[str, Kind, list[str | None]]) -> None:
    text, kind, values = given_texts
    form, target = parse_form(text, kind), TYPES[kind]

    def convert(others: object, _: ColumnType) -> None:
        raise AssertionError(others)

    array = pa.array(values, pa.string())
    one = from_written(values, target, form, convert)  # type: ignore[arg-type]
    for other in (array, array.dictionary_encode(), array.cast(pa.large_string())):
        again = from_written(other, target, form, convert)  # type: ignore[arg-type]
        assert one.values.equals(again.values)
        assert np.array_equal(one.bad, again.bad)


def test_every_day_of_the_calendar_is_read() -> None:
    days = [datetime(1, 1, 1) + timedelta(days=7 * n + n % 5) for n in range(500_000)]  # noqa: DTZ001
    days = [day for day in days[::40]]
    texts = pa.array([f"{day.day}.{day.month}.{day.year:04}".encode() for day in days])
    cast = read_written(texts, TYPES[Kind.DATE], parse_form("d.M.yyyy", Kind.DATE))
    assert cast.values.to_pylist() == [day.date() for day in days]
