"""Three data sets like those that analysts load first, drawn with their distributions of values.

Earthquakes as nested GeoJSON, events like those of a code host, flights with their orders. Each is
sorted by time, so that only times are narrow in a part; kinds and places come and go over the
months, ids are anywhere, and some columns hold times and numbers as texts. Seeded and small.
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

PARTS: Final = 30
ROWS: Final = 240  # a part

Row = dict[str, Any]


@dataclass(frozen=True)
class DataSet:
    """Rows as readers see them, part by part, and what a shard of them declares."""

    name: str
    columns: Mapping[str, str]
    sets: Sequence[str]
    blooms: Sequence[str]
    parts: list[list[Row]]
    pairs: Sequence[tuple[str, str]] = ()


def data_sets(seed: int = 26) -> tuple[DataSet, ...]:
    """Return the three data sets."""
    return _quakes(random.Random(seed)), _events(random.Random(seed)), _flights(random.Random(seed))


def _some(draw: random.Random, values: Sequence[Any], least: int, most: int) -> list[Any]:
    """Return the values that occur in a part: the common ones first, then some of the others."""
    common = list(values[:least])
    return common + draw.sample(list(values[least:]), draw.randint(0, most - least))


def _skewed(draw: random.Random, values: Sequence[Any]) -> Any:
    """Return one of the values, earlier ones more often."""
    return values[min(int(draw.expovariate(3.0 / len(values))), len(values) - 1)]


def _instants(draw: random.Random, part: int, first: datetime, days: int) -> list[datetime]:
    span = timedelta(days=days) / PARTS
    start = first + part * span
    return sorted(start + span * draw.random() for _ in range(ROWS))


_STATES: Final = (
    "California", "Alaska", "Nevada", "Puerto Rico", "Hawaii", "Indonesia", "Chile", "Japan",
    "Fiji", "Tonga", "Papua New Guinea", "Peru", "Oklahoma", "Texas", "Montana", "Iran", "Turkey",
    "Greece", "Philippines", "Vanuatu", "Mexico", "Utah", "Idaho", "New Zealand", "Afghanistan",
)  # fmt: skip
_TOWNS: Final = (
    "Anza", "Cohoe", "Ridgecrest", "The Geysers", "Pahala", "Tonopah", "Lone Pine",
    "Searles Valley",
    "Volcano", "Willow", "Kodiak", "Borrego Springs", "Susitna", "Mammoth Lakes", "Stanley",
)  # fmt: skip
_NETS: Final = ("ci", "nc", "ak", "us", "nv", "hv", "pr", "uu", "mb", "uw", "ok", "se", "ld", "tx")
_KINDS: Final = (
    "earthquake", "quarry blast", "explosion", "ice quake", "other event", "chemical explosion",
    "mining explosion", "rock burst", "sonic boom", "landslide",
)  # fmt: skip
_SCALES: Final = ("ml", "md", "mb", "mww", "mwr", "mb_lg", "Mw", "mwc", "mwb", "Ml", "mh")


def _quakes(draw: random.Random) -> DataSet:
    parts = []
    for part in range(PARTS):
        nets, kinds = _some(draw, _NETS, 2, 7), _some(draw, _KINDS, 1, 4)
        scales, states = _some(draw, _SCALES, 2, 5), _some(draw, _STATES, 3, 9)
        rows = []
        for when in _instants(draw, part, datetime(2018, 1, 30, tzinfo=UTC), 60):
            net, mag = _skewed(draw, nets), round(abs(draw.gauss(1.6, 1.2)), 1)
            code = f"{draw.randrange(16**8):08x}"
            town, state = draw.choice(_TOWNS), _skewed(draw, states)
            side = draw.choice(("N", "SSE", "WNW", "ENE", "SW"))
            place = f"{draw.randint(1, 190)}km {side} of {town}, {state}"
            kind, felt = _skewed(draw, kinds), None
            if mag > 3 and draw.random() < 0.5:
                felt = draw.randint(1, 400)
            status = "reviewed" if draw.random() < 0.7 or part % 6 else "automatic"
            ids = f",{net}{code},"
            properties = {
                "mag": mag,
                "place": place,
                "time": int(when.timestamp() * 1000),
                "net": net,
                "code": code,
                "type": kind,
                "felt": felt,
                "alert": draw.choice(["green", "yellow"]) if mag > 4.4 else None,
                "tsunami": int(mag > 4.9),
                "sources": f",{net},us," if net != "us" else ",us,",
                "magType": _skewed(draw, scales),
            }
            geometry = {
                "type": "Point",
                "coordinates": [
                    round(draw.uniform(-180, 180), 4),
                    round(draw.uniform(-60, 70), 4),
                    round(abs(draw.gauss(20, 40)), 2),
                ],
            }
            feature = {"type": "Feature", "properties": properties, "geometry": geometry, "id": ids}
            rows.append(
                {
                    "time": when,
                    "id": f"{net}{code}",
                    "net": net,
                    "kind": kind,
                    "scale": properties["magType"],
                    "state": state,
                    "place": place,
                    "status": status,
                    "mag": mag,
                    "depth": geometry["coordinates"][2],
                    "felt": felt,
                    "feature": json.dumps(feature, separators=(",", ":"), sort_keys=True),
                }
            )
        parts.append(rows)
    columns = {
        "time": "timestamptz", "id": "string", "net": "string", "kind": "string",
        "scale": "string", "state": "string", "place": "string", "status": "string",
        "mag": "float64", "depth": "float64", "felt": "int32", "feature": "jsonb",
    }  # fmt: skip
    sets = (
        "net", "kind", "scale", "state", "status", "feature.properties.type",
        "feature.properties.magType", "feature.properties.alert", "feature.properties.sources",
        "feature.properties.net",
    )  # fmt: skip
    return DataSet("quakes", columns, sets, ("id", "feature.properties.code"), parts)


_TYPES: Final = (
    "PushEvent", "PullRequestEvent", "IssueCommentEvent", "WatchEvent", "CreateEvent",
    "IssuesEvent", "DeleteEvent", "ForkEvent", "ReleaseEvent", "CommitCommentEvent", "GollumEvent",
    "MemberEvent", "PublicEvent", "PullRequestReviewCommentEvent",
)  # fmt: skip
_ORGS: Final = (
    "apache", "rust-lang", "kubernetes", "Microsoft", "golang", "elastic", "mozilla", "Homebrew",
    "numpy", "pandas-dev", "dotnet", "NixOS", "vercel", "facebook", "django", "rails", "ansible",
    "grafana", "hashicorp", "sparklyr", "Azure", "google", "nodejs", "openjdk",
)  # fmt: skip
_REPOS: Final = ("core", "docs", "website", "cli", "sdk-java", "sdk-python", "infra", "examples")
_LANGUAGES: Final = ("Python", "Java", "Go", "Rust", "TypeScript", "C++", "C#", "Ruby", "Scala")
_TOPICS: Final = ("data", "sql", "cloud", "ml", "ops")
_REFS: Final = ("main", "master", "develop", "release/1.x", "release/2.0", "gh-pages", "v3-dev")


def _events(draw: random.Random) -> DataSet:
    parts = []
    for part in range(PARTS):
        types, orgs = _some(draw, _TYPES, 2, 7), _some(draw, _ORGS, 3, 9)
        refs, languages = _some(draw, _REFS, 1, 4), _some(draw, _LANGUAGES, 2, 5)
        rows = []
        for when in _instants(draw, part, datetime(2024, 1, 1, tzinfo=UTC), 90):
            kind, org = _skewed(draw, types), _skewed(draw, orgs)
            repo = f"{org}/{draw.choice(_REPOS)}"
            number = draw.randrange(10**9, 2 * 10**9)
            payload: Row = {
                "delivery": str(number),
                "repository": {
                    "id": draw.randrange(10**6),
                    "full_name": repo,
                    "language": _skewed(draw, languages),
                    "private": part % 9 == 4 and draw.random() < 0.2,
                    "stargazers_count": int(draw.paretovariate(0.7)),
                    "topics": draw.sample(
                        ["data", "sql", "cloud", "ml", "ops"], draw.randint(0, 2)
                    ),
                },
                "sender": {"login": f"user{draw.randrange(4000)}", "type": "User"},
            }
            if kind == "PushEvent":
                payload["ref"] = f"refs/heads/{_skewed(draw, refs)}"
                payload["size"] = str(draw.randint(1, 20))
                payload["commits"] = [
                    {"sha": f"{draw.randrange(16**10):010x}", "author": {"name": f"a{i}"}}
                    for i in range(draw.randint(0, 3))
                ]
            elif kind.startswith("PullRequest"):
                payload["action"] = draw.choice(("opened", "closed", "synchronize"))
                payload["pull_request"] = {
                    "number": draw.randint(1, 90_000),
                    "merged": draw.random() < 0.4,
                    "base": {"ref": _skewed(draw, refs)},
                }
            elif kind == "ReleaseEvent":
                payload["release"] = {"tag_name": f"v{draw.randint(0, 4)}.{draw.randint(0, 30)}"}
            elif kind.startswith("Issue"):
                payload["action"] = draw.choice(("opened", "closed", "created"))
                payload["issue"] = {"labels": [{"name": draw.choice(("bug", "docs", "ci"))}]}
            rows.append(
                {
                    "created_at": when,
                    "id": str(number * 7 + part),
                    "type": kind,
                    "org": org,
                    "repo": repo,
                    "actor": payload["sender"]["login"],
                    "ref": payload.get("ref"),
                    "labels": [
                        label["name"] for label in payload.get("issue", {}).get("labels", [])
                    ],
                    "payload": json.dumps(payload, separators=(",", ":"), sort_keys=True),
                }
            )
        parts.append(rows)
    columns = {
        "created_at": "timestamptz", "id": "string", "type": "string", "org": "string",
        "repo": "string", "actor": "string", "ref": "string", "labels": "list<string>",
        "payload": "jsonb",
    }  # fmt: skip
    sets = (
        "type", "org", "repo", "ref", "labels", "payload.action", "payload.ref",
        "payload.repository.language", "payload.repository.full_name", "payload.size",
        "payload.pull_request.base.ref", "payload.release.tag_name",
    )  # fmt: skip
    return DataSet("events", columns, sets, ("id", "actor", "payload.delivery"), parts)


_AIRPORTS: Final = (
    "ATL", "ORD", "DFW", "LAX", "PHX", "DEN", "DTW", "IAH", "MSP", "CLT", "STL",
    "EWR", "SFO",
    "LAS",
    "PIT", "SEA", "BOS", "LGA", "MCO",
    "PHL", "CVG", "SLC", "TPA", "MIA", "SAN", "PDX", "OAK",
    "SJC",
    "HNL", "OGG", "KOA", "ANC", "FAI", "JNU", "BQN", "SJU",
)  # fmt: skip
_CARRIERS: Final = ("WN", "DL", "AA", "UA", "US", "NW", "CO", "HP", "TW", "AS", "HA", "B6", "XE")
_STATUS: Final = ("Delivered", "In Transit", "Returned", "Cancelled", "On Hold", "Lost", "Refused")
_CITIES: Final = ("Berlin", "Paris", "New York", "Austin", "Lyon", "Graz", "Oslo", "Kyoto", "Lima")


def _flights(draw: random.Random) -> DataSet:
    parts = []
    for part in range(PARTS):
        airports, carriers = _some(draw, _AIRPORTS, 4, 12), _some(draw, _CARRIERS, 2, 6)
        status, cities = _some(draw, _STATUS, 1, 4), _some(draw, _CITIES, 2, 5)
        rows = []
        for when in _instants(draw, part, datetime(2001, 1, 1, tzinfo=UTC), 89):
            origin, destination = _skewed(draw, airports), draw.choice(airports)
            carrier, delay = _skewed(draw, carriers), int(draw.expovariate(1 / 25)) - 15
            code = f"{draw.choice(('INV', 'ORD'))}-{when:%Y%m}-{draw.randrange(10**6):06}"
            size = f"{draw.choice((12, 16, 20, 24) if part % 4 else (30, 36))}x{draw.randint(1, 4)}"
            rows.append(
                {
                    "at": when,
                    "date": f"{when:%Y/%m/%d %H:%M}",
                    "day": f"{when:%Y-%m-%d}",
                    "origin": origin,
                    "destination": destination,
                    "carrier": carrier,
                    "route": f"{origin}-{destination}",
                    "tail": f"N{draw.randrange(100, 999)}{draw.choice('ABCDEFG')}{carrier}",
                    "delay": delay,
                    "distance": int(draw.gammavariate(2, 350)) + 60,
                    "order_code": code,
                    "status": _skewed(draw, status),
                    "city": _skewed(draw, cities),
                    "zip": f"{draw.randint(0, 3 if part % 3 else 9)}{draw.choice('123')}000",
                    "size": size,
                    "quantity": str(draw.randint(1, 9 if part % 5 else 60)),
                    "price": str(draw.randint(100, 99_999)),
                    "email": f"{draw.choice(('ann', 'bo', 'cy'))}{draw.randrange(9999)}@"
                    f"{draw.choice(('example.org', 'mail.example.com'))}",
                }
            )
        parts.append(rows)
    columns = {
        "at": "timestamptz", "date": "string", "day": "string", "origin": "string",
        "destination": "string", "carrier": "string", "route": "string", "tail": "string",
        "delay": "int32", "distance": "int32", "order_code": "string", "status": "string",
        "city": "string", "zip": "string", "size": "string", "quantity": "string",
        "price": "string", "email": "string",
    }  # fmt: skip
    sets = (
        "origin", "destination", "carrier", "status", "city", "zip", "size", "quantity", "day",
    )  # fmt: skip
    blooms = ("order_code", "tail", "route")
    return DataSet("flights", columns, sets, blooms, parts, (("delay", "distance"),))
