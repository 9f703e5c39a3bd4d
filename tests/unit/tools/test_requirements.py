"""The audit of requirements finds what is loose, differs or is known to be weak, also offline."""

import ast
import importlib.util
import json
import re
import tomllib
from hashlib import sha256
from importlib.metadata import packages_distributions
from pathlib import Path
from types import ModuleType

import pytest

import strata

FOLDER = Path(__file__).parents[3] / "requirements"
GOOD = "orjson==0.0.1 \\\n    --hash=sha256:00\n"


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_the_lists_of_the_project_are_pinned() -> None:
    audit = module("audit")
    lists = [file for file in FOLDER.glob("*.txt") if not file.stem.startswith("excludes")]
    assert len(lists) >= 4
    assert [line for file in lists for line in audit.unpinned(file.read_text())] == []


def test_what_is_not_pinned_or_comes_from_elsewhere_is_found() -> None:
    audit = module("audit")
    text = f"--index-url somewhere\n{GOOD}numpy\nrich==1.0\n  # a remark\n"
    assert list(audit.unpinned(text)) == [
        "an address or an option: --index-url somewhere",
        "not pinned with a hash: numpy",
        "not pinned with a hash: rich==1.0",
    ]
    assert list(audit.unpinned(GOOD)) == []


def test_known_weaknesses_fail_and_an_unreachable_database_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    audit = module("audit")
    monkeypatch.setattr(audit, "INSTALLED", ())
    monkeypatch.setattr(audit, "DATABASE", "http://127.0.0.1:9/")
    (tmp_path / "some.txt").write_text(GOOD)
    known = tmp_path / "known.json"
    known.write_text(json.dumps({"orjson==0.0.1": ["CVE-1"]}))
    lists = ["--lists", str(tmp_path)]

    assert audit.main([*lists, "--advisories", str(known)]) == audit.FOUND
    assert "orjson 0.0.1: CVE-1" in capsys.readouterr().out
    assert audit.main(lists) == 0
    assert "ADVISORIES NOT CHECKED" in capsys.readouterr().out
    assert audit.main([*lists, "--strict"]) == audit.UNREACHABLE
    monkeypatch.setattr(audit, "INSTALLED", ("some",))
    assert audit.main(lists) == audit.FOUND
    assert "orjson should be 0.0.1" in capsys.readouterr().out


def front_end(root: Path) -> Path:
    """Lay out a project that keeps two files of a package; return the list that names them."""
    files = {"jobs/a/table.min.js": b"table()", "jobs/a/table.min.css": b"table {}"}
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    (root / "jobs/a/table.txt").write_text("MIT")
    kept = {
        "name": "bootstrap-table",
        "version": "1.19.1",
        "licence": "MIT",
        "text": "jobs/a/table.txt",
        "files": {name: sha256(data).hexdigest() for name, data in files.items()},
    }
    named = root / "requirements" / "front-end.json"
    named.parent.mkdir()
    named.write_text(json.dumps([kept]))
    return named


def test_front_end_packages_are_compared_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    audit = module("audit")
    monkeypatch.setattr(audit, "INSTALLED", ())
    named = ["--front-end", str(front_end(tmp_path))]
    known = tmp_path / "known.json"
    known.write_text(json.dumps({"bootstrap-table==1.19.1": ["CVE-2"]}))
    code = audit.main(["--lists", str(tmp_path), "--advisories", str(known), *named])
    told = capsys.readouterr().out
    assert code == audit.FOUND
    assert "bootstrap-table 1.19.1: CVE-2" in told
    assert "1 front-end packages" in told


