"""Spark's archives are only taken off the path where the same modules are found as files."""

from pathlib import Path

import pytest

from strata.config.archives import import_from_files


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder of packages with PySpark and Py4J, as an installer leaves it."""
    found = tmp_path / "site"
    for package in ("pyspark", "py4j"):
        (found / package).mkdir(parents=True)
        (found / package / "__init__.py").touch()
    (found / "py4j-0.10.9.9.dist-info").mkdir()
    return found


def archives(home: Path) -> list[str]:
    """Return where Spark's archives lie within its folder."""
    folder = home / "python" / "lib"
    return [str(folder / name) for name in ("pyspark.zip", "py4j-0.10.9.9-src.zip")]


def test_archives_of_the_installed_package_give_way_to_its_files(site: Path) -> None:
    own = archives(site / "pyspark")
    path = ["", *own, "/elsewhere.zip", str(site)]

    assert import_from_files(path) == own
    assert path == ["", "/elsewhere.zip", str(site)]


def test_a_link_to_the_same_folder_is_the_same_installation(site: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(site)

    assert import_from_files([*archives(link / "pyspark"), str(site)]) == archives(link / "pyspark")


def test_archives_of_a_cluster_stay(site: Path, tmp_path: Path) -> None:
    clusters = archives(tmp_path / "spark-4.3.0")
    path = [*clusters, str(site)]

    assert import_from_files(path) == []
    assert path == [*clusters, str(site)]


def test_archives_stay_where_the_path_leads_to_other_files(site: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "pyspark").mkdir(parents=True)
    (other / "pyspark" / "__init__.py").touch()
    own = archives(site / "pyspark")

    assert import_from_files([*own, str(other), str(site)]) == []
    assert import_from_files([*own]) == []


def test_py4j_of_another_version_stays_in_its_archive(site: Path) -> None:
    (site / "py4j-0.10.9.9.dist-info").rename(site / "py4j-0.10.9.7.dist-info")
    pyspark, py4j = archives(site / "pyspark")
    path = [pyspark, py4j, str(site)]

    assert import_from_files(path) == [pyspark]
    assert path == [py4j, str(site)]
