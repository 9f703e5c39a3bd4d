"""Receipts record what a read decided, so that anybody can check it later.

A receipt holds the filter as analysed, the clock, the manifests by their content names, the digest
of the relevant statistics, and the decision for every part. `replay` makes the decision again from
those manifests. With an evaluator it also looks into the skipped parts for a row that the filter
accepts or fails on. The outcome distinguishes an altered receipt and a missing manifest or part
from a decision that is not reproduced.

Cost: a receipt takes about 60 bytes a part; a replay reads the manifests and, with an evaluator,
the skipped parts.
"""

import gzip
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from strata import __version__
from strata.audit.soft import Evaluator
from strata.decide.blooms import judged
from strata.decide.decision import needed_columns
from strata.decide.descent import load_manifest, readable_batches
from strata.decide.plan import plan_read
from strata.decide.question import Question
from strata.decide.read_plan import ReadPlan
from strata.errors import Corrupt, InvalidRequest
from strata.expr.exprjson import dump_filter, load_filter
from strata.expr.filter import Filter
from strata.format.manifest import PartRef, part_refs
from strata.history.usage import reads_columns_of
from strata.model.shown import json_of
from strata.parts.manifests import load_manifest_of
from strata.state.state import Batch, State
from strata.stats import STATS_VERSION
from strata.store.cures import unreadable
from strata.store.keys import content_hash, names_content, receipt_key, receipt_prefix
from strata.store.open import Stores
from strata.store.retry import retry
from strata.store.small_file import limited_bytes
from strata.store.whole_file import written_whole

RECEIPT_VERSION: Final = 1
BYTES_MAX: Final = 1 << 30  # of a receipt in a file: some ten million parts
KEPT_PARTS_MAX: Final = 200_000  # a receipt of more parts would take several megabytes each night
RECEIPTS: Final = "`strata read --receipt FILE` writes one, and each validation keeps its own"
SKIPPING: Final = ("audit", "on")  # modes in which a read leaves parts out
Receipt = dict[str, Any]  # plain JSON, as `issue` makes it


@dataclass(frozen=True, slots=True)
class Replay:
    """The outcome of checking a receipt again."""

    shard: str
    filter: str
    as_of: int
    parts: int
    skipped: int
    altered: bool  # the receipt differs from what was issued
    differences: tuple[str, ...]  # parts with another decision now, and which
    unchecked: tuple[str, ...]  # manifests and parts that could not be read
    looked_into: int  # skipped parts whose rows were read
    matching: tuple[str, ...]  # skipped parts with a row that the filter accepts or fails on
    versions: Mapping[str, Any]  # of the code then and now

    @property
    def reproduced(self) -> bool:
        """Return whether every decision was reproduced."""
        return not (self.altered or self.differences or self.unchecked)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return json_of(self) | {"reproduced": self.reproduced}


def issue(stores: Stores, state: State, plan: ReadPlan, filter: Filter) -> Receipt:
    """Return the receipt of a plan that was made on `state`.

    Cost: the filter's columns of every manifest.
    """
    fetched = {ref.key for ref in plan.fetched}
    batches = []
    for batch in readable_batches(state, plan.as_of):
        columns = {"key", "rows", "t_low", "relation_version", *needed_columns(filter)}
        manifest = load_manifest(stores, state, batch, columns)
        seen = manifest.filter(pc.less_equal(manifest["t_low"], plan.as_of))
        keys = seen["key"].to_pylist()
        batches.append(
            {
                "lower": batch.lower,
                "upper": batch.upper,
                "since": batch.since,
                "manifest": batch.manifest,
                "parts": batch.parts,
                "statistics": _digest(manifest, filter),
                "fetched": [key for key in keys if key in fetched and key not in plan.audited],
                "audited": [key for key in keys if key in plan.audited],
                "skipped": [key for key in keys if key not in fetched],
            }
        )
    receipt: Receipt = {
        "receipt": RECEIPT_VERSION,
        "strata": __version__,
        "statistics_version": STATS_VERSION,
        "shard": state.name,
        "seqno": state.seqno,
        "as_of": plan.as_of,
        "mode": plan.mode,
        "relation_version": state.relation.version,
        "quarantine": sorted(state.rollout.quarantine),
        "filter": orjson.loads(dump_filter(filter)),
        "batches": batches,
    }
    return {**receipt, "digest": _seal(receipt)}


