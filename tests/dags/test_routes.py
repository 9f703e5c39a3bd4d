"""The plugin's pages ask who is there, and lead nowhere else."""

import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # starlette would like another HTTP client in its test client
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi.testclient import TestClient

from strata.jobs.validate.report import index_of
from strata_airflow import report

pytestmark = [pytest.mark.dags, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a report's folder as `strata/jobs/validate/report.py` lays it out."""
    folder = tmp_path / "report"
    index = index_of(folder)
    index.parent.mkdir(parents=True)
    index.write_text("the report")
    (folder / "gx" / "uncommitted").mkdir(parents=True)
    (folder / "gx" / "great_expectations.yml").write_text("secret")
    (folder / ".lock").write_text("secret")
    (tmp_path / "secret.txt").write_text("secret")
    (index.parent / "link.html").symlink_to(tmp_path / "secret.txt")
    monkeypatch.setattr(report, "report_dir", lambda: folder)
    return folder


def client(app, **more):
    """Return a client whom the routes take for a viewer."""
    for dependency in [d for route in app.routes for d in route.dependant.dependencies]:
        app.dependency_overrides[dependency.call] = lambda: None
    return TestClient(app, **more)


def test_every_route_depends_on_a_user_who_may(folder):
    app = report._application()
    assert app.openapi_url is app.docs_url is app.redoc_url is None
    for route in app.routes:
        asked = [d.call for d in route.dependant.dependencies]
        below = [d.call for each in route.dependant.dependencies for d in each.dependencies]
        assert get_user in asked + below, route.path


@pytest.mark.parametrize(
    "page",
    [
        "",
        "index.html",
        "site/index.html",
        "../secret.txt",
        "link.html",
        "gx/great_expectations.yml",
        "static/page.js",
    ],
)
def test_nobody_sees_a_page_without_a_token(folder, page):
    answer = TestClient(report._application(), follow_redirects=False).get(f"/{page}")
    assert answer.status_code in (401, 403)
    assert "secret" not in answer.text
    assert "the report" not in answer.text


@pytest.mark.parametrize(
    "page", ["../secret.txt", "a/../../secret.txt", "%2e%2e/secret.txt", "/etc/passwd", "link.html"]
)
def test_no_page_lies_outside_the_report(folder, page):
    seen = client(report._application())
    assert seen.get("/index.html").text == "the report"
    assert seen.get(f"/{page}").status_code == 404


@pytest.mark.parametrize("page", ["%00.html", "a%00", "site/%00", f"{'x' * 300}.html", "x/" * 3000])
def test_a_name_that_no_file_can_have_is_a_page_that_is_not_there(folder, page):
    assert client(report._application()).get(f"/{page}").status_code == 404


def test_airflow_finds_the_plugin_in_its_folder():
    """The rest of the folder is left out by .airflowignore: this one must not be."""
    from airflow import plugins_manager

    apps, _ = plugins_manager.get_fastapi_plugins()
    assert [app["url_prefix"] for app in apps] == ["/strata-report", "/strata"]