@pytest.mark.parametrize(
    "answer", [b"{}", b"[]", b'{"results": [{}]}', b'{"results": null}', b"<html>"]
)
def test_an_answer_that_is_none_is_no_clean_bill(
    answer: bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A gateway that answers with something else was taken for a database without findings."""
    from io import BytesIO

    audit = module("audit")
    monkeypatch.setattr(audit, "INSTALLED", ())
    monkeypatch.setattr(audit.urllib.request, "urlopen", lambda *_, **__: BytesIO(answer))
    assert audit.main(["--strict"]) == audit.UNREACHABLE
    assert "ADVISORIES NOT CHECKED" in capsys.readouterr().out


def test_no_script_style_or_font_is_shipped_that_nobody_names() -> None:
    """Today there is none of others; pages.css is ours."""
    sbom = module("sbom")
    assert list(sbom.differing(sbom.ROOT)) == []
    assert sbom.said(sbom.ROOT) == []


def test_the_front_end_files_are_those_that_are_named(tmp_path: Path) -> None:
    sbom = module("sbom")
    front_end(tmp_path)
    assert list(sbom.differing(tmp_path)) == []
    (tmp_path / "jobs/a/table.min.js").write_bytes(b"alert(1)")
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins/evil.woff2").write_bytes(b"alert(2)")
    (tmp_path / "jobs/a/table.min.css").unlink()
    (tmp_path / "jobs/a/table.txt").unlink()
    assert [line.partition(":")[0] for line in sbom.differing(tmp_path)] == [
        "bootstrap-table",
        "plugins/evil.woff2",
        "jobs/a/table.min.css",
        "jobs/a/table.min.js",
    ]


def test_the_bill_of_materials_has_what_is_installed_and_the_front_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sbom = module("sbom")
    known = [{"name": "orjson", "version": "1", "licenses": [{"license": {"id": "MPL-2.0"}}]}]
    monkeypatch.setattr(sbom, "installed", lambda _: {"components": [*known]})
    front_end(tmp_path)
    monkeypatch.setattr(sbom, "ROOT", tmp_path)
    assert sbom.main(["--out", str(tmp_path)]) == 0
    document = json.loads((tmp_path / "sbom.json").read_text())
    names = {one["name"] for one in document["components"]}
    assert names == {"orjson", "bootstrap-table"}
    files = [f for one in document["components"] for f in one.get("components", ())]
    assert [file["name"] for file in files] == ["jobs/a/table.min.css", "jobs/a/table.min.js"]
    lines = (tmp_path / "licences.txt").read_text().splitlines()
    assert "orjson\t1\tMPL-2.0" in lines
    assert "bootstrap-table\t1.19.1\tMIT" in lines
    known.append({"name": "protobuf", "version": "7"})
    assert sbom.main(["--out", str(tmp_path)]) == 0
    assert "protobuf\t7\tBSD-3-Clause" in (tmp_path / "licences.txt").read_text()
    known.append({"name": "secret", "version": "2", "licenses": []})
    assert sbom.main(["--out", str(tmp_path)]) == 1
    assert "secret 2: its licence is not known" in capsys.readouterr().out


def test_the_bill_of_materials_names_the_version_of_the_source() -> None:
    assert module("sbom").own_version(FOLDER.parent) == strata.__version__


def declared() -> list[str]:
    """Return what the wheel requires, as its metadata says it."""
    project = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].items()
    return project["dependencies"] + [f"{n}; extra == '{e}'" for e, names in extras for n in names]


def test_the_wheel_requires_what_its_modules_import() -> None:
    names = {re.split(r"[^\w.-]", line)[0].lower().replace("_", "-") for line in declared()}
    names |= module("pack").needed(names)
    known = packages_distributions()
    for folder in ("strata", "jobs", "pyspark_strata"):
        for file in (FOLDER.parent / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                found = [a.name for a in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.module:
                    found = [node.module]
                for name in {f.partition(".")[0] for f in found} & known.keys():
                    from_ = {d.lower().replace("_", "-") for d in known[name]}
                    assert from_ & {*names, "strata-shards"}, f"{file} imports {name}"


def test_an_environment_for_executors_has_neither_airflow_nor_pyspark() -> None:
    names = module("pack").needed(declared())
    assert {
        "fastavro",
        "pyarrow",
        "numba",
        "llvmlite",
        "boto3",
        "psycopg-binary",
        "sqlalchemy",
    } <= names
    assert not {name for name in names if "airflow" in name or "pyspark" in name}
