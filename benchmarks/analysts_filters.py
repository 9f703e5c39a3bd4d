"""A hundred and fifty filters of analysts on the data of `benchmarks.analysts_data`.

Shape: by data set, by kind of filter, the conditions as Spark SQL. Each holds on some rows or on
none, and fails on none.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

_P: Final = "get_json_object(feature, '$.properties.{0}')"
_E: Final = "get_json_object(payload, '$.{0}')"


def _quake(path: str) -> str:
    return _P.format(path)


def _event(path: str) -> str:
    return _E.format(path)


Filters = Mapping[str, Sequence[str]]

QUAKES: Final[Filters] = {
    "times": (
        "time >= '2018-03-01' and time < '2018-03-04'",
        "date_trunc('week', time) = timestamp '2018-02-12'",
        "year(time) = 2018 and month(time) = 2 and day(time) = 14",
        "cast(time as date) = date '2018-03-20'",
        f"timestamp_millis(cast({_quake('time')} as bigint)) < timestamp '2018-02-03'",
        f"try_cast({_quake('time')} as bigint) > 1521900000000",
    ),
    "equality": (
        "id = 'us1000chhc'",
        "kind = 'ice quake'",
        "scale in ('mwb', 'mwc')",
        "state = 'Iran'",
        "net = 'pr' and kind <> 'earthquake'",
        f"{_quake('type')} = 'rock burst'",
        f"{_quake('magType')} = 'mb_lg'",
        f"{_quake('alert')} = 'yellow'",
        f"{_quake('code')} = '0badcafe'",
    ),
    "text functions": (
        "lower(state) = 'new zealand'",
        "upper(net) in ('OK', 'TX')",
        "kind like '%explosion%'",
        "kind like '%blast'",
        "kind ilike 'MINING%'",
        "length(kind) > 16",
        "substr(scale, 1, 2) = 'Mw'",
        "substr(state, -3) = 'ton'",
        "right(kind, 5) = 'burst'",
        "split(kind, ' ')[0] = 'sonic'",
        "get(split(state, ' '), 1) = 'Rico'",
        "concat(net, ':', scale) = 'hv:ml'",
        "concat(state, '!') like 'Tonga%'",
        "initcap(kind) = 'Quarry Blast'",
        "position('slide' in kind) > 0",
        "instr(scale, '_lg') > 0",
        "contains(state, 'Guinea')",
        "endswith(scale, 'wb')",
        "trim(upper(state)) = 'PERU'",
        "rlike(state, '^(Iran|Turkey)$')",
        "lower(place) like '%greece%'",
        "split(place, ', ')[1] = 'Utah'",
    ),
    "functions of JSON": (
        f"lower({_quake('type')}) = 'landslide'",
        f"{_quake('sources')} like '%,tx,%'",
        f"length({_quake('magType')}) > 4",
        f"cast({_quake('mag')} as double) > 5.2",
        f"concat({_quake('net')}, '-', {_quake('magType')}) = 'ld-ml'",
    ),
    "numbers": (
        "mag > 5.5",
        "depth > 150 and mag > 3",
        "mag * 10 > 56",
        "round(depth) = 171",
    ),
}

EVENTS: Final[Filters] = {
    "times": (
        "created_at >= '2024-02-10' and created_at < '2024-02-12'",
        "date_format(created_at, 'yyyy-MM-dd') = '2024-03-05'",
        "make_date(year(created_at), month(created_at), 1) = date '2024-03-01'",
        "created_at > timestamp '2024-03-28 00:00:00' and type = 'PushEvent'",
        "weekofyear(created_at) = 7 and org = 'apache'",
    ),
    "equality": (
        "type = 'ReleaseEvent'",
        "org = 'openjdk'",
        "repo = 'sparklyr/sdk-java'",
        "actor = 'user1234'",
        "id = '12345'",
        "ref = 'refs/heads/gh-pages'",
        f"{_event('action')} = 'synchronize'",
        f"{_event('delivery')} = '1234567890'",
        f"{_event('repository.language')} = 'Scala'",
        f"{_event('release.tag_name')} = 'v4.7'",
        "parse_json(payload):repository.language::string = 'C#'",
        "array_contains(labels, 'ci')",
    ),
    "text functions": (
        "lower(type) = 'forkevent'",
        "type ilike 'release%'",
        "type like '%CommentEvent'",
        "type like '%Review%'",
        "length(type) = 11",
        "split(repo, '/')[0] = 'NixOS'",
        "split(repo, '/')[1] = 'docs' and split(repo, '/')[0] = 'dotnet'",
        "split_part(repo, '/', 2) like 'sdk-%' and org = 'elastic'",
        "substring_index(repo, '/', 1) = 'rails'",
        "concat(org, '/core') = 'mozilla/core'",
        "concat_ws('/', org, 'cli') = 'django/cli'",
        "upper(substr(org, 1, 1)) = 'V'",
        "replace(type, 'Event', '') = 'Watch'",
        "split(ref, '/')[2] = 'develop'",
        "substring_index(ref, '/', -1) = 'v3-dev'",
        "startswith(ref, 'refs/heads/release')",
        "regexp_extract(ref, 'release/([0-9])', 1) = '2'",
        "regexp_replace(org, '[^a-z]', '') = 'icrosoft'",
        "reverse(type) like 'tnevEe%'",
        "locate('lang', org) > 0",
        "left(org, 4) = 'graf'",
        "translate(org, '-', '_') = 'pandas_dev'",
    ),
    "functions of JSON": (
        f"lower({_event('repository.language')}) = 'typescript'",
        f"cast({_event('size')} as int) > 19",
        f"try_cast({_event('size')} as int) = 20",
        f"{_event('ref')} like '%gh-pages'",
        f"split({_event('repository.full_name')}, '/')[0] = 'hashicorp'",
        f"substr({_event('release.tag_name')}, 2, 1) = '4'",
        f"{_event('pull_request.merged')} = 'true' and {_event('pull_request.base.ref')} like 'v%'",
        f"cast({_event('repository.private')} as boolean)",
        f"cast({_event('repository.stargazers_count')} as bigint) > 20000",
        f"{_event('commits[0].author.name')} is not null",
        f"{_event('issue.labels[0].name')} = 'ci'",
        "try_variant_get(parse_json(payload), '$.repository.stargazers_count', 'int') > 15000",
        "size(from_json(get_json_object(payload, '$.commits'), 'array<string>')) > 2",
    ),
    "numbers": (
        f"cast({_event('pull_request.number')} as int) between 50000 and 50020",
        f"cast({_event('repository.id')} as bigint) % 5000 = 3",
    ),
}

FLIGHTS: Final[Filters] = {
    "times": (
        "at >= '2001-03-01' and at < '2001-03-03'",
        "date >= '2001/03/28'",
        "substr(date, 1, 7) = '2001/02'",
        "to_date(day) = date '2001-02-14'",
        "cast(day as date) between date '2001-03-29' and date '2001-03-30'",
        "to_timestamp(date, 'yyyy/MM/dd HH:mm') < timestamp '2001-01-04 00:00:00'",
        "try_to_timestamp(date, 'yyyy/MM/dd HH:mm') >= timestamp '2001-03-27 00:00:00'",
        "split(date, ' ')[0] = '2001/01/20'",
        "replace(substr(date, 1, 10), '/', '-') = '2001-02-02'",
        "month(cast(day as date)) = 3 and dayofmonth(cast(day as date)) = 7",
        "date_add(cast(day as date), 1) = date '2001-01-10'",
        "year(at) * 100 + month(at) = 200103",
    ),
    "equality": (
        "origin = 'BQN'",
        "destination in ('JNU', 'FAI')",
        "carrier = 'B6'",
        "route = 'ANC-KOA'",
        "tail = 'N123AWN'",
        "order_code = 'INV-200102-000123'",
        "status = 'Lost'",
        "zip = '81000'",
    ),
    "text functions": (
        "lower(origin) = 'sju'",
        "upper(status) = 'RETURNED'",
        "status ilike '%hold%'",
        "status like '%used'",
        "initcap(lower(city)) = 'Kyoto'",
        "right(zip, 4) = '3000' and left(zip, 1) = '9'",
        "cast(zip as int) > 90000",
        "cast(quantity as int) > 55",
        "try_cast(quantity as int) between 40 and 42",
        "cast(split(size, 'x')[0] as int) >= 36",
        "split(size, 'x')[1] = '4' and carrier = 'HA'",
        "try_cast(substr(size, 1, 2) as int) = 30",
        "concat(origin, '/', destination) = 'BQN/SJU'",
        "translate(lower(city), ' ', '') = 'newyork'",
        "substr(origin, 2) = 'AK'",
        "carrier rlike '[0-9]'",
        "split(route, '-')[0] = 'KOA'",
        "right(route, 3) = 'FAI'",
        "split(order_code, '-')[1] = '200102'",
        "email like '%@mail.example.com'",
        "coalesce(nullif(status, 'Delivered'), 'x') = 'Refused'",
        "case when carrier in ('AS', 'HA') then 'west' else 'other' end = 'west'",
        "if(status = 'Cancelled', 1, 0) = 1",
        "ascii(city) = 71",
    ),
    "numbers": (
        "delay > 150",
        "distance > 3500 and delay > 60",
        "delay / distance > 0.9",
        "cast(price as int) > 99990",
        "delay - distance > 0",
        "distance % 1000 = 1 and carrier = 'XE'",
    ),
}

FILTERS: Final[Mapping[str, Filters]] = MappingProxyType(
    {"quakes": QUAKES, "events": EVENTS, "flights": FLIGHTS}
)
