"""What filters of analysts skip: `python -m benchmarks.analysts [--answers FILE]`.

Three data sets (`benchmarks.analysts_data`), 150 filters (`benchmarks.analysts_filters`). Spark
says which parts hold a row that a filter accepts: the others can be skipped. Printed are the shares
of them that Strata skips and that Parquet's footers skip (minimum, maximum and count of nulls of a
column, compared with constants), by kind of filter, and what stopped the proof for the rest.

`--answers` writes down what Spark said, or reads it if the file is there: then no Java is started.
`--kept` lists each filter that keeps more than it must; `--seed` draws other rows. A part that is
skipped although it holds an accepted row ends the run.
"""

import argparse
import pickle
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from benchmarks.analysts_data import DataSet, data_sets
from benchmarks.analysts_filters import FILTERS
from strata.decide.blooms import with_bits
from strata.decide.decision import decide, split_conjuncts
from strata.decide.reasons import reasons
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.format.columns import updates_schema
from strata.format.values.view import from_view, view_type
from strata.kernels.arrays import Bools
from strata.model.schema import Relation
from strata.model.settings import SparkSettings, StoreSettings
from strata.model.spec import ShardSpec, parse_spec
from strata.stats import collect, concat
from strata.stats.members import Gathering, member_columns, wanted_places
from strata.stats.pairs import PairGathering, wanted_pairs
from strata.stats.shapes import Shapes
from strata.stats.wire import JSON_PATH
from strata.store.keys import bloom_key_of, content_hash, part_prefix
from strata.store.open import open_stores

NOW: Final = 1_750_000_000_000_000
AT_ONCE: Final = 30  # filters of one query of Spark


@dataclass(frozen=True)
class Asked:
    """One filter, and the parts that hold a row which it accepts."""

    kind: str
    filter: Filter
    needed: Bools


@dataclass(frozen=True)
class Judged:
    """What became of the parts that one filter could skip."""

    asked: Asked
    strata: Bools  # kept
    footers: Bools
    causes: tuple[tuple[str, str], ...]  # of each part that is kept without need, and where

    @property
    def spare(self) -> Bools:
        """Return the parts that can be skipped."""
        return ~self.asked.needed


def declared(data: DataSet) -> ShardSpec:
    """Return the declaration of a data set."""
    return parse_spec(
        {
            "name": data.name,
            "columns": [{"name": n, "type": t, "nullable": True} for n, t in data.columns.items()],
            "key": [next(iter(data.columns))],
            "stats": {
                "budget_bytes": 1 << 20,
                "sets": list(data.sets),
                "blooms": list(data.blooms),
                "pairs": [list(pair) for pair in data.pairs],
            },
        }
    )


def seen(data: DataSet, spec: ShardSpec, part: int) -> pa.Table:
    """Return the rows of a part as readers see them."""
    columns = spec.relation().columns
    rows = data.parts[part]
    return pa.table(
        {c.name: pa.array([r[c.name] for r in rows], view_type(c.type)) for c in columns}
    )


def statistics(data: DataSet, spec: ShardSpec) -> pa.Table:
    """Return the statistics of all parts, bits of bloom filters included."""
    relation, blob = (
        spec.relation(),
        open_stores(StoreSettings(f"memory://{data.name}", f"memory://{data.name}")).blob,
    )
    found = []
    for part in range(len(data.parts)):
        table = seen(data, spec, part)
        columns = {
            str(c.id): from_view(table[c.name].combine_chunks(), c.type) for c in relation.columns
        }
        count = table.num_rows
        updates = pa.table(
            {**columns, "t": [0] * count, "d": [1] * count}, schema=updates_schema(relation)
        )
        gathering, shapes = Gathering(wanted_places(relation, spec.stats)), Shapes(relation)
        pairs = PairGathering(wanted_pairs(relation, spec.stats))
        gathering.add(updates)
        shapes.add(updates)
        pairs.add(updates)
        stats = pairs.beside(shapes.beside(collect(updates, relation)))
        values = gathering.finish(stats)
        keys = {}
        for one in values:
            if one.bloom is not None:
                key = bloom_key_of(part_prefix(data.name), content_hash(one.bloom))
                blob.set(key, one.bloom)
                keys[one.place.name] = key
        for name, column in member_columns(values, keys).items():
            stats = stats.append_column(name, column)
        found.append(stats)
    return with_bits(blob, concat(found, [len(rows) for rows in data.parts]))


def answers(sets: Sequence[DataSet]) -> dict[str, list[Asked]]:
    """Return each filter with the parts that it needs, as Spark says. Cost: a minute or two."""
    from pyspark.sql import functions as F

    from strata.session.session import spark_session
    from strata.spark.front.catalyst import analyse

    settings = SparkSettings(master="local[2]", driver_memory_mib=1536, shuffle_partitions=2)
    found: dict[str, list[Asked]] = {}
    with spark_session("analysts", settings) as spark:
        for data in sets:
            spec = declared(data)
            tables = [
                seen(data, spec, n).append_column("part", pa.array([n] * len(rows)))
                for n, rows in enumerate(data.parts)
            ]
            frame = spark.createDataFrame(pa.concat_tables(tables)).cache()
            asked = [(kind, sql) for kind, some in FILTERS[data.name].items() for sql in some]
            needed: dict[str, Bools] = {}
            for start in range(0, len(asked), AT_ONCE):
                some = [sql for _, sql in asked[start : start + AT_ONCE]]
                any_true = [F.coalesce(F.bool_or(F.expr(s)), F.lit(False)) for s in some]
                named = [column.alias(f"f{i}") for i, column in enumerate(any_true)]
                table = frame.groupBy("part").agg(*named).orderBy("part").toArrow()
                for number, sql in enumerate(some):
                    needed[sql] = np.asarray(table[f"f{number}"], np.bool_)
            found[data.name] = [
                Asked(kind, analyse(spark, spec.relation(), sql, now=NOW), needed[sql])
                for kind, sql in asked
            ]
    return found


