"""What is added up of a shard, and where the result is kept."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SumsWish:
    """Sums, counts and ends of a source by groups, in a target."""

    source: str
    target: str
    by: tuple[str, ...]
    sums: tuple[str, ...] = ()
    where: str | None = None
    least: tuple[str, ...] = ()  # columns whose least value is kept
    greatest: tuple[str, ...] = ()
