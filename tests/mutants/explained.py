"""Mutants of sources that survive for a reason, by what they change; see `tests/mutants`."""

from collections.abc import Mapping
from typing import Final

_SPEED: Final = "the result is the same, only slower"
_WIDER: Final = "the range is only wider, and not by much"
# (module, function, before, after): why no test can or should tell
EXPLAINED: Final[Mapping[tuple[str, str, str, str], str]] = {
    ("strata.stats.flat", "collect_flat", "True", "False"): (
        f"{_SPEED}: texts are cut afterwards in any case, this spares the copy of a huge one"
    ),
    ("strata.stats.json_bounds", "widest", "len(counts) > room", "len(counts) >= room"): (
        "where just all fit, the most frequent `room` of them are all"
    ),
    (
        "strata.stats.json_scan", "Scanner._drain", "len(numbers) > 1024", "len(numbers) >= 1024",
    ): "how many numbers are read at a time changes none of them",
    (
        "strata.stats.json_scan", "_plain",
        "pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)",
        "pa.types.is_string(texts.type) and pa.types.is_large_string(texts.type)",
    ): f"{_SPEED}: a large string is copied to a string before it is scanned",
    ("strata.stats.size", "_integer_bits", "numbers < 0", "numbers <= 0"): (
        "zero costs nothing at any magnitude"
    ),
    (
        "strata.decide.causes", "_is_loose", "bool(sides) and any(sides) and (not all(sides))",
        "any(sides) and (not all(sides))",
    ): "of no sides, none is any",
    (
        "strata.decide.specs", "View._is_absent", "not path or known is YES",
        "not path and known is YES",
    ): f"{_SPEED}: nothing is above the root, and what is known everywhere is nowhere absent",
    ("strata.expr.functions.arithmetic", "_abs", "low = np.where(low < 0, high, low)", "pass"): (
        f"{_WIDER}: it is about the range of -2**63 alone, which fails, or wraps to anywhere"
    ),
    (
        "strata.expr.functions.formats", "cast_text",
        "read(_DATE, np.where(kept, chars, 0), upward=True) + DAY_US - 1",
        "read(_DATE, np.where(kept, chars, 0), upward=True) + DAY_US",
    ): f"{_WIDER}: a microsecond, where a zone behind the text makes it hours",
    (
        "strata.expr.interpret", "Interpreter.evaluate",
        "if (known := self._constants.get(id(expr))) is not None and trace is None: return known",
        "pass",
    ): f"{_SPEED}: a constant is evaluated for every chunk of parts",
}  # fmt: skip
