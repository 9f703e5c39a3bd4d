"""What is compiled ahead is all that real work calls: nobody's first run waits for the compiler."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.containers import PROJECT

SPEC = """
name: {name}
columns:
  - {{name: id, type: int64}}
  - {{name: name, type: string}}
  - {{name: city, type: string}}
  - {{name: seen, type: timestamptz}}
  - {{name: cost, type: "decimal(12,2)"}}
  - {{name: rate, type: float64}}
  - {{name: good, type: bool}}
  - {{name: tags, type: "list<string>"}}
  - {{name: more, type: jsonb}}
key: [name, id]
source: {{paths: ["{name}"], format: {name}}}
"""
# Every kernel's types after what is compiled ahead has run, and those that real work adds.
SCRIPT = """\
import importlib, io, json, pkgutil, sys
from contextlib import redirect_stdout
import strata.kernels

def known():
    found = set()
    for one in pkgutil.iter_modules(strata.kernels.__path__, "strata.kernels."):
        if one.name in sys.modules and not one.name.endswith("__main__"):
            for name, kernel in vars(sys.modules[one.name]).items():
                for types in getattr(kernel, "signatures", ()):
                    found.add(f"{name}{types}")
    return found

for one in strata.kernels.WARM:
    module, function = one.split(":")
    getattr(importlib.import_module(module), function)()
before = known()
from strata.cli.app import main
for words in json.load(sys.stdin):
    try:
        with redirect_stdout(io.StringIO()) as said:
            main(words)
    except SystemExit as end:
        assert not end.code, (words, said.getvalue())
print(json.dumps(sorted(known() - before)), len(before))
"""


def test_nothing_is_compiled_for_ingest_merge_checks_and_reads(tmp_path: Path) -> None:
    (tmp_path / "rows.yaml").write_text(SPEC)
    config = tmp_path / "strata.toml"
    config.write_text(
        f'[store]\nblob = "file://{tmp_path}/blob"\nconsensus = "sqlite:///{tmp_path}/c.db"\n'
        f'landing = "{tmp_path}"\n'
    )
    commands = []
    for name in ("csv", "jsonl", "parquet"):
        (tmp_path / f"{name}.yaml").write_text(SPEC.format(name=name))
        commands.append(["create", name, "--spec", str(tmp_path / f"{name}.yaml")])
        for n in range(2):
            file = _written(tmp_path / f"{n}.{name}", [_row(2_000 * n + i) for i in range(3_000)])
            span = ["--lower", str(n * 1000), "--upper", str((n + 1) * 1000)]
            commands.append(["ingest", name, "--from", str(file), *span])
        commands += [
            ["compact", name, "--full"],
            ["verify", name],
            ["read", name, "--where", "name = 'a long name that ends in 17'"],
            ["count", name, "--where", "cost > 10 and city is not null"],
        ]
    commands = [[*words, "--config", str(config)] for words in commands]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        check=False,
        cwd=PROJECT,
    )
    assert done.returncode == 0, done.stderr
    added, _, count = done.stdout.strip().rpartition(" ")
    assert json.loads(added) == []
    assert int(count) > 50


def _row(n: int) -> dict[str, object]:
    return {
        "id": n,
        "name": f"a long name that ends in {n}",
        "city": None if n % 3 else f"city {n % 7}",
        "seen": datetime.fromtimestamp(n, UTC).isoformat(),
        "cost": f"{n}.25",
        "rate": n / 7,
        "good": n % 2 == 0,
        "tags": [f"tag {n % 5}", None] if n % 4 else [],
        "more": {"b": n, "a": ["x", 1.5, None]},
    }


def _written(file: Path, rows: list[dict[str, object]]) -> Path:
    """Write rows to a file in the format of its ending."""
    if file.suffix == ".parquet":
        pq.write_table(_table(rows), file)
    elif file.suffix == ".csv":
        lines = [",".join(map(_quoted, row.values())) for row in rows]
        file.write_text("".join(f"{line}\n" for line in [",".join(rows[0]), *lines]))
    else:
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return file


def _quoted(value: object) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value)
    return '"' + text.replace('"', '""') + '"'


def _table(rows: list[dict[str, object]]) -> pa.Table:
    typed = [
        {
            **row,
            "seen": datetime.fromisoformat(str(row["seen"])),
            "cost": Decimal(str(row["cost"])),
            "more": json.dumps(row["more"]),
        }
        for row in rows
    ]
    return pa.Table.from_pylist(typed)