_COMPARED: Final = (
    "equal_to",
    "equal_null_safe",
    "less_than",
    "less_than_or_equal",
    "greater_than",
    "greater_than_or_equal",
    "in",
    "starts_with",
)


def of_footers(expr: Expr, columns: frozenset[int]) -> bool:
    """Return whether a reader of Parquet asks a condition of footers."""
    if not isinstance(expr, Call):
        return False
    if expr.function in ("and", "or"):
        return all(of_footers(arg, columns) for arg in expr.args)
    if expr.function in ("is_null", "is_not_null"):
        return isinstance(expr.args[0], Column) and expr.args[0].id in columns
    there = [arg for arg in expr.args if not isinstance(arg, Literal)]
    plain = len(there) == 1 and isinstance(there[0], Column) and there[0].id in columns
    return expr.function in _COMPARED and plain


def kept_by_footers(asked: Filter, stats: pa.Table, relation: Relation) -> Bools:
    """Return which parts the smallest and largest values of their columns keep."""
    flat = {c.id for c in relation.columns if f"s.{c.id}" in stats.column_names}
    columns = frozenset(i for i in flat if stats[f"s.{i}"].type != JSON_PATH)
    some = [c for c in split_conjuncts(asked.expr) if of_footers(c, columns)]
    keep: Bools = np.ones(stats.num_rows, np.bool_)
    if not some:
        return keep
    plain = stats.select([n for n in stats.column_names if n == "rows" or n[2:].isdigit()])
    expr = some[0] if len(some) == 1 else Call("and", tuple(some), "boolean")
    return np.asarray(decide(Filter(expr, "", NOW, NOW), plain, relation).keep, np.bool_)


def judged(asked: Asked, stats: pa.Table, relation: Relation, *, why: bool = True) -> Judged:
    """Judge every part by one filter. Raises: AssertionError for a part that is skipped wrongly."""
    keep = np.asarray(decide(asked.filter, stats, relation).keep, np.bool_)
    assert not (asked.needed & ~keep).any(), f"skipped wrongly: {asked.filter.sql}"
    spare = np.flatnonzero(keep & ~asked.needed).tolist() if why else []
    versions = [1_000] * stats.num_rows
    found = reasons(asked.filter, stats, relation, spare, versions=versions)
    causes = tuple((str(r.cause), r.expression) for r in found)
    return Judged(asked, keep, kept_by_footers(asked.filter, stats, relation), causes)


def report(found: Sequence[tuple[str, Judged]], *, kept: bool) -> Iterator[str]:
    """Yield the lines of the tables."""
    yield f"{'kind':<20}{'filters':>9}{'can skip':>10}{'footers':>9}{'Strata':>9}{'share':>9}"
    kinds = list(dict.fromkeys(one.asked.kind for _, one in found))
    for kind in (*kinds, "all"):
        some = [one for _, one in found if kind in (one.asked.kind, "all")]
        spare = sum(int(one.spare.sum()) for one in some)
        footers = sum(int((one.spare & ~one.footers).sum()) for one in some)
        strata = sum(int((one.spare & ~one.strata).sum()) for one in some)
        share = f"{100 * strata / max(spare, 1):.1f} %"
        yield f"{kind:<20}{len(some):>9}{spare:>10,}{footers:>9,}{strata:>9,}{share:>9}"
    causes = Counter(cause for _, one in found for cause, _ in one.causes)
    yield "\nkept without need, by cause"
    yield from (f"{cause:<32}{count:>8,}" for cause, count in causes.most_common())
    if kept:
        yield "\nfilters that keep parts without need, how many, and how many can be skipped"
        order = sorted(found, key=lambda pair: -len(pair[1].causes))
        for name, one in order:
            if one.causes:
                cause, where = Counter(one.causes).most_common(1)[0][0]
                sql = one.asked.filter.sql
                counts = f"{len(one.causes):>4} {int(one.spare.sum()):>4}"
                yield f"{counts} {name:<8}{sql}  [{cause}: {where}]"


def loaded(path: Path | None, sets: Sequence[DataSet]) -> dict[str, list[Asked]]:
    """Return what Spark says, from a file if it is there."""
    if path is not None and path.exists():
        found: dict[str, list[Asked]] = pickle.loads(path.read_bytes())
        return found
    found = answers(sets)
    if path is not None:
        path.write_bytes(pickle.dumps(found))
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=Path)
    parser.add_argument("--kept", action="store_true")
    parser.add_argument("--seed", type=int, default=26)
    options = parser.parse_args(argv)
    sets = data_sets(options.seed)
    asked: dict[str, Any] = loaded(options.answers, sets)
    found = []
    for data in sets:
        spec = declared(data)
        stats = statistics(data, spec)
        found += [(data.name, judged(one, stats, spec.relation())) for one in asked[data.name]]
    sys.stdout.write("\n".join([*report(found, kept=options.kept), ""]))


if __name__ == "__main__":
    main()