def write_receipt(path: Path, receipt: Receipt) -> None:
    """Write a receipt to a file, all or nothing.

    Raises: as `written_whole`.
    """
    with written_whole(path, "the receipt") as file:
        file.write(orjson.dumps(receipt, option=orjson.OPT_INDENT_2))


def read_receipt(path: Path) -> Receipt:
    """Return the receipt in a file.

    Raises: InvalidRequest for a file that is not a receipt; Unavailable where the disk fails.
    """
    try:
        return _parsed(limited_bytes(path, BYTES_MAX, "the receipt", RECEIPTS), str(path))
    except OSError as error:
        raise unreadable("the receipt", error, file=str(path), cure=RECEIPTS) from error


def _parsed(data: bytes, source: str) -> Receipt:
    try:
        receipt = orjson.loads(data)
        known = receipt["receipt"] == RECEIPT_VERSION
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _no_receipt(source, error) from error
    if not known:
        raise InvalidRequest(
            "a receipt of another version",
            file=source,
            version=receipt["receipt"],
            known=RECEIPT_VERSION,
            cure="check it with the version of strata that it names",
        )
    found: Receipt = receipt
    return found


def _no_receipt(source: str, error: Exception) -> InvalidRequest:
    return InvalidRequest("not a receipt", file=source, reason=str(error), cure=RECEIPTS)


def keep_receipt(stores: Stores, state: State, filter: Filter) -> str | None:
    """Store the receipt of what a filter skips in `state` beside the verdicts; return its key.

    Returns None if nothing is skipped, or the shard has more than `KEPT_PARTS_MAX` parts. Garbage
    collection keeps receipts as long as verdicts.
    Cost: the filter's columns of every manifest, twice.
    """
    plan = plan_read(stores, state, filter=filter, mode="on")
    if not plan.parts_skipped or plan.parts_total > KEPT_PARTS_MAX:
        return None
    data = gzip.compress(orjson.dumps(issue(stores, state, plan, filter)), mtime=0)
    key = receipt_key(state.name, content_hash(data))
    retry(lambda: stores.blob.set(key, data))
    return key


def kept_receipts(stores: Stores, state: State) -> Iterator[tuple[str, Receipt]]:
    """Yield the receipts that validations of a shard have stored, by key.

    Those of a shard of other columns that had the name before are left out.
    Raises: Corrupt for a receipt whose content contradicts its name.
    """
    shard = state.name
    for info in retry(lambda: list(stores.blob.list(receipt_prefix(shard)))):
        data = retry(partial(stores.blob.get, info.key))
        if data is None:  # swept since the listing
            continue
        if not names_content(info.key, data):
            raise Corrupt("a receipt does not hold what its name says", shard=shard, key=info.key)
        receipt = _parsed(gzip.decompress(data), info.key)
        if _is_about(state, receipt):
            yield info.key, receipt


def _is_about(state: State, receipt: Receipt) -> bool:
    """Return whether the shard had the columns that a receipt's filter reads, at its version."""
    version, filter = receipt["relation_version"], _filter_of(receipt)
    return any(
        relation.version == version and reads_columns_of(relation, filter)
        for relation in state.relations
    )


def _filter_of(receipt: Receipt) -> Filter:
    return load_filter(orjson.dumps(receipt["filter"]).decode())


def replay(
    stores: Stores, state: State, receipt: Receipt, evaluator: Evaluator | None = None
) -> Replay:
    """Make the decision of a receipt again; with an evaluator, look into the skipped parts.

    `state` is the current state: its relations are those of the receipt and later ones.
    Raises: InvalidRequest for a receipt of another shard, or an unreadable one.
    """
    if receipt.get("shard") != state.name:
        raise InvalidRequest(
            "a receipt of another shard", shard=state.name, receipt=receipt.get("shard")
        )
    try:
        body = {k: v for k, v in receipt.items() if k != "digest"}
        altered = receipt.get("digest") != _seal(body)  # TypeError where it is nested too deeply
        filter = _filter_of(receipt)
        work = _Work(stores, state.name, _question(state, receipt, filter), receipt)
        for batch in receipt["batches"]:
            work.again(batch)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise InvalidRequest("a receipt that cannot be read", reason=repr(error)) from error
    looked, matching = work.look_into(evaluator)
    return Replay(
        state.name, filter.sql, receipt["as_of"], work.parts, len(work.skipped), altered,
        tuple(work.differences), tuple(work.unchecked), looked, matching,
        {"then": receipt["strata"], "now": __version__,
         "statistics_then": receipt["statistics_version"], "statistics_now": STATS_VERSION},
    )  # fmt: skip


