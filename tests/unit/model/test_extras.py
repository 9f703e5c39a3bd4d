"""The extras that messages name are those of the package; a missing library is named with its."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

import strata
from strata.errors import InvalidRequest
from strata.model.extras import BRINGS, DISTRIBUTION, needed, require

PROJECT = Path(__file__).resolve().parents[3]
ENGINE = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
PROVIDER = tomllib.loads((PROJECT / "plugins" / "pyproject.toml").read_text("utf-8"))["project"]


def test_messages_name_the_package_and_its_extras() -> None:
    assert ENGINE["name"] == DISTRIBUTION
    assert set(ENGINE["optional-dependencies"]) == set(BRINGS)


def test_every_dependency_has_both_bounds() -> None:
    for project in (ENGINE, PROVIDER):
        extras = project["optional-dependencies"].values()
        for line in [*project["dependencies"], *(one for some in extras for one in some)]:
            assert re.search(r">=.+,<|~=", line) or line.startswith("strata-shards["), line


def test_provider_and_engine_have_one_version_and_one_licence() -> None:
    source = (PROJECT / "plugins" / "strata_airflow" / "__init__.py").read_text("utf-8")
    assert f'__version__ = "{strata.__version__}"' in source
    assert f"strata-shards[ui]~={strata.__version__}" in PROVIDER["dependencies"]
    assert (PROJECT / "LICENSE").read_bytes() == (PROJECT / "plugins" / "LICENSE").read_bytes()


def test_a_library_that_is_not_there_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "boto3" else there(name)
    )
    with pytest.raises(InvalidRequest, match="a store on S3 needs a library") as found:
        require("s3", "a store on S3")
    assert found.value.details == {"missing": "boto3"}
    assert found.value.cure == "pip install 'strata-shards[s3]'"
    require("ui", "the console")


def test_a_failed_import_of_something_else_stays_what_it_is() -> None:
    with pytest.raises(InvalidRequest, match="uvicorn"), needed("ui", "the console"):
        raise ModuleNotFoundError(name="uvicorn.config")
    with pytest.raises(ModuleNotFoundError, match="ours"), needed("ui", "the console"):
        raise ModuleNotFoundError("ours", name="strata.ui.gone")
