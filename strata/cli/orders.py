"""The orders of an imaginary shop: one CSV file a day, the same in every run.

`strata demo` stores them as a shard; the tutorial (docs/tutorial/first-shard.md) begins with the
files alone.
"""

import csv
import json
import random
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Final

FIRST: Final = date(2026, 3, 1)
CITIES: Final = ("Oslo", "Lyon", "Porto", "Graz", "Ghent", "Turin")
DECLARATION: Final = """\
name: orders
columns:
- {name: id, type: int64, nullable: false}
- {name: placed_at, type: timestamp, nullable: false}
- {name: city, type: string}
- {name: total, type: "numeric(10,2)"}
- {name: payload, type: jsonb}
key: [placed_at, id]
source:
  paths: [landing/orders/]
  format: csv
  nulls: ['']

part_bytes: 262144
row_group_bytes: 65536
stats: {keep: ["placed_at", "payload.items"]}
rollout: {mode: soft}
"""
FILTER: Final = """\
shard: orders
name: large_saturday
where: date_trunc('day', placed_at) = timestamp'2026-04-18' and total > 400
"""


def write_orders(folder: Path, days: int, rows: int) -> None:
    """Write `days` files of `rows` orders each into a folder, which is made if missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(days):
        _write_day(folder, FIRST + timedelta(days=number), rows)


def _write_day(folder: Path, day: date, rows: int) -> None:
    """Write the orders of one day to `folder/YYYY-MM-DD.csv`."""
    draw = random.Random(day.toordinal())
    seconds = sorted(draw.randrange(86_400) for _ in range(rows))
    with (folder / f"{day}.csv").open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(("id", "placed_at", "city", "total", "payload"))
        for number, second in enumerate(seconds):
            placed = datetime(day.year, day.month, day.day) + timedelta(seconds=second)  # noqa: DTZ001
            items = draw.randint(1, 9)
            total = f"{items * draw.uniform(5, 60):.2f}"
            payload = json.dumps({"items": items, "express": draw.random() < 0.1})
            city = draw.choice(CITIES)
            out.writerow((day.toordinal() * 100_000 + number, placed, city, total, payload))
