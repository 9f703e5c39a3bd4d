"""A short run of Debezium against PostgreSQL, recorded, ends in shards that are the tables.

`python -m tests.debezium.record tests/debezium/recorded.zip` records another one, with `--nulls`
that of nulls (`nulls.zip`).
"""

import zipfile
from collections import Counter
from pathlib import Path

from tests.debezium.replay import Replay


def replayed(name: str, folder: Path) -> Replay:
    with zipfile.ZipFile(Path(__file__).with_name(name)) as kept:
        kept.extractall(folder)

    replay = Replay(folder)
    replay.run()
    return replay


def test_the_shards_of_a_recording_are_its_tables(tmp_path: Path) -> None:
    replay = replayed("recorded.zip", tmp_path)

    assert len(replay.rounds) == 12
    assert sum(report.counts.repeated for report in replay.reports) == 35


def test_nulls_of_columns_with_a_default_stay_nulls(tmp_path: Path) -> None:
    replay = replayed("nulls.zip", tmp_path)

    rows = replay.rounds[-1]["content"]["preset"]
    assert Counter(row["z"] for row in rows) == {None: 7, 7: 5}  # 7 is the column's DEFAULT
