"""Find sets and bloom filters that lack values which rows have, and wrong shapes and pairs."""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from strata.audit.blame import Lie, label_of
from strata.model.schema import Relation
from strata.stats.bloom import hold_all
from strata.stats.members import JSON_FORM, TEXT_FORM, Sought, place_named, values_at
from strata.stats.pairs import pair_contradictions, pair_facts, pair_named
from strata.stats.shapes import encloses, texts_shape
from strata.stats.wire import BITS, OF_VALUES, SETS, SHAPES, place_of

_STORED = "stored values"


def find_member_lies(recorded: pa.RecordBatch, rows: pa.Table, relation: Relation) -> list[Lie]:
    """Return every recorded set, bloom filter, shape or pair that is not true of all rows.

    Shape: `recorded` has one row, with the bits of bloom filters (`strata.decide.blooms`); filters
    without them are not judged. Those in another form than that of the type are not judged either:
    no reader uses them.
    """
    claims = [
        (name, place)
        for name in recorded.schema.names
        if name.startswith(OF_VALUES)
        if (place := place_named(relation, place_of(name))) is not None
        and recorded.column(name)[0].is_valid
    ]
    lies: list[Lie] = []
    for shapes in (False, True):
        some = [(name, place) for name, place in claims if name.startswith(SHAPES) is shapes]
        found = values_at(rows, [place for _, place in some], numbers=not shapes)
        for (name, place), values in zip(some, found, strict=True):
            lies += _lies(recorded.column(name)[0], name, place, values, relation)
    return [*lies, *_pair_lies(recorded, rows, relation)]


def _pair_lies(recorded: pa.RecordBatch, rows: pa.Table, relation: Relation) -> Iterator[Lie]:
    """Yield what is wrong of pairs, once for each of the two columns: a verdict trusts neither."""
    for name in recorded.schema.names:
        pair, claim = pair_named(relation, name), recorded.column(name)[0].as_py()
        if pair is None or claim is None or claim["form"] != pair.form:
            continue
        sides = (pair.left, pair.right)
        label = " ~ ".join(label_of(one.name, one.column.id, relation) for one in sides)
        facts = pair_facts(rows, pair)
        wrongs: Iterable[tuple[str, object, object]] = [
            ("pair", claim["form"], "that nothing is known")
        ]
        if facts is not None:
            wrongs = pair_contradictions(claim, facts)
        for wrong in wrongs:
            yield from (Lie(column_id, label, *wrong) for column_id in sorted(pair.ids))


def _lies(
    claim: pa.StructScalar,
    name: str,
    place: Sought,
    values: pa.BinaryArray | None,
    relation: Relation,
) -> Iterator[Lie]:
    fields, shape = dict(claim.items()), name.startswith(SHAPES)
    if place.form not in ((TEXT_FORM, JSON_FORM) if shape else (fields["form"].as_py(),)):
        return
    label = label_of(place.name, place.column.id, relation)
    if shape:
        texts = None if values is None else texts_shape(values.cast(pa.string()))
        known = {field: value.as_py() for field, value in fields.items() if value.is_valid}
        if values is None or (texts is not None and not encloses(claim.as_py(), texts)):
            yield Lie(place.column.id, label, "shape", str(known), str(texts))
    elif name.startswith(SETS):
        if not fields["values"].is_valid:
            return
        held = fields["values"].as_py()
        lacking = None if values is None else len(set(values.to_pylist()) - set(held))
        if lacking != 0:
            yield Lie(place.column.id, label, "set", f"{len(held)} values", _shown(lacking))
    elif BITS in fields:
        key, bits = fields["key"].as_py(), fields[BITS].as_py()
        if bits is None:
            yield Lie(place.column.id, label, "bloom", key, "no such filter, or a damaged one")
            return
        lacking = None if values is None else int(np.count_nonzero(~hold_all(bits, values)))
        if lacking != 0:
            yield Lie(place.column.id, label, "bloom", key, _shown(lacking))


def _shown(lacking: int | None) -> str:
    if lacking is None:
        return "values that cannot be known"
    return f"{lacking} {_STORED} that it lacks"
