"""The tables of benchmarks/README.md that show what `benchmarks.peers` measured."""

import tomllib
from collections.abc import Callable, Mapping
from typing import Any, Final

OURS: Final = "Strata"
CONTENDERS: Final = (OURS, "Strata, both layouts", "PyIceberg", "delta-rs", "DuckDB", "Spark")
INGEST_ONLY: Final = CONTENDERS[1]  # it reads the same columns
PEERS: Final = CONTENDERS[2:]
OPERATIONS: Final = {
    "ingest": "ingest CSV files",
    "plan": "plan: one day of a hundred",
    "last": "read the last 1 % of time",
    "lookup": "look one key up",
    "count": "count the rows of a day",
    "full": "read everything",
    "clustered": "upsert 1 % of the keys, in one cluster",
    "spread": "the same, spread evenly",
    "full after upserts": "read everything, behind both",
    "append": "append 20 small batches",
    "compact": "compact them",
}
SHORT: Final = {
    "ingest": "ingest",
    "plan": "plan",
    "last": "last 1 %",
    "lookup": "look-up",
    "count": "count a day",
    "full": "read all",
    "clustered": "upsert 1 %, cluster",
    "spread": "upsert 1 %, spread",
    "full after upserts": "read all behind them",
    "append": "20 small batches",
    "compact": "compact",
}
HEAVY: Final = ("ingest", "last", "lookup", "full", "clustered", "spread", "append", "compact")
MIB: Final = 2**20
Took = Mapping[str, Any]


def tables(text: str) -> str:
    """Return the tables of a run, from the text of peers.toml."""
    run = tomllib.loads(text)
    told = run["run"]
    low, high = told["load"]
    rows = ", ".join(f"{told[k]:,} ({k[5:]})" for k in told if k.startswith("rows_"))
    found = [
        f"{'; '.join(dict.fromkeys(told['versions']))}. Rows: {rows}; medians of {told['rounds']} "
        f"rounds in turn on {told['cores']} cores; load {low} to {high}; "
        f"{told['seconds'] / 60:.0f} minutes.",
        _seconds(run),
        _bytes(run),
        _sizes(run),
    ]
    return "\n\n".join(found)


def ratios(text: str) -> str:
    """Return one short table: for each shape what Strata's CPU is to the cheapest peer's."""
    run = tomllib.loads(text)
    found = _by(run)
    columns = [name for name in OPERATIONS if any(operation == name for _, operation in found)]
    rows = [
        f"| | {' | '.join(SHORT[name] for name in columns)} |",
        "|---" * (len(columns) + 1) + "|",
    ]
    for shape in dict.fromkeys(shape for shape, _ in found):
        cells = [beside(found.get((shape, name), {}), named=False) for name in columns]
        rows.append(f"| {shape} | {' | '.join(cells)} |")
    low, high = run["run"]["load"]
    return "\n".join(
        [*rows, "", f"Medians of {run['run']['rounds']} rounds; load {low} to {high}."]
    )


def _by(run: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, Took]]:
    found: dict[tuple[str, str], dict[str, Took]] = {}
    for took in run["took"]:
        found.setdefault((took["shape"], took["operation"]), {})[took["contender"]] = took
    return found


def _names(run: Mapping[str, Any]) -> list[str]:
    """Return the contenders that took part."""
    return [name for name in CONTENDERS if name in {took["contender"] for took in run["took"]}]


def _head(run: Mapping[str, Any], first: str, last: str = "") -> list[str]:
    names = [first, *_names(run), *([last] if last else [])]
    return [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]


def _seconds(run: Mapping[str, Any]) -> str:
    rows = _head(run, "CPU seconds (by the clock)", "Strata beside the best peer, CPU")
    for (shape, operation), by in _by(run).items():
        cells = [_cell(by, name, _time) for name in _names(run)]
        rows.append(f"| {_what(shape, operation)} | {' | '.join(cells)} | {beside(by)} |")
    return "\n".join(rows)


def beside(by: Mapping[str, Took], *, named: bool = True) -> str:
    """Return Strata's CPU as a multiple of the cheapest peer's; a loss is bold."""
    peers = {name: by[name]["cpu"] for name in PEERS if name in by}
    if OURS not in by or not peers:
        return ""
    best = min(peers, key=lambda name: peers[name])
    times = by[OURS]["cpu"] / max(peers[best], 1e-9)
    told = f"{times:.2f}" if times < 10 else f"{times:.0f}"
    told = f"{told} times {best}" if named else told
    return f"**{told}**" if times > 1 else told


def _bytes(run: Mapping[str, Any]) -> str:
    rows = _head(run, "MiB read; written; peak of memory")
    for (shape, operation), by in _by(run).items():
        if operation in HEAVY:
            cells = [_cell(by, name, _moved) for name in _names(run)]
            rows.append(f"| {_what(shape, operation)} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _sizes(run: Mapping[str, Any]) -> str:
    rows = _head(run, "MiB of data; KiB of metadata")
    shapes = list(dict.fromkeys(size["shape"] for size in run["sizes"]))
    for shape in shapes:
        by = {size["contender"]: size for size in run["sizes"] if size["shape"] == shape}
        cells = [_cell(by, name, _size) for name in _names(run)]
        rows.append(f"| {shape} | {' | '.join(cells)} |")
        kept = {k["contender"]: k for k in run["kept"] if k["shape"] == shape}
        cells = [_cell(kept, name, lambda one: f"{one['files']}") for name in _names(run)]
        rows.append(f"| {shape}: files that the plan keeps | {' | '.join(cells)} |")
    return "\n".join(rows)


def _what(shape: str, operation: str) -> str:
    return f"{shape}: {OPERATIONS[operation]}"


def _cell(by: Mapping[str, Took], name: str, words: Callable[[Took], str]) -> str:
    if name in by:
        return words(by[name])
    return "" if name == INGEST_ONLY else "no words"


def _time(took: Took) -> str:
    return f"{_short(took['cpu'])} ({_short(took['wall'])})"


def _short(seconds: float) -> str:
    return f"{seconds:.2f}" if seconds >= 0.1 else f"{seconds:.4f}"


def _moved(took: Took) -> str:
    read, out, peak = (took[unit] / MIB for unit in ("read", "written", "peak"))
    return f"{_size_of(read)}; {_size_of(out)}; {peak:,.0f}"


def _size_of(mib: float) -> str:
    return f"{mib:,.0f}" if mib >= 10 else f"{mib:.1f}"


def _size(size: Took) -> str:
    metadata = f"{size['metadata'] / 1024:,.0f}" if "metadata" in size else "in the same file"
    dead = f" (+ {size['dead'] / MIB:.1f} MiB until garbage collection)" if size["dead"] else ""
    return f"{size['data'] / MIB:.1f}; {metadata}{dead}"
