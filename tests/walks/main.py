"""Walk as a user through the schedule, a backfill, a report and the console: `make walks`.

One Airflow with data of its own, and one browser with the network off. Pictures are written to
docs/reference/walks; docs/reference/walks.md tells what they show, and a person has to look at
them.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from demo.places import HIDDEN, PROJECT
from tests.walks.browser import browser
from tests.walks.console import consoled
from tests.walks.steps import Walk, backfilled, reported, scheduled
from tests.walks.world import PEOPLE, Place, close_airflow, lay_out, open_airflow, password


def main(argv: Sequence[str] | None = None) -> int:
    """Make the walks; return the exit code."""
    parser = argparse.ArgumentParser(prog="make walks", description=__doc__)
    parser.add_argument("--pictures", type=Path, default=PROJECT / "docs" / "reference" / "walks")
    parser.add_argument("--dark", action="store_true", help="in the dark theme")
    asked = parser.parse_args(argv)
    place = Place(HIDDEN / "walks")
    lay_out(place)
    airflow = open_airflow(place)

    try:
        with browser(airflow.api.base, asked.pictures, dark=asked.dark) as window:
            walkers = [window() for _ in PEOPLE]
            for walker, name in zip(walkers, PEOPLE, strict=True):
                walker.log_in(name, password(place, name))
            walk = Walk(place, *walkers, airflow.as_user(PEOPLE[0]))
            scheduled(walk)
            backfilled(walk)
            reported(walk)
            consoled(walk)
        outside = sorted({url for walker in walkers for url in walker.outside})
    finally:
        close_airflow(place)
    if outside:
        sys.stderr.write(f"pages asked for what is not on this machine: {outside}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
