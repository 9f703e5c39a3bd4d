"""What is added up of a shard, and where the result is kept: as a wish, and as declared."""

from dataclasses import dataclass

from strata.model.spec import ShardSpec, SumsSpec


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

    @property
    def declared(self) -> SumsSpec:
        """Return the section of the target's declaration."""
        return SumsSpec(self.source, self.sums, self.least, self.greatest, self.where or "")


def declared_wish(spec: ShardSpec) -> SumsWish | None:
    """Return what a shard is declared to hold the sums of; None for other shards."""
    said = spec.sums
    if not said.of:
        return None
    return SumsWish(said.of, spec.name, spec.key, said.sum, said.where or None, said.min, said.max)
