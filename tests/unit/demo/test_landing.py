"""The landing folder holds the real rows, each once, and the planes' changes add up."""

import csv
from collections import Counter
from datetime import date

import orjson
import pytest

from demo.landing import Landing, make_landing
from demo.planes import Flight, plane_changes

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def landing(tmp_path_factory: pytest.TempPathFactory) -> Landing:
    return make_landing(tmp_path_factory.mktemp("demo"), days=31)


def lines(landing: Landing, source: str) -> dict[str, list[str]]:
    """Return the lines of each file by its day."""
    folder = landing.root / "landing" / source
    return {p.stem: p.read_text().splitlines() for p in sorted(folder.iterdir())}


def test_every_source_has_files_by_day(landing: Landing) -> None:
    assert dict(landing.files) == {
        "flights": 31,
        "flight_events": 31,
        "weather": 31,
        "planes": 31,
        "airports": 1,
    }
    assert list(lines(landing, "flights"))[:2] == ["2013-01-01", "2013-01-02"]
    assert landing.rows["flights"] == landing.rows["flight_events"] == 27_004
    assert landing.rows["airports"] == 1458


def test_flights_lie_in_the_file_of_their_day_as_shipped(landing: Landing) -> None:
    header, *rows = lines(landing, "flights")["2013-01-31"]

    assert header.split(",")[:3] == ["year", "month", "day"]
    assert len(header.split(",")) == 19
    assert {tuple(row.split(",")[:3]) for row in rows} == {("2013", "1", "31")}
    assert any(",NA," in row for row in rows)


def test_events_say_the_same_as_the_flights(landing: Landing) -> None:
    for day, (header, *rows) in lines(landing, "flights").items():
        flights = list(csv.DictReader([header, *rows]))
        events = [orjson.loads(line) for line in lines(landing, "flight_events")[day]]
        assert [(f["origin"], f["dest"], f["time_hour"]) for f in flights] == [
            (e["origin"], e["payload"]["route"]["dest"], e["scheduled_at"]) for e in events
        ]
        cancelled = [f["dep_delay"] == "NA" for f in flights]
        assert cancelled == ["delay" not in e["payload"] for e in events]
        break


def test_the_planes_in_service_are_each_there_once(landing: Landing) -> None:
    service: Counter[bytes] = Counter()
    for changes in lines(landing, "planes").values():
        for text in changes:
            row = orjson.loads(text)
            diff = row.pop("diff")
            service[orjson.dumps(row)] += diff
        assert min(service.values()) >= 0
        service = Counter({row: n for row, n in service.items() if n})
        assert set(service.values()) == {1}
        planes = [orjson.loads(row)["tailnum"] for row in service]
        assert len(planes) == len(set(planes))


def test_writing_again_leaves_the_files_alone(landing: Landing) -> None:
    path = landing.root / "landing" / "flights" / "2013-01-01.csv"
    before = path.stat().st_mtime_ns

    assert make_landing(landing.root, days=1).rows["flights"] == 842
    assert path.stat().st_mtime_ns == before


def test_a_plane_lives_from_its_first_flight_to_its_last() -> None:
    master = {"N1": {"tailnum": "N1", "year": "1999", "model": "NA"}}
    flights = [
        Flight(date(2013, 1, 5), "N1", "JFK"),
        Flight(date(2013, 2, 3), "N1", "LGA"),
        Flight(date(2013, 2, 9), "N1", "LGA"),
        Flight(date(2013, 3, 2), "N1", "EWR"),
        Flight(date(2013, 3, 2), "N2", "EWR"),
    ]

    changes = list(plane_changes(flights, master))

    told = [(str(day), c["diff"], c["home"], c["flights"], c["last_seen"]) for day, c in changes]
    assert told == [
        ("2013-01-05", 1, "JFK", 0, "2013-01-05"),
        ("2013-02-01", -1, "JFK", 0, "2013-01-05"),
        ("2013-02-01", 1, "JFK", 1, "2013-01-05"),
        ("2013-03-01", -1, "JFK", 1, "2013-01-05"),
        ("2013-03-01", 1, "LGA", 3, "2013-02-09"),
        ("2013-03-03", -1, "LGA", 3, "2013-02-09"),
    ]
    assert changes[0][1]["year"] == 1999
    assert changes[0][1]["model"] is None


def test_a_plane_that_may_just_be_waiting_is_not_deleted() -> None:
    flights = [Flight(date(2013, 12, 5), "N1", "JFK")]

    assert [c["diff"] for _, c in plane_changes(flights, {"N1": {"tailnum": "N1"}})] == [1]
