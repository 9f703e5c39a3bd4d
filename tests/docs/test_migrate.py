"""The page on bringing tables in and out runs as it is written, section by section."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pyiceberg.catalog
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.utils.config import Config

import strata
from strata.cli.app import main
from tests.docs.test_pages import FENCE, PROJECT

PAGE = PROJECT / "docs" / "how-to" / "migrate.md"
ORDERS = pa.table({"id": [1, 2, 3], "price": [9.5, None, 0.25], "note": ["a", "é, b", None]})


def sections() -> dict[str, list[tuple[str, str]]]:
    """Return the blocks of each section, with their kind."""
    parts = re.split(r"^## (.+)$", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]
    return {
        title: [(block["kind"], block["body"]) for block in FENCE.finditer(body)]
        for title, body in zip(parts[::2], parts[1::2], strict=True)
    }


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder with the tables and files that the page names, and settings of its own."""
    monkeypatch.chdir(tmp_path)
    Path("strata.toml").write_text(
        f'[store]\nblob = "file://{tmp_path}/blob"\nconsensus = "sqlite:///{tmp_path}/c.db"\n'
    )
    Path(".pyiceberg.yaml").write_text(
        f"catalog:\n  lake:\n    type: sql\n    uri: sqlite:///{tmp_path}/lake.db\n"
        f"    warehouse: file://{tmp_path}/ice\n"
    )
    monkeypatch.setenv("STRATA_CONFIG", str(tmp_path / "strata.toml"))
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())
    Path("config/shards").mkdir(parents=True)
    write_deltalake("lake/orders", ORDERS)
    pq.write_table(ORDERS, "orders.parquet")
    pyarrow.csv.write_csv(ORDERS, "orders.csv")
    catalog = pyiceberg.catalog.load_catalog("lake")
    catalog.create_namespace("shop")
    catalog.create_table("shop.orders", schema=ORDERS.schema).append(ORDERS)
    yield tmp_path
    catalog.close()


def run(line: str) -> None:
    """Run one line of the page as a shell would, but for `pip`."""
    command, *words = shlex.split(line.removeprefix("$ "))
    if command == "pip":
        return
    assert command == "strata", line
    with pytest.raises(SystemExit) as end:
        main(words)
    assert not end.value.code, line


def run_blocks(title: str, only: str = "") -> None:
    """Run the blocks of a section; `only`: those lines of its commands that have a word."""
    for kind, body in sections()[title]:
        if kind == "console":
            for line in body.splitlines():
                if only in line:
                    run(line)
        else:
            exec(compile(body, str(PAGE), "exec"), {"__name__": "page"})


def rows() -> list[dict[str, Any]]:
    """Return what the shard holds, without its times, each row as often as it counts."""
    found = strata.open()["orders"].stream(consolidate=True).read_all().sort_by("id")
    plain = found.select(ORDERS.schema.names).to_pylist()
    return [row for row, d in zip(plain, found["d"].to_pylist(), strict=True) for _ in range(d)]


@pytest.mark.parametrize(
    ("title", "only"),
    [
        ("From Parquet, CSV or JSON files", ""),
        ("From Delta and Iceberg", "lake/orders"),
        ("From Delta and Iceberg", "--catalog"),
    ],
)
@pytest.mark.usefixtures("lake")
def test_a_table_comes_in_as_the_page_says(title: str, only: str) -> None:
    run_blocks("Declare the shard")

    run_blocks(title, only)

    assert rows() == ORDERS.to_pylist()


@pytest.mark.usefixtures("lake")
def test_frames_come_in_as_the_page_says() -> None:
    run_blocks("Declare the shard")

    run_blocks("From anything else with an Arrow stream")

    assert rows() == [row for row in ORDERS.to_pylist() for _ in range(2)]


@pytest.mark.usefixtures("lake")
def test_a_shard_goes_out_as_the_page_says() -> None:
    run_blocks("Declare the shard")
    run_blocks("From Delta and Iceberg", "strata adopt orders --from lake/orders")
    Path("orders.parquet").unlink()

    run_blocks("Take it out")

    catalog = pyiceberg.catalog.load_catalog("lake")
    copies = (
        pq.read_table("orders.parquet"),
        DeltaTable("lake/copy").to_pyarrow_table(),
        catalog.load_table("shop.orders_copy").scan().to_arrow(),
    )
    for copy in copies:
        plain = copy.select(ORDERS.schema.names).sort_by("id")
        assert plain.to_pylist() == ORDERS.to_pylist()
        assert copy["d"].to_pylist() == [1, 1, 1]
    (leaving_out,) = re.findall(r"`(orders\.dataset.*?)`", PAGE.read_text("utf-8"), re.DOTALL)
    reader = eval(leaving_out, {"orders": strata.open()["orders"]})
    assert reader.read_all().column_names == ["id", "price"]


def test_each_section_with_code_is_run() -> None:
    tried = {"Declare the shard", "From Parquet, CSV or JSON files", "From Delta and Iceberg"}
    tried |= {"From anything else with an Arrow stream", "Take it out"}
    assert {title for title, blocks in sections().items() if blocks} == tried
