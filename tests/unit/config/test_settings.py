"""Settings come from the file and the environment, and nothing unknown is let through."""

import re
import tomllib
from pathlib import Path

import pytest

from strata.config.settings import MOVED, effective_settings, known_settings, load_settings
from strata.errors import InvalidRequest
from strata.model.settings import CompactSettings, Settings, StoreSettings

CONFIG = Path(__file__).parents[3] / "config"


def load(tmp_path: Path, text: str, **env: str) -> Settings:
    file = tmp_path / "settings.toml"
    file.write_text(text, encoding="utf-8")
    return load_settings(str(file), env)


def test_without_a_file_the_defaults_hold() -> None:
    assert load_settings(None, {}) == Settings()
    assert load_settings(None, {"HOME": "/x", "STRATA": "y"}) == Settings()


def test_a_file_sets_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    settings = load(tmp_path, 'shards_dir = "s"\n[store]\nblob = "memory://x"\n')
    assert settings == Settings(store=StoreSettings(blob="memory://x"), shards_dir="s")


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        '[store]\nblob = "memory://file"\n[rollout]\nkill = false\n',
        STRATA__STORE__BLOB="memory://env",
        STRATA__ROLLOUT__KILL="true",
        STRATA__COMPACT__HISTORY_MS="86_400_000",
        STRATA__SHARDS_DIR="elsewhere",
    )
    assert settings.store.blob == "memory://env"
    assert settings.rollout.kill is True
    assert settings.compact == CompactSettings(history_ms=86_400_000)
    assert settings.shards_dir == "elsewhere"


def test_none_is_said_by_an_empty_variable(tmp_path: Path) -> None:
    text = "[compact]\nhistory_ms = 5\n"
    assert load(tmp_path, text).compact.history_ms == 5
    assert load(tmp_path, text, STRATA__COMPACT__HISTORY_MS="").compact.history_ms is None


def test_a_variable_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "named.toml"
    file.write_text('[store]\nlanding = "l"\n')
    assert load_settings(None, {"STRATA_CONFIG": str(file)}).store.landing == "l"
    other = tmp_path / "other.toml"
    other.write_text("")
    assert load_settings(str(other), {"STRATA_CONFIG": str(file)}).store.landing == "."


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[store]\nblub = "x"', ["settings.toml", "store.blub", "store.blob"]),
        ('[stor]\nblob = "x"', ["settings.toml", "stor", "store"]),
        ('blob = "x"', ["settings.toml", "blob"]),
        ('store = "x"', ["store", "[store]"]),
        ("[store]\nblob = 5", ["store.blob", "5", "text"]),
        ('[ingest]\ntask_bytes = "64 MiB"', ["ingest.task_bytes", "64 MiB", "bytes"]),
        ('[spark]\ndriver_memory_mib = "2g"', ["spark.driver_memory_mib", "MiB"]),
        ('[compact]\nhistory_ms = "1 day"', ["compact.history_ms", "milliseconds"]),
        ("[compact]\nhistory_ms = 1.5", ["compact.history_ms", "1.5"]),
        ("[compact]\nmin_inputs = true", ["compact.min_inputs", "True"]),
        ("[compact]\nmin_inputs = -1", ["compact.min_inputs", "0 or more"]),
        ("[rollout]\nkill = 1", ["rollout.kill", "true or false"]),
        ("not toml", ["settings.toml", "TOML"]),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str, named: list[str]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        load(tmp_path, text)
    for part in named:
        assert part in str(caught.value)


def test_a_misspelt_field_is_helped_by_its_section_and_a_section_by_sections(
    tmp_path: Path,
) -> None:
    for text, listed, others in (
        ("[read]\nblub = 1", "read.fetchers", "store.blob"),
        ("[blub]\nx = 1", "store", "store.blob"),
    ):
        with pytest.raises(InvalidRequest) as caught:
            load(tmp_path, text)
        assert listed in str(caught.value.cure)
        assert others not in str(caught.value.cure)


@pytest.mark.parametrize(
    ("variable", "value", "named"),
    [
        ("STRATA__STORE__BLUB", "x", "STRATA__STORE__BLOB"),
        ("STRATA__STORE", "x", "STRATA__STORE__BLOB"),
        ("STRATA__INGEST__TASK_BYTES", "64 MiB", "bytes"),
        ("STRATA__ROLLOUT__KILL", "perhaps", "true or false"),
        ("STRATA__ROLLOUT__KILL", "", "true or false"),
    ],
)
def test_a_mistake_in_the_environment_is_named(variable: str, value: str, named: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        load_settings(None, {variable: value})
    assert variable in str(caught.value)
    assert named in str(caught.value)


@pytest.mark.parametrize("setting", sorted(MOVED))
def test_a_setting_that_has_moved_is_refused_with_the_cure(tmp_path: Path, setting: str) -> None:
    section, _, name = setting.partition(".")
    variable = "STRATA__" + setting.upper().replace(".", "__")
    for text, env in ((f'[{section}]\n{name} = "x:1"\n', {}), ("", {variable: "x:1"})):
        with pytest.raises(InvalidRequest, match="has moved") as caught:
            load(tmp_path, text, **env)
        assert f"metrics.{name}" in str(caught.value.cure)


def test_the_switch_over_skipping_is_no_setting_of_the_store(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="unknown setting"):
        load(tmp_path, "[store]\nkill = true\n")


def test_every_setting_says_where_it_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('[store]\nblob = "memory://x"\nconsensus = "postgresql://u:secret@h/d"\n')
    found = effective_settings(str(file), {"STRATA__READ__FETCHERS": "2"})

    assert found.keys() == known_settings().keys()
    assert found["store.blob"] == ("memory://x", str(file))
    assert found["store.consensus"] == ("postgresql://u:***@h/d", str(file))
    assert found["read.fetchers"] == (2, "STRATA__READ__FETCHERS")
    assert found["gc.aside_days"] == (7, "default")


def test_a_missing_file_is_named() -> None:
    with pytest.raises(InvalidRequest, match=r"not-there\.toml"):
        load_settings("not-there.toml", {})


def test_a_database_address_is_never_shown(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest) as caught:
        load(tmp_path, '[store]\nconsensus = ["postgresql://user:secret@host/db"]')
    assert "secret" not in str(caught.value)


def test_base_toml_gives_the_defaults() -> None:
    assert load_settings(str(CONFIG / "base.toml"), {}) == Settings()


def test_base_toml_names_every_setting_once_with_a_comment() -> None:
    """A default of None cannot be written in TOML: its line is a comment."""
    lines = (CONFIG / "base.toml").read_text(encoding="utf-8").splitlines()
    found, section = [], ""
    for before, line in zip(["", *lines], lines, strict=False):
        if head := re.fullmatch(r"\[(\w+)]", line):
            section = f"{head[1]}."
        elif setting := re.fullmatch(r"(?:# )?(\w+) = \S.*", line):
            found.append(f"{section}{setting[1]}")
            assert before.startswith("# "), f"{line} has no comment"
    assert sorted(found) == sorted(known_settings())


@pytest.mark.parametrize("file", sorted(CONFIG.glob("*.toml")), ids=lambda f: f.name)
def test_every_settings_file_can_be_loaded(file: Path) -> None:
    assert load_settings(str(file), {})
    assert tomllib.loads(file.read_text(encoding="utf-8"))
