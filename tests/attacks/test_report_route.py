"""S3, S10: the report's pages have no origin, what lies beside them stays there, the menu works."""

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from strata.jobs.validate.report import index_of

pytestmark = [pytest.mark.dags, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def viewer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a client, mounted as Airflow does it, whom the routes take for a viewer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # starlette would like another HTTP client
        from fastapi import FastAPI
        from fastapi.testclient import TestClient

        from strata_airflow import report
    index = index_of(tmp_path)
    (index.parent / "validations" / "a").mkdir(parents=True)
    (index.parent / "static").mkdir()
    index.write_text("the report")
    (index.parent / "validations" / "a" / "b c.html").write_text("a result")
    beside = ("gx/great_expectations.yml", "gx/uncommitted/config_variables.yml", ".lock")
    for name in (*beside, "site/static/x.js", "site/static/x.css", "site/a.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("secret")
    monkeypatch.setattr(report, "report_dir", lambda: tmp_path)
    inner, outer = report._application(), FastAPI()
    for dependency in [d for route in inner.routes for d in route.dependant.dependencies]:
        inner.dependency_overrides[dependency.call] = lambda: None
    outer.mount("/deeper/strata-report", inner)
    return TestClient(outer, base_url="http://here")


@pytest.mark.parametrize("address", ["", "/", "/index.html", "/site/", "/site/index.html"])
def test_every_address_that_is_written_anywhere_leads_to_the_page(
    viewer: Any, address: str
) -> None:
    answer = viewer.get(f"/deeper/strata-report{address}")
    assert (answer.status_code, answer.text) == (200, "the report")
    assert str(answer.url) == "http://here/deeper/strata-report/index.html"


def test_the_documents_name_the_address_and_the_menu(project: Path) -> None:
    from strata_airflow.plugin import StrataPlugin
    from strata_airflow.report import PREFIX

    entry = StrataPlugin.external_views[0]
    for name in ("docs/how-to/alerts.md", "CHANGELOG.md"):
        assert f"`{PREFIX}/`" in (project / name).read_text("utf-8")
    for name in ("docs/how-to/alerts.md", "docs/reference/walks.md"):
        menu = f"*{entry['category'].title()}*, *{entry['name']}*"
        assert menu in (project / name).read_text("utf-8")


def test_a_link_of_an_older_run_still_leads_to_its_page(viewer: Any) -> None:
    answer = viewer.get("/deeper/strata-report/site/validations/a/b%20c.html")
    assert (answer.status_code, answer.text) == (200, "a result")


def test_the_menu_leads_to_the_page_in_a_window_of_its_own(viewer: Any) -> None:
    from strata_airflow.plugin import StrataPlugin

    entry = StrataPlugin.external_views[0]
    assert viewer.get(f"/deeper/{entry['href']}").text == "the report"
    assert "url_route" not in entry, "else Airflow shows it in a frame"


def test_the_button_of_a_task_leads_to_the_page(viewer: Any, tmp_path: Path) -> None:
    from strata_airflow.report import PREFIX, ReportLink

    task = SimpleNamespace(report=str(index_of(tmp_path)))
    link = ReportLink().get_link(task, ti_key=None)
    assert link.endswith(f"{PREFIX}/index.html")
    assert viewer.get("/deeper" + link[link.index(PREFIX) :]).text == "the report"
    task.report = str(tmp_path / "gx" / "great_expectations.yml")
    assert not ReportLink().get_link(task, ti_key=None)


@pytest.mark.parametrize("page", ["index.html", "validations/a/b%20c.html"])
def test_a_page_has_no_origin_runs_nothing_and_calls_nobody(viewer: Any, page: str) -> None:
    answer = viewer.get(f"/deeper/strata-report/{page}")
    assert answer.status_code == 200
    said = [one.split() for one in answer.headers["content-security-policy"].split(";")]
    policy = {words[0]: words[1:] for words in said}
    assert policy["sandbox"] == [], "neither scripts nor an origin are allowed"
    for asks in ("default-src", "form-action", "base-uri"):
        assert policy[asks] == ["'none'"]
    assert policy.keys() - {"sandbox", "default-src", "form-action", "base-uri"} == {
        "style-src",
        "img-src",
        "frame-ancestors",
    }
    assert policy["style-src"] == ["'unsafe-inline'"], "of the page itself; none is fetched"
    assert policy["img-src"] == ["data:"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize(
    "name",
    [
        "gx/great_expectations.yml",
        "gx/uncommitted/config_variables.yml",
        ".lock",
        "../.lock",
        "site/../gx/great_expectations.yml",
        "%2e%2e/.lock",
        "static/%2e%2e/%2e%2e/.lock",
        "static/..%2f..%2f.lock",
        "site/%2e%2e/%2e%2e/.lock",
        "static/x.js",
        "static/x.css",
        "a.json",
        "site/a.json",
    ],
)
def test_what_is_no_page_of_the_site_is_not_served(viewer: Any, name: str) -> None:
    answer = viewer.get(f"/deeper/strata-report/{name}")
    assert answer.status_code == 404
    assert "secret" not in answer.text


@pytest.mark.parametrize("page", ["/evil.example", "//evil.example", "\\evil.example", "https://e"])
def test_an_old_address_leads_nobody_away(viewer: Any, page: str) -> None:
    answer = viewer.get(f"/deeper/strata-report/site/{page}")
    assert answer.status_code == 404
    assert str(answer.url).startswith("http://here/deeper/")
