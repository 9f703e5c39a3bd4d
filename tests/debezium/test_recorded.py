"""A short run of Debezium against PostgreSQL, recorded, ends in shards that are the tables.

`python -m tests.debezium.record tests/debezium/recorded.zip` records another one.
"""

import zipfile
from pathlib import Path

from tests.debezium.replay import Replay


def test_the_shards_of_a_recording_are_its_tables(tmp_path: Path) -> None:
    with zipfile.ZipFile(Path(__file__).with_name("recorded.zip")) as kept:
        kept.extractall(tmp_path)

    replay = Replay(tmp_path)
    replay.run()

    assert len(replay.rounds) == 12
    assert sum(report.repeated for report in replay.reports) == 35