class _Work:
    """A replay under way."""

    def __init__(self, stores: Stores, shard: str, question: Question, receipt: Receipt) -> None:
        self.stores, self.shard = stores, shard
        self.question, self.filter = question, question.filter
        self.as_of: int = receipt["as_of"]
        self.skipping = receipt["mode"] in SKIPPING
        self.parts = 0
        self.skipped: list[PartRef] = []
        self.differences: list[str] = []
        self.unchecked: list[str] = []

    def again(self, batch: Mapping[str, Any]) -> None:
        """Decide the parts of one batch again and compare."""
        recorded = {key: name for name in ("fetched", "audited", "skipped") for key in batch[name]}
        self.parts += sum(len(batch[name]) for name in ("fetched", "audited", "skipped"))
        lower, upper, since, parts = (batch[n] for n in ("lower", "upper", "since", "parts"))
        stored = Batch(lower, upper, since, parts=parts, manifest=batch["manifest"])
        try:
            manifest = load_manifest_of(self.stores.blob, self.shard, stored)
        except Corrupt as error:
            self.unchecked.append(str(error))
            return
        if _digest(manifest, self.filter) != batch["statistics"]:
            self.differences.append(f"{batch['manifest']}: other statistics than the receipt says")
        manifest = manifest.filter(pc.less_equal(manifest["t_low"], self.as_of))
        gone = set(recorded)
        verdict = judged(self.stores.blob, self.question, manifest)
        for ref, keep in zip(part_refs(manifest), verdict.keep, strict=True):
            was = recorded.get(ref.key, "not there")  # two runs may name the same part
            gone.discard(ref.key)
            # A batch may have been kept for lack of a union that skips; the reverse never happens.
            now = "fetched" if keep or not self.skipping else "skipped"
            if (was == "fetched") != (now == "fetched") or was == "not there":
                self.differences.append(f"{ref.key}: {was} then, {now} now")
            if was in ("audited", "skipped"):
                self.skipped.append(ref)
        self.differences += [
            f"{key}: {recorded[key]} then, not in its manifest" for key in sorted(gone)
        ]

    def look_into(self, evaluator: Evaluator | None) -> tuple[int, tuple[str, ...]]:
        """Return the number of skipped parts read, and those that the filter needs after all."""
        if evaluator is None or not self.skipped:
            return 0, ()
        looked, matching = 0, []
        for found in evaluator(self.filter, self.skipped):
            if found.failed:
                self.unchecked.append(found.failed)
                continue
            looked += 1
            if found.accepted or found.error:
                what = found.error or f"{found.accepted} of {found.rows} rows match"
                matching.append(f"{found.part}: {what}")
        return looked, tuple(matching)


def _question(state: State, receipt: Receipt, filter: Filter) -> Question:
    """Return the question that the receipt answers."""
    relations = state.relations[: receipt["relation_version"] + 1]
    if not relations or relations[-1].version != receipt["relation_version"]:
        raise ValueError(f"relation version {receipt['relation_version']}")
    return Question(filter, tuple(relations), tuple(sorted(receipt["quarantine"])))


def _digest(manifest: pa.Table, filter: Filter) -> str:
    """Return a hash of the statistics that a filter depends on."""
    names = sorted(needed_columns(filter) & set(manifest.column_names))
    table = manifest.select(names).combine_chunks().replace_schema_metadata(None)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return _hash(sink.getvalue())


def _seal(receipt: Mapping[str, Any]) -> str:
    return _hash(orjson.dumps(receipt, option=orjson.OPT_SORT_KEYS))


def _hash(data: bytes | pa.Buffer) -> str:
    """Return the hash that receipts use; it never changes, so that old ones can be replayed."""
    return blake2b(data, digest_size=20).hexdigest()
