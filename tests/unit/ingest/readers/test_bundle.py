"""Small files that are read as one text give what each of them gives by itself."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strata.errors import InvalidRequest, Unavailable
from strata.ingest import run, twin
from strata.ingest.counts import total
from strata.ingest.land.files import files_at, fingerprint
from strata.ingest.plan import whole_task
from strata.ingest.readers import bundle
from strata.ingest.readers.bundle import bundles, joined
from strata.ingest.task import IngestTask, Step
from strata.ingest.verify import Sampling
from tests.support.sizes import tries
from tests.unit.ingest.test_engine import World

COLUMNS: Final[list[dict[str, Any]]] = [
    {"name": "id", "type": "int64", "nullable": False},
    {"name": "at", "type": "timestamptz"},
    {"name": "text", "type": "string", "default": "none"},
]
TIME: Final = {"from": "column", "column": "at", "late": "quarantine"}
LINES: Final = {
    "jsonl": [
        '{"id": 1, "at": "1970-01-01T05:00:00Z", "text": "a"}',
        '{"id": 2, "at": "1970-01-01T06:00:00Z"}', '{"id": 2, "text": null, "at": null}',
        '{"id": null}', '{"id": "x", "at": "1970-01-01T05:00:00Z"}', "", "null", "[1]", "{",
        '{"id": 5, "at": "1970-01-01T07:00:00Z"} {"id": 6}', '"a"}', "\ufeff", " \t", "\r",
        '{"id": 7, "at": "1971-01-01T00:00:00Z"}', '{"id": 8, "at": "1969-01-01T00:00:00Z"}',
    ],
    "csv": [
        "id,at,text", "text,id,at", "id,at", "1,1970-01-01T05:00:00Z,a", "", "a,b,c,d",
        '2,1970-01-01T05:00:00Z,"b', 'c"', "x,1970-01-01T05:00:00Z,d", "NA,NA,NA", "\r", "\ufeff",
        "3,1970-01-01T05:00:00Z", '"4","1970-01-01T05:00:00Z","f, g"', '"id","at","text"',
        '5,1970-01-01T05:00:00Z,"h""', '"', '6,1970-01-01T05:00:00Z,i"j"\r',
        "8,1969-01-01T00:00:00Z,e", "9,1970-01-01T05:00:00Z,ö",
        "9,1970-01-01T05:00:00Z,ä",  # whose bytes are made invalid
    ],
}  # fmt: skip


def files_of(format: str) -> st.SearchStrategy[list[str]]:
    lines = st.lists(st.sampled_from(LINES[format]), max_size=4)
    usual = st.just([LINES[format][0], *([LINES[format][3]] * (format == "csv"))])
    text = st.builds(lambda some, end: "\n".join(some) + end, lines | usual, st.sampled_from("\n "))
    return st.lists(text, min_size=1, max_size=5)


def outcome(task: IngestTask, small: int) -> Any:
    """Return what reading the files finds, or why it refuses them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundle, "SMALL_BYTES", small)
        patch.setattr(bundle, "TINY_BYTES", min(small, bundle.TINY_BYTES))
        try:
            found = list(run._read(task))
        except InvalidRequest as error:
            return str(error)
    rows = pa.concat_tables([one.updates for one in found]).to_pylist()
    rejected = [reject for one in found for reject in one.judged.rejected]
    return rows, rejected, total(one.judged.counts for one in found)


@pytest.mark.parametrize(
    ("format", "encoding"),
    [("jsonl", "utf-8"), ("csv", "utf-8"), ("csv", "cp1252"), ("csv", "utf-16-le")],
)
def test_files_together_are_the_files_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, format: str, encoding: str
) -> None:
    root = tmp_path_factory.mktemp(format)
    source = {"format": format, "paths": ["in/"], "encoding": encoding}
    world = World(root, columns=COLUMNS, source=source, time=TIME)
    (root / "in").mkdir()

    @settings(max_examples=tries(25, 1500), deadline=None)
    @given(files_of(format))
    @example([f"{LINES[format][0]}\n", LINES[format][0]])
    @example(['"id","at","text"\r\n1,"1970-01-01T05:00:00Z","b\r\nc"'] * 2)
    @example(
        ['id,at,text\n1,1970-01-01T05:00:00Z,"b', 'id,at,text\nc"']
    )  # joined, the quotes would be balanced
    def law(texts: list[str]) -> None:
        for old in (root / "in").glob("*"):
            old.unlink()
        for number, text in enumerate(texts):
            data = text.encode(encoding, "replace").replace("ä".encode(encoding), b"\x81\xdc")
            (root / f"in/1970-01-01-{number}.{format}").write_bytes(data)
        files = tuple(files_at(str(root), ["in"]))
        task = whole_task(world.settings, world.state, Step(0, 86_400_000, "t", files))

        assert outcome(task, 1 << 16) == outcome(task, -1)

    law()


