"""The environment's checks find each way in which an installation breaks, and name the cure."""

import os
import re
import stat
import tomllib
import zipfile
from pathlib import Path

import pytest

from strata.config import environment
from strata.config.environment import (
    DoctorLine,
    PysparkFacts,
    check_all,
    check_consensus,
    check_distribution,
    check_java,
    check_pyspark,
    check_python,
    check_stores,
    java_major,
    pyspark_facts,
    require_matching_pyspark,
)
from strata.errors import InvalidRequest, Unavailable
from strata.model.settings import StoreSettings
from strata.store.memory import MemoryBlob
from strata.store.open import open_stores

WHOLE = PysparkFacts(module="4.3.0", distribution="4.3.0", jar="4.3.0", client=None)


def install(site: Path, name: str, version: str) -> None:
    """Write the record that an installer leaves of a distribution."""
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def unpack_pyspark(site: Path, module: str, jar: str) -> None:
    """Write the files of a pyspark folder that the check reads."""
    (site / "pyspark" / "jars").mkdir(parents=True)
    (site / "pyspark" / "version.py").write_text(f'__version__: str = "{module}"\n')
    (site / "pyspark" / "jars" / f"spark-core_2.13-{jar}.jar").touch()


def test_the_environment_of_this_run_has_a_whole_pyspark() -> None:
    require_matching_pyspark()


@pytest.mark.parametrize(
    ("facts", "cure"),
    [
        (PysparkFacts("4.2.0", "4.3.0", "4.3.0", None), "pyspark==4.3.0"),
        (PysparkFacts(None, None, None, None), "strata-shards[spark]"),
    ],
)
def test_nothing_runs_on_a_mixed_pyspark_or_on_none(
    monkeypatch: pytest.MonkeyPatch, facts: PysparkFacts, cure: str
) -> None:
    monkeypatch.setattr(environment, "pyspark_facts", lambda: facts)
    with pytest.raises(InvalidRequest) as refused:
        require_matching_pyspark()
    assert cure in str(refused.value.cure)


def test_facts_are_read_from_the_files_of_an_installation(tmp_path: Path) -> None:
    install(tmp_path, "pyspark", "4.3.0")
    install(tmp_path, "pyspark-client", "4.2.0")
    unpack_pyspark(tmp_path, module="4.2.0", jar="4.3.0")

    facts = pyspark_facts([str(tmp_path)])

    assert facts == PysparkFacts("4.2.0", "4.3.0", "4.3.0", "4.2.0")


def test_the_pyspark_that_a_cluster_brings_is_whole(tmp_path: Path) -> None:
    archive = tmp_path / "pyspark.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("pyspark/version.py", '__version__: str = "4.3.0"')

    check = check_pyspark(pyspark_facts([str(archive)]))

    assert (check.ok, check.found) == (True, "4.3.0")
    broken = tmp_path / "broken" / "pyspark.zip"
    broken.parent.mkdir()
    broken.write_bytes(b"no archive")
    assert not check_pyspark(pyspark_facts([str(broken)])).ok
    assert check_pyspark(pyspark_facts([str(broken), str(archive)])).ok


def test_a_whole_pyspark_passes() -> None:
    check = check_pyspark(WHOLE)

    assert (check.ok, check.found, check.cure) == (True, "4.3.0", "")


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (PysparkFacts("4.2.0", "4.3.0", "4.3.0", None), "module 4.2.0"),
        (PysparkFacts(None, "4.3.0", "4.3.0", None), "module missing"),
        (PysparkFacts("4.3.0", "4.3.0", "4.2.0", None), "jars 4.2.0"),
        (PysparkFacts("4.3.0", "4.3.0", None, None), "jars missing"),
        (PysparkFacts("4.3.0", None, "4.3.0", None), "record missing"),
        (PysparkFacts("4.3.0", "4.3.0", "4.3.0", "4.2.0"), "pyspark-client 4.2.0"),
    ],
)
def test_a_mixed_pyspark_fails_and_the_cure_reinstalls_the_right_version(
    facts: PysparkFacts, said: str
) -> None:
    check = check_pyspark(facts)

    assert not check.ok
    assert said in check.found
    assert check.cure.endswith("--no-deps --force-reinstall pyspark==4.3.0")


def test_the_clashing_client_is_uninstalled_before_pyspark_comes_back() -> None:
    cure = check_pyspark(PysparkFacts("4.2.0", "4.3.0", "4.3.0", "4.2.0")).cure

    assert cure.index("uninstall") < cure.index("pyspark-client") < cure.index("force-reinstall")


def test_no_pyspark_at_all_is_said_plainly(tmp_path: Path) -> None:
    check = check_pyspark(pyspark_facts([str(tmp_path)]))

    assert (check.ok, check.found) == (False, "not installed")


def test_an_old_python_fails() -> None:
    assert not check_python((3, 10, 14)).ok
    assert check_python((3, 11, 0)).ok


