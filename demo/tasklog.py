"""The log of a task, read from Airflow's folder: one JSON object a line."""

import json
from pathlib import Path

TAIL_BYTES = 65536


def log_file(home: Path, dag: str, run: str, task: str) -> Path | None:
    """Return the newest try's log; None before there is one."""
    folder = home / "logs" / f"dag_id={dag}" / f"run_id={run}" / f"task_id={task}"
    tries = sorted(folder.glob("attempt=*.log"), key=lambda file: file.stat().st_mtime)
    return tries[-1] if tries else None


def last_lines(file: Path, count: int) -> list[str]:
    """Return the last `count` messages. Cost: reads the end of the file only."""
    with file.open("rb") as log:
        log.seek(0, 2)
        log.seek(max(0, log.tell() - TAIL_BYTES))
        raw = log.read().decode("utf-8", errors="replace").splitlines()
    lines: list[str] = []
    for line in raw[-4 * count :]:
        lines.extend(_message(line).splitlines())
    return [line for line in lines if line.strip()][-count:]


def _message(line: str) -> str:
    """Return what a line says, with the error it is about; the tail's first may be cut in two."""
    try:
        entry = json.loads(line)
    except ValueError:
        return line
    if not isinstance(entry, dict):
        return line
    errors = [
        f"{error.get('exc_type')}: {error.get('exc_value')}"
        for error in entry.get("error_detail") or ()
        if isinstance(error, dict)
    ]
    return "\n".join([str(entry.get("event", "")), *errors])
