"""The net for two versions: one version twice goes through, what is lost or fails is found."""

from pathlib import Path

import pytest

from tests.crash.expected import Log
from tests.formats import two_versions
from tests.formats.two_versions import HERE, Failed, Version, life

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture
def versions(tmp_path: Path) -> tuple[Version, Version]:
    return Version(HERE, tmp_path / "one"), Version(HERE, tmp_path / "other")


def test_one_version_twice_loses_nothing(tmp_path: Path, versions: tuple[Version, Version]) -> None:
    with versions[0], versions[1]:
        assert life(tmp_path / "life", versions, rounds=4, seed=1) > 0


def test_what_is_acknowledged_and_not_there_is_found(
    tmp_path: Path, versions: tuple[Version, Version], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, lost = tmp_path / "life", {"id": 1, "text": "lost"}
    monkeypatch.setattr(two_versions, "SECONDS", 2.0)
    with versions[0], versions[1]:
        life(root, versions, rounds=2, seed=1)
        log = Log(root / "expected.jsonl")
        expected, _ = log.load()
        number, upper = expected.operations, expected.upper
        operation = {
            "n": number,
            "op": "append",
            "lower": upper - 1,
            "upper": upper,
            "updates": [[lost, upper - 1, 1]],
        }
        log.begin(operation)
        log.done(operation)

        assert versions[1].done(root, "check") is False


def test_a_worker_that_fails_is_named(tmp_path: Path, versions: tuple[Version, Version]) -> None:
    root = tmp_path / "life"
    with versions[0], versions[1]:
        versions[0].done(root, "create")
        (root / "errors.txt").write_text("a traceback")

        with pytest.raises(Failed, match="a traceback"):
            versions[1].done(root, "check")
