"""Names, keys and addresses from people and files lead nowhere else and give nothing away."""

import ast
import logging
from pathlib import Path

import pytest

from strata.config.environment import check_stores
from strata.errors import InvalidRequest, StrataError
from strata.model.settings import StoreSettings
from strata.model.spec import parse_spec
from strata.store.disk import DiskBlob
from strata.store.interface import Blob
from strata.store.memory import MemoryBlob
from strata.store.open import open_stores
from strata.store.s3 import S3Blob
from strata.store.s3_client import S3Address

HOSTILE = [
    "../outside", "a/../../outside", "/etc/passwd", "a//b", "a/./b", ".hidden", "a/.hidden", "a\0b",
    "a\nb", "a\\..\\b", "~/x", "a/", "", "é", "a b", "C:x", "%2e%2e/x", "x" * 300, "-rf",
]  # fmt: skip
ROOT = Path(__file__).parents[2]
SECRET = "hunter2-very-secret"


def stores(tmp_path: Path) -> list[Blob]:
    """Return each store; S3's is asked before it would ask a server."""
    address = S3Address.parse("s3://bucket/prefix?endpoint=http://127.0.0.1:9&attempts=1")
    return [DiskBlob(str(tmp_path / "root")), MemoryBlob(), S3Blob(address)]


@pytest.mark.parametrize("key", HOSTILE)
def test_no_key_leads_out_of_a_store(key: str, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"not yours")
    for blob in stores(tmp_path):
        for call in (
            lambda b=blob: b.get(key),
            lambda b=blob: b.set(key, b"x"),
            lambda b=blob: b.delete(key),
            lambda b=blob: b.restore(key),
        ):
            with pytest.raises(InvalidRequest, match="key"):
                call()
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["outside"]
    assert (tmp_path / "outside").read_bytes() == b"not yours"


@pytest.mark.parametrize("name", [n for n in HOSTILE if n != "-rf"])
def test_no_shard_is_called_so_that_it_leads_elsewhere(name: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_spec({"name": name, "columns": [{"name": "id", "type": "int64"}], "key": ["id"]})


@pytest.mark.parametrize(
    "settings",
    [
        StoreSettings("memory://x", f"postgresql://user:{SECRET}@127.0.0.1:9/db?connect_timeout=1"),
        StoreSettings("memory://x", f"postgresql://user:{SECRET}@127.0.0.1:9/db?nonsense=1"),
        StoreSettings(f"s3://user:{SECRET}@bucket/prefix", "memory://x"),
        StoreSettings(f"s3://bucket/prefix?secret={SECRET}", "memory://x"),
    ],
)
def test_no_error_log_or_check_tells_a_password(
    settings: StoreSettings, caplog: pytest.LogCaptureFixture
) -> None:
    said = []
    with caplog.at_level(logging.DEBUG):
        try:
            open_stores(settings).consensus.head("x")
        except StrataError as error:
            said += [str(error), repr(error), repr(error.details)]
        said.append(check_stores(settings).found)
    assert said
    assert SECRET not in "".join(said)
    assert SECRET not in caplog.text


def test_no_module_puts_texts_together_into_sql_for_spark() -> None:
    """A text may be handed to `sql`, `expr` or `selectExpr` whole; one made there is a finding."""
    found = []
    for folder in ("strata", "jobs", "plugins", "pyspark_strata"):
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                    continue
                owner = ast.unparse(node.func.value)
                asks = node.func.attr in ("sql", "selectExpr") or (
                    node.func.attr == "expr" and owner in ("F", "fn", "functions")
                )
                if asks and not all(isinstance(arg, ast.Constant | ast.Name) for arg in node.args):
                    found.append(f"{file.relative_to(ROOT)}:{node.lineno}")
    assert found == []
