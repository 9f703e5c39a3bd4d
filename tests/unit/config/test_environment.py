"""The environment's checks find each way in which an installation breaks, and name the cure."""

import os
import stat
import zipfile
from pathlib import Path

import pytest

from strata.config.environment import (
    PysparkFacts,
    check_distribution,
    check_java,
    check_pyspark,
    check_python,
    check_stores,
    pyspark_facts,
    require_matching_pyspark,
)
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
    archive.write_bytes(b"no archive")
    assert not check_pyspark(pyspark_facts([str(archive)])).ok


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


def test_a_missing_java_names_the_package(tmp_path: Path) -> None:
    check = check_java({"PATH": str(tmp_path)})

    assert not check.ok
    assert "openjdk-17-jre-headless" in check.cure


def test_distributions_are_held_to_their_bounds() -> None:
    assert check_distribution("pandas", below=3).ok
    too_new = check_distribution("pandas", below=1)
    assert not too_new.ok
    assert "'pandas>=0,<1'" in too_new.cure
    assert check_distribution("no-such-distribution").found == "not installed"


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


def test_the_doctor_tells_no_password(tmp_path: Path) -> None:
    settings = StoreSettings(f"file://{tmp_path}", "postgresql://me:secret@127.0.0.1:9/strata")
    assert "secret" not in check_stores(settings).found


def test_a_store_that_cannot_be_opened_is_reported_not_raised(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = StoreSettings(f"file://{tmp_path}/file/blob", f"sqlite:///{tmp_path}/file/c.db")

    check = check_stores(settings)

    assert not check.ok
    assert check.cure