def test_what_is_usual_is_read_together(tmp_path: Path) -> None:
    for format in ("jsonl", "csv"):
        world = World(
            tmp_path / format, columns=COLUMNS, source={"format": format, "paths": ["in/"]}
        )
        usual = "\n".join(LINES[format][:1] + ["1,,"] * (format == "csv"))
        for number in range(5):
            world.put(f"in/1970-01-01-{number}.{format}", usual)
        world.put(f"in/1970-01-01-5.{format}.gz", "")
        world.put(f"in/1970-01-01-6.{format}", " " * ((1 << 20) + 1))
        files = files_at(str(tmp_path / format), ["in"])

        groups = list(bundles(files, world.state.spec))

        assert [len(group) for group in groups] == [5, 1, 1]
        whole = joined(groups[0], format)
        assert whole is not None
        assert whole.piece is not None
        assert whole.piece.data is not None
        assert whole.piece.data.endswith(b"\n")
        assert whole.piece.data.count(b"\n") == 5 + (format == "csv")


def task_of(world: World) -> IngestTask:
    """Return a task with all files of the landing folder."""
    files = tuple(files_at(str(world.root), ["in"]))
    return whole_task(world.settings, world.state, Step(0, 86_400_000, "t", files))


def test_files_that_are_read_together_are_read_once_and_hashed_as_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, columns=COLUMNS[:1], source={"format": "csv", "paths": ["in/"]})
    for number in range(4):
        world.put(f"in/1970-01-01-{number}.csv", f"id\n{number}\n")
    task = task_of(world)
    slow = [fingerprint(file) for file in task.files]
    again = list[str]()
    monkeypatch.setattr(run, "fingerprint", lambda file: again.append(file.name))

    result = run.ingest_task(task)

    assert [one.fingerprint for one in result.taken] == slow
    assert again == []


def test_a_file_that_is_read_by_itself_after_all_is_hashed_by_itself(tmp_path: Path) -> None:
    world = World(tmp_path, columns=COLUMNS[:1], source={"format": "csv", "paths": ["in/"]})
    for number in range(3):
        world.put(f"in/1970-01-01-{number}.csv", f"id\n{'x' * (number == 1)}\n")
    task = task_of(world)
    hashes: run.Hashes = {}

    list(run._read(task, hashes))

    assert hashes == {}
    assert [one.fingerprint for one in run.takes(task, hashes)] == [
        fingerprint(f) for f in task.files
    ]


def test_a_file_that_changes_after_it_was_read_with_others_is_not_taken(tmp_path: Path) -> None:
    world = World(tmp_path, columns=COLUMNS[:1], source={"format": "csv", "paths": ["in/"]})
    for number in range(3):
        world.put(f"in/1970-01-01-{number}.csv", f"id\n{number}\n")
    task = task_of(world)
    hashes: run.Hashes = {}
    list(run._read(task, hashes))
    world.put("in/1970-01-01-1.csv", "id\n7\n")

    assert len(hashes) == 3
    with pytest.raises(Unavailable, match="changed while it was read"):
        run.takes(task, hashes)


def test_no_file_is_verified_less_because_others_are_read_with_it(tmp_path: Path) -> None:
    world = World(tmp_path, columns=COLUMNS[:1], source={"format": "csv", "paths": ["in/"]})
    line = "12345\n" * 20_000
    for number in range(6):
        world.put(f"in/1970-01-01-{number}.csv", "id\n" + (line if number % 2 else "1\n"))
    files = tuple(files_at(str(tmp_path), ["in"]))
    task = whole_task(world.settings, world.state, Step(0, 86_400_000, "t", files))
    task = replace(task, verify=Sampling("t", 1.0, 100))

    (found,) = run._read(task)

    assert [len(group) for group in bundles(files, world.state.spec)] == [6]
    assert found.judged.counts.verified == 3 * 100 + 100


def test_after_one_odd_group_only_tiny_files_are_read_together(tmp_path: Path) -> None:
    world = World(tmp_path, columns=COLUMNS[:1], source={"format": "csv", "paths": ["in/"]})
    for number in range(4):
        world.put(f"in/1970-01-01-{number}.csv", "id\n" + "1\n" * 200_000 * (number % 2))
    files = files_at(str(tmp_path), ["in"])

    groups = list(bundles(files, world.state.spec, [files]))

    assert [len(group) for group in groups] == [1, 1, 1, 1]


def test_a_difference_in_a_group_is_sought_in_every_row_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, columns=COLUMNS[:1], source={"format": "csv", "paths": ["in/"]})
    for number in range(3):
        rows = "".join(f"{row}\n" for row in range(500))
        world.put(f"in/1970-01-01-{number}.csv", f"id\n{rows}{'777' if number == 1 else '778'}\n")
    files = tuple(files_at(str(tmp_path), ["in"]))
    task = whole_task(world.settings, world.state, Step(0, 86_400_000, "t", files))
    reads = twin.from_text
    monkeypatch.setattr(
        twin, "from_text", lambda text, kind: 0 if text == b"777" else reads(text, kind)
    )
    seen = []
    for seed in range(40):  # some draws of 50 in 1503 rows meet the one that differs
        found = list(run._read(replace(task, verify=Sampling(f"t{seed}", 1.0, 50))))
        if len(found) > 1:
            seen += [[one.judged.differences for one in found]]

    assert seen
    for differences in seen:
        assert [len(of) for of in differences] == [0, 1, 0]
        assert differences[1][0].file == "in/1970-01-01-1.csv"
