"""The certificate of an erasure: what was rewritten and removed, what was searched, what is left.

It names no value of an erased row. Its Bloom filter and salt let people who know a key test it.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import orjson

from strata import __version__
from strata.erase.notes import Total
from strata.erase.prove import Erased, Proof
from strata.errors import Corrupt
from strata.model.time import format_time
from strata.parts.suppressed import KINDS, Suppressed
from strata.state.state import Erasure
from strata.store import keys
from strata.store.named import fields_digest
from strata.store.open import Stores
from strata.store.retry import retry

VERSION: Final = 1
BEYOND: Final = (
    "backups: a restored point brings the rows back; `strata backups TARGET` lists the points, and "
    "`strata backups TARGET --drop POINT` drops one",
    "source files in the landing folders: ingest leaves their erased rows out; delete or rewrite "
    "them there",
    "tables of Delta or Iceberg that were adopted: their own files hold the rows, also those that "
    "parts referred to; delete the rows there",
    "temporary files of writers that died: `strata gc run` removes them a day after their last "
    "write",
    "what was delivered to consumers, in folders and tables: `strata consumers SHARD` names them; "
    "erase the rows there",
    "reports, logs of Airflow and Spark, copies that readers have made, snapshots of disks",
)


def certificate_of(  # noqa: PLR0913, PLR0917  everything that it says
    erasure: Erasure,
    shard: str,
    steps: Sequence[Mapping[str, Any]],
    removed: Total,
    proofs: Sequence[tuple[Proof, Erased]],
    beyond: Sequence[str],
    suppressed: Suppressed,
    ended_ms: int,
) -> dict[str, Any]:
    """Return the certificate. Shape: JSON; `digest` covers all other fields."""
    parts = [
        {**part, "shard": step["shard"], "lower": step["lower"], "upper": step["upper"]}
        for step in steps
        for part in step["parts"]
    ]
    mine = proofs[0][1]
    document = {
        "certificate": VERSION,
        "id": erasure.id,
        "shard": shard,
        "strata": __version__,
        "by": erasure.by,
        "reason": erasure.reason,
        "began_ms": erasure.at_ms,
        "ended_ms": ended_ms,
        "request": erasure.request,
        "rows": sum(part["rows"] for part in parts if part["shard"] == shard),
        "rows_about": sum(part["rows"] for part in parts if part["shard"] != shard),
        "rejected_rows": len(suppressed.of("raw", erasure.id)),
        "collections": removed.collections,
        "rewritten": parts,
        "states_dropped": removed.states,
        "removed": [
            {"what": what, "blobs": blobs, "bytes": size}
            for what, (blobs, size) in sorted(removed.blobs.items())
        ],
        "suppressed": {kind: len(suppressed.of(kind, erasure.id)) for kind in KINDS},
        "proof": [proof.to_json() for proof, _ in proofs],
        "bloom": {**mine.bloom.to_json(), "salt": str(suppressed.salt)},
        "not_reached": [*BEYOND, *beyond],
        "complete": not any(proof.left for proof, _ in proofs),
    }
    return {**document, "digest": fields_digest(document)}


def store_certificate(stores: Stores, shard: str, erasure: str, document: Mapping[str, Any]) -> str:
    """Store a certificate and return its key."""
    key = keys.erasure_key(shard, erasure)
    data = orjson.dumps(document, option=orjson.OPT_INDENT_2)
    retry(partial(stores.blob.set, key, data))
    return key


def known_certificate(stores: Stores, shard: str, erasure: str) -> dict[str, Any] | None:
    """Return the certificate of an erasure; None: there is none yet.

    Raises: Corrupt when it is not what was issued.
    """
    data = retry(partial(stores.blob.get, keys.erasure_key(shard, erasure)))
    if data is None:
        return None
    try:
        found: dict[str, Any] = orjson.loads(data)
        whole = found["digest"] == fields_digest(found)
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise Corrupt("a certificate is damaged", shard=shard, id=erasure) from error
    if not whole or (found.get("id"), found.get("shard")) != (erasure, shard):
        raise Corrupt("a certificate is not what was issued", shard=shard, id=erasure)
    return found


def certificates(stores: Stores, shard: str) -> list[dict[str, Any]]:
    """Return the certificates of a shard, oldest first. Raises: as `known_certificate`."""
    prefix = keys.erasure_prefix(shard)
    listed = retry(lambda: [info.key.removeprefix(prefix) for info in stores.blob.list(prefix)])
    ids = sorted(name.removesuffix(".json") for name in listed if "/" not in name)
    found = (known_certificate(stores, shard, id) for id in ids)
    return [one for one in found if one is not None]


def as_text(document: Mapping[str, Any]) -> str:
    """Return a certificate for people."""
    lines = [
        f"# Certificate of erasure {document['id']}",
        "",
        f"Shard `{document['shard']}`, by {document['by']}: {document['reason']}",
        f"Begun {format_time(document['began_ms'])}, ended {format_time(document['ended_ms'])}.",
        "",
        f"* {document['rows']:,} rows left the shard, {document['rows_about']:,} left the shards "
        f"about it, {document['rejected_rows']:,} rejected source rows are gone.",
        f"* {len(document['rewritten']):,} parts were rewritten; {document['states_dropped']:,} "
        "older states were dropped.",
        *(
            f"* removed: {one['blobs']:,} {one['what']}, {one['bytes']:,} bytes"
            for one in document["removed"]
        ),
        "* ingest leaves out from now on: "
        + ", ".join(f"{count:,} by {kind}" for kind, count in document["suppressed"].items()),
        "",
        "## Proof",
        "",
    ]
    for proof in document["proof"]:
        lines.append(
            f"* `{proof['shard']}` as of state {proof['seqno']}: {proof['rows']:,} rows of "
            f"{proof['parts']:,} parts read, {proof['matching']:,} match; {proof['bloom_hits']:,} "
            f"pass the Bloom filter, {proof['hash_hits']:,} are erased rows; {proof['blobs']:,} "
            f"other blobs and {proof['states']:,} states searched, {proof['left_places']:,} "
            "mention a term."
        )
        lines += [f"    * {place}" for place in proof["left"]]
    lines += ["", "## Not reached", "", *(f"* {one}" for one in document["not_reached"])]
    whole = "complete" if document["complete"] else "NOT complete: see the places under Proof"
    return "\n".join([*lines, "", f"This erasure is {whole}. Digest: {document['digest']}", ""])
