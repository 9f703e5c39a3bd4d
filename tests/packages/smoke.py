"""The engine's wheel alone, in an empty environment: `make smoke`, a step of CI.

It installs from the package index, as `make setup` does, so no other run of the tests collects it.
`tests/packages/installed.py` does more, with Spark and Airflow.
"""

import json
import subprocess
import zipfile

import pytest

import strata
from tests.support.empty_environment import PROJECT, Place, built

WHERE = "total > 90"
SLOW_S = 2  # of processor time, to compile one kernel: more is felt by a person who waits
# Runs a command of the command line, and says which kernels were compiled for how long.
WATCHED = """\
import json, sys, time
from numba.core import event

class Compiled(event.Listener):
    began, took = {}, {}
    def on_start(self, found): self.began[str(found.data["dispatcher"])] = time.thread_time()
    def on_end(self, found):
        name = str(found.data["dispatcher"])
        self.took[name] = time.thread_time() - self.began[name]

event.register("numba:compile", Compiled())
from strata.cli.app import main

try:
    main()
finally:
    print("COMPILED", json.dumps(Compiled.took), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("smoke"), str(built("strata_shards", ".whl")))
    place.declare()
    return place


def test_the_wheel_has_every_file_of_its_packages() -> None:
    listed = ["git", "ls-files", "-z", "--", "strata", "pyspark_strata"]
    names = subprocess.run(listed, cwd=PROJECT, check=True, text=True, capture_output=True)
    wanted = [name for name in names.stdout.split("\0") if name and (PROJECT / name).exists()]
    assert len(wanted) > 200
    with zipfile.ZipFile(built("strata_shards", ".whl")) as wheel:
        inside = set(wheel.namelist())
        assert [name for name in wanted if name not in inside] == []
        differing = [n for n in wanted if wheel.read(n) != (PROJECT / n).read_bytes()]
    assert differing == []


def test_the_first_commands_work_and_wait_for_no_compiler(place: Place) -> None:
    assert place.run("strata", "--version").stdout == f"strata {strata.__version__}\n"
    interval = ("--lower", "2026-03-01", "--upper", "2026-03-03")
    waited: dict[str, float] = {}
    answers = []
    for words in (
        ("ingest", "orders", *interval, "--json"),
        ("read", "orders", "--where", WHERE, "--count", "--json"),
        ("explain", "orders", "--where", "total > 1000", "--json"),
    ):
        done = place.run("python", "-c", WATCHED, *words)
        *_, compiled = done.stderr.splitlines()
        waited |= json.loads(compiled.removeprefix("COMPILED "))
        answers.append(json.loads(done.stdout))
    assert {name: took for name, took in waited.items() if took > SLOW_S} == {}
    _, read, explained = answers
    assert read["rows"] == 400
    assert explained["parts_total"] >= 1
    assert explained["parts_kept"] == 0, "its statistics prove that nothing is above 1,000"


def test_the_wheel_knows_what_its_code_means(place: Place) -> None:
    """Or each reader of a shard that may skip would parse all files anew."""
    said = (
        "from strata.rollout import basis\n"
        "seal, code = basis._BROUGHT.read_text().split()\n"
        "print(seal == basis._seal(basis._ROOT), code == basis.code_of(basis._ROOT))\n"
    )
    assert place.run("python", "-c", said).stdout == "True True\n"
