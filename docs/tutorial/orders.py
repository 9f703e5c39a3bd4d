"""Write the tutorial's landing files: one CSV of orders a day, the same in every run.

python docs/tutorial/orders.py landing/orders --days 90
"""

import argparse
import csv
import json
import random
from datetime import date, datetime, timedelta
from pathlib import Path

FIRST = date(2026, 3, 1)
CITIES = ("Oslo", "Lyon", "Porto", "Graz", "Ghent", "Turin")


def write_day(folder: Path, day: date, rows: int) -> None:
    """Write the orders of one day to `folder/YYYY-MM-DD.csv`."""
    draw = random.Random(day.toordinal())
    seconds = sorted(draw.randrange(86_400) for _ in range(rows))
    with (folder / f"{day}.csv").open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(("id", "placed_at", "city", "total", "payload"))
        for number, second in enumerate(seconds):
            placed = datetime(day.year, day.month, day.day) + timedelta(seconds=second)
            items = draw.randint(1, 9)
            total = f"{items * draw.uniform(5, 60):.2f}"
            payload = json.dumps({"items": items, "express": draw.random() < 0.1})
            city = draw.choice(CITIES)
            out.writerow((day.toordinal() * 100_000 + number, placed, city, total, payload))


def main() -> None:
    """Write as many days as asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--rows", type=int, default=4_000, help="of a day")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    for number in range(asked.days):
        write_day(asked.folder, FIRST + timedelta(days=number), asked.rows)
    print(f"{asked.days} files of {asked.rows} orders in {asked.folder}")


if __name__ == "__main__":
    main()