def fake_java(folder: Path, version: str) -> dict[str, str]:
    """Return an environment whose JAVA_HOME says that it is `version`."""
    binary = folder / "bin" / "java"
    binary.parent.mkdir()
    binary.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
    binary.chmod(binary.stat().st_mode | stat.S_IEXEC)
    return {**os.environ, "JAVA_HOME": str(folder)}


@pytest.mark.parametrize(("version", "ok"), [("17.0.15", True), ("21", True), ("11.0.2", False)])
def test_java_must_be_17_or_newer(tmp_path: Path, version: str, ok: bool) -> None:
    check = check_java(fake_java(tmp_path, version))

    assert check.ok is ok
    assert ok or "openjdk-17-jre-headless" in check.cure


def test_an_old_java_is_known_by_its_second_number() -> None:
    assert java_major('java version "1.8.0_292"') == 8
    assert java_major('java version "1"') == 1


def test_a_missing_java_names_the_package(tmp_path: Path) -> None:
    check = check_java({"PATH": str(tmp_path)})

    assert not check.ok
    assert "openjdk-17-jre-headless" in check.cure


def test_distributions_are_held_to_their_bounds() -> None:
    assert check_distribution("pandas", below=3).ok
    too_new = check_distribution("pandas", below=1)
    assert not too_new.ok
    assert "'pandas>=0,<1'" in too_new.cure
    major = int(check_distribution("pandas").found.partition(".")[0])
    assert not check_distribution("pandas", below=major).ok
    assert check_distribution("pandas", floor=major, below=major + 1).ok
    assert not check_distribution("pandas", floor=major + 1).ok
    assert check_distribution("no-such-distribution").found == "not installed"


def test_the_doctor_wants_what_the_package_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    said = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))
    project = said["project"]
    requirements = " ".join([*project["dependencies"], *project["optional-dependencies"]["spark"]])
    found = re.findall(r"(\w+)>=(\d+)[.\d]*,<(\d+)", requirements)
    wanted = {name: (int(floor), int(below)) for name, floor, below in found}
    asked: dict[str, tuple[int, int]] = {}

    def noted(name: str, *, floor: int = 0, below: int = 0) -> DoctorLine:
        asked[name] = (floor, below)
        return DoctorLine(name, True, "")

    monkeypatch.setattr(environment, "check_distribution", noted)
    check_all(StoreSettings("memory://doctor", "memory://doctor"))
    assert asked == {name: wanted[name] for name in ("pyarrow", "pandas")}


@pytest.mark.parametrize("wrong", ["", "it forgets what it acknowledged"])
def test_a_database_that_forgets_is_not_to_be_used(
    monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    monkeypatch.setattr("strata.store.open.describe_consensus", lambda _: ("a database", wrong))
    check = check_consensus(StoreSettings("memory://doctor", "memory://doctor"))
    assert (check.ok, bool(check.cure)) == (not wrong, bool(wrong))
    assert check.found == ("a database" if not wrong else f"a database: {wrong}")


def test_stores_that_answer_pass_and_leave_nothing_behind(tmp_path: Path) -> None:
    settings = StoreSettings(f"file://{tmp_path}/blob", f"sqlite:///{tmp_path}/consensus.db")

    assert check_stores(settings).ok
    assert list(open_stores(settings).blob.list("")) == []


def test_a_store_that_overwrites_is_not_to_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def overwrite(self: MemoryBlob, key: str, data: bytes) -> None:
        self.live.pop(key, None)
        right(self, key, data)

    right = MemoryBlob.set
    monkeypatch.setattr(MemoryBlob, "set", overwrite)
    check = check_stores(StoreSettings("memory://doctor", "memory://doctor"))
    assert not check.ok
    assert "If-None-Match" in check.found


def test_a_store_that_lists_what_it_does_not_give_is_not_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who only reads writes no probe: the doctor reads a byte of what there is."""
    settings = StoreSettings("memory://only-reads", "memory://only-reads")
    open_stores(settings).blob.set("shards/a/part", b"rows")
    monkeypatch.setattr("strata.store.open.only_reads", lambda _: True)
    assert check_stores(settings).ok

    def refused(*_: object) -> bytes:
        raise Unavailable("no right to read", certain=True)

    monkeypatch.setattr(MemoryBlob, "get", refused)
    check = check_stores(settings)
    assert not check.ok
    assert "no right to read" in check.found


def test_the_doctor_tells_no_password(tmp_path: Path) -> None:
    settings = StoreSettings(f"file://{tmp_path}", "postgresql://me:secret@127.0.0.1:9/strata")
    assert "secret" not in check_stores(settings).found


def test_a_store_that_cannot_be_opened_is_reported_not_raised(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = StoreSettings(f"file://{tmp_path}/file/blob", f"sqlite:///{tmp_path}/file/c.db")

    check = check_stores(settings)

    assert not check.ok
    assert check.cure
