"""What became of each mutant, kept between runs in `tests/mutants/judged.json`."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.mutants.edits import Mutant
from tests.mutants.judge import Verdict

KEPT: Final = Path(__file__).with_name("judged.json")


def load() -> dict[Mutant, Verdict]:
    """Return what was judged, nothing if that was never written down."""
    if not KEPT.exists():
        return {}
    lines = json.loads(KEPT.read_text("utf-8"))
    return {Mutant(**line["mutant"]): Verdict(**line["verdict"]) for line in lines}


def store(verdicts: Mapping[Mutant, Verdict]) -> None:
    """Write down what was judged, one mutant a line."""
    lines = [
        json.dumps({"mutant": dataclasses.asdict(m), "verdict": dataclasses.asdict(v)})
        for m, v in sorted(verdicts.items(), key=lambda item: item[0].key)
    ]
    KEPT.write_text("[\n" + ",\n".join(lines) + "\n]\n", "utf-8")
