"""Mutants of sources that survive for a reason, by what they change; see `tests/mutants`."""

from collections.abc import Mapping
from typing import Final

_SPEED: Final = "the result is the same, only slower"
_WIDER: Final = "the range is only wider, and not by much"
_WARM: Final = "the same kernels are compiled for the same types"
_FIRST_DAY: Final = "both lie before the first day"
_PIECE: Final = "whichever piece of a blob is asked for, there is one if the blob is there"
_HELD: Final = "how many keys are kept by name decides nothing"
_AS_KEPT: Final = "a key is looked for by its name or by its number, just as it was kept"
_MOMENT: Final = "of what is of that very millisecond either is right"
_ANY_VALUE: Final = "one value of a type stands for all of them"
_LONGER: Final = "how much longer than needed something is kept decides nothing"
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
        "strata.stats.worth", "worth_of", "stats is None or not stats.num_rows", "stats is None",
    ): "the weights of statistics without a part are all 0",
    (
        "strata.ingest.quarantine", "_append",
        "if machine.committed(name, token) is not None: break", "pass",
    ): f"{_SPEED}: rows are written again, and the commit of a token that is known adds nothing",
    (
        "strata.ingest.values.zones", "same_zone",
        "if values.type.tz is None: return values.cast(pa.int64()).cast(pa.timestamp("
        "values.type.u…",
        "pass",
    ): "a time without a zone goes through UTC and back, and the cast behind it gives it UTC",
    ("strata.compact.keep", "Chunks.__init__", "1", "2"): (
        "it matters to one task alone, and what a last task has written is never kept"
    ),
    ("strata.compact.tasks", "", "1024", "1025"): (
        "how many bytes of small row groups are fetched together changes no row"
    ),
    (
        "strata.compact.tasks", "_cut_between",
        "sum((ref.size_bytes for ref in every)) <= slice_bytes",
        "sum((ref.size_bytes for ref in every)) < slice_bytes",
    ): f"{_SPEED}: what just fills a slice is not cut",
    (
        "strata.compact.tasks", "_cut_between",
        "if sum((ref.size_bytes for ref in every)) <= slice_bytes: return [between]", "pass",
    ): f"{_SPEED}: what fits a slice is not cut, after a look at all of its row groups",
    ("strata.compact.tasks", "_stretches", "low or b''", "low"): (
        "only the last edge is None, and no stretch begins there"
    ),
    (
        "strata.compact.tasks", "merged_rows", "PLAIN_OPTIONS if huge else SPILL_OPTIONS",
        "SPILL_OPTIONS if huge else PLAIN_OPTIONS",
    ): "files for a while hold the same rows, compressed or not; only memory would show it",
    (
        "strata.compact.tasks", "merged_rows",
        "fan_in = max(fan_in, budget // 2 // (GROUP_COPIES * SPILL_BATCH_BYTES))", "pass",
    ): f"{_SPEED}: fewer runs are merged at once, in more rounds",
    ("strata.stats.members", "_Place.add", "len(self.hashes) > 64", "len(self.hashes) >= 64"): (
        "hashes of many batches are joined one batch earlier"
    ),
    (
        "strata.stats.trim", "fit_pairs", "(cost := _bits(array)) <= room",
        "(cost := _bits(array)) < room",
    ): f"{_WIDER}: a pair that would fill the budget to its last bit is left out",
    ("strata.updates.arrange", "_Word.push", "True", "False"): (
        f"{_SPEED}: values that are all null are sorted once more, and stay where they are"
    ),
    (
        "strata.updates.consolidate", "consolidate",
        "if len(starts) == table.num_rows: return table if diffs.all() else "
        "table.filter(pa.array(…",
        "pass",
    ): f"{_SPEED}: where no rows are equal, each is a sum of its own",
    (
        "strata.updates.gather", "_width", "pa.types.is_string(kind) or pa.types.is_binary(kind)",
        "pa.types.is_binary(kind)",
    ): f"{_SPEED}: texts are gathered as values of other types are",
    ("strata.updates.merge", "_Head.take", "not self.visible", "self.visible"): (
        f"{_SPEED}: the last row is looked up again; a head that is filled anew forgets it anyway"
    ),
    (
        "strata.updates.resident", "Resident.settle",
        "grown > max(NEAR * self._limit, self._left + GROWN * self._limit)",
        "grown >= max(NEAR * self._limit, self._left + GROWN * self._limit)",
    ): "memory is given back a byte earlier",
    ("strata.updates.row", "_cell", "0", "1"): (
        "all values of a nested column have it, and null is still behind them"
    ),
    (
        "strata.decide.cases", "_numbers", "if place.form != wanted: return old", "pass",
    ): "the form and Spark's type both follow from today's declaration, and no type has two that "
    "differ",
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
    (
        "strata.ingest.twin.exact", "as_numeric",
        "number.digits and (-number.exponent > scale or number.size > precision - scale)",
        "-number.exponent > scale or number.size > precision - scale",
    ): "zero has no digits and no exponent, and no type has more places than digits",
    (
        "strata.ingest.verify", "_chosen", "drawn % 2 ** 64 * FRACTION < how.share",
        "drawn % 2 ** 64 * FRACTION <= how.share",
    ): "they differ where a hash is the share to its last bit, which one in 2**53 is",
    (
        "strata.ingest.write", "", "2", "3",
    ): "how many threads settle an upsert changes no row",
    ("strata.updates.slices", "_rows_before", "1", "2"): (
        "of two rows, both are compared in any case"
    ),
    ("strata.updates.warm", "warm", "1", "2"): _WARM,
    ("strata.updates.warm", "warm", "True", "False"): _WARM,
    ("strata.expr.functions.points", "_sharpened", "1", "2"): (
        "the condition behind it says that there are two or more"
    ),
    (
        "strata.decide.differences", "PairInterpreter._ratio",
        "np.isfinite(pair.ratio_low) & np.isfinite(pair.ratio_high)",
        "np.isfinite(pair.ratio_low) | np.isfinite(pair.ratio_high)",
    ): "the room for rounding is infinite where one end is, so that any number remains",
    ("strata.decide.members", "_as_bytes", "value + 0.0", "value - 0.0"): (
        "its callers have made 0.0 of -0.0 before"
    ),
    (
        "strata.decide.read_plan", "ReadPlan.steps", "parts <= size", "parts < size",
    ): "the slice of all parts is all parts",
    (
        "strata.decide.terms", "_moved", "abs(moved) > FURTHEST", "abs(moved) >= FURTHEST",
    ): f"{_WIDER}: a constant of exactly 2**60 is not used",
    ("strata.decide.blooms", "", "1024", "1025"): (
        "how many bytes of filters wait for their turn changes no verdict"
    ),
    ("strata.decide.explain", "", "2000", "2001"): (
        "it bounds how long an answer takes; a test sets another bound"
    ),
    ("strata.decide.fields", "_physical", "False", "True"): (
        "what is under a null is arbitrary, and its readers mask it"
    ),
    ("strata.decide.ranges", "ranged", "False", "True"): f"{_SPEED}: each column is copied",
    ("strata.decide.reasons", "_possible", "False", "True"): (
        "of what has no rule, nobody asks whether it may fail"
    ),
    ("strata.decide.row_groups", "_columns_alike", "1", "2"): "both are versions of no relation",
    (
        "strata.decide.row_groups", "_tightened", "lows is None or highs is None", "highs is None",
    ): "both are of one type, and only the type decides whether keys are decoded",
    (
        "strata.decide.specs", "View._count",
        "field is None or field.values is None or (not pa.types.is_int64(field.type))",
        "field is None or not pa.types.is_int64(field.type)",
    ): "a field of int64 has its numbers",
    ("strata.format.batch_read", "has_one_batch", "True", "False"): (
        f"{_SPEED}: Arrow's own reader counts the batches"
    ),
    (
        "strata.format.part", "_in_dictionaries", "size <= CODED_BYTES", "size < CODED_BYTES",
    ): "the rows are the same: one dictionary more comes as texts",
    (
        "strata.format.part_write", "_one",
        "column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()",
        "column.combine_chunks() if column.num_chunks == 1 else column.chunk(0)",
    ): f"{_SPEED}: its callers have one chunk of each column, which is copied",
    (
        "strata.format.rowcodec.encode", "_decimal", "column_type.scale or 0", "column_type.scale",
    ): "a numeric with a precision has a scale",
    ("strata.format.rowcodec.warm", "warm", "1", "2"): _WARM,
    (
        "strata.format.splice", "_zeros", "(rows * kind.bit_width + 7) // 8",
        "(rows * kind.bit_width + 7) * 8",
    ): "a longer buffer of zeros holds the same values",
    (
        "strata.format.values.packed", "_digit_matrix",
        "if not len(texts): return np.zeros((0, MAX_DIGITS), np.uint8)", "pass",
    ): "Arrow pads no texts to an empty buffer, in which there is no digit either",
    ("strata.format.values.sortable", "_body", "len(children) > 1", "len(children) >= 1"): (
        f"{_SPEED}: what is joined with nothing is copied"
    ),
    ("strata.model.loaded", "Loaded.replaced", "now >= self._due", "now > self._due"): (
        "a look comes a tick of the clock later"
    ),
    ("strata.model.near", "", "12", "13"): (
        "how many names an error lists decides nothing"
    ),
    ("strata.parts.fetch", "BlobFile._range", "start < tail_start", "start <= tail_start"): (
        f"{_SPEED}: a range that begins where the tail does is fetched alone, and the tail again"
    ),
    ("strata.parts.fetch", "part_batches", "del batch", "pass"): (
        "the rows are the same; only memory would show it"
    ),
    ("strata.parts.unions", "stats_of", "min", "max"): (
        "how many threads ask for unions changes none of them"
    ),
    ("strata.plain.weaker", "_Weaker._checked", "0", "1"): (
        "no text that is written there depends on the clock"
    ),
    ("strata.read.bucket_sink", "ParquetBucket.take", "self._tidy = True", "pass"): (
        f"{_SPEED}: what dead programs have left is looked for with each delivery"
    ),
    (
        "strata.read.value_order", "ValueSums.add", "self._rows > HELD_ROWS",
        "self._rows >= HELD_ROWS",
    ): "values are added up one row earlier",
    ("strata.rollout.ladder", "approve", "1", "2"): _FIRST_DAY,
    ("strata.rollout.ladder", "_lowered", "1", "2"): _FIRST_DAY,
    ("strata.rollout.evidence", "add", "True", "False"): (
        "evidence without a part has no part to count as repeated, and the next line marks it"
    ),
    ("strata.gc.live", "live_keys", "len(many) < len(some)", "len(many) <= len(some)"): (
        "no key is added where all are of parts and filters"
    ),
    (
        "strata.gc.live", "_is_many", "_PART in key or _BLOOM in key",
        "_PART in key and _BLOOM in key",
    ): _AS_KEPT,
    ("strata.gc.reach", "all_named", "read.add(key)", "pass"): (
        f"{_SPEED}: each manifest is read twice"
    ),
    ("strata.gc.sweep", "SweepReport.to_json", "0", "1"): (
        "of a pair that stands for nothing only the half that is asked for counts"
    ),
    (
        "strata.gc.sweep", "_look_again", "if head.seqno == before.head.seqno: return", "pass",
    ): f"{_SPEED}: the same state names no dead blob",
    ("strata.gc.sweep", "_judged", "found.missing <= 0", "found.missing < 0"): (
        f"{_SPEED}: what is set aside is listed, and nothing that is named is among it"
    ),
    ("strata.gc.verdicts", "Judge._newest_generation", "True", "False"): (
        "it is asked of a shard that is there; one dropped just then fails and is swept again"
    ),
    (
        "strata.gc.verdicts", "Judge._rejects", "fate is Fate.DEAD and token in self._tokens",
        "token in self._tokens",
    ): f"{_SPEED}: tokens are read for young rows too, which stay in any case",
    ("strata.gc.leaks", "_looked_at.look", "True", "False"): (
        f"{_SPEED}: each blob that the state names is asked for by its name"
    ),
    ("strata.gc.leaks", "_missing", "0", "1"): _PIECE,
    ("strata.gc.leaks", "_missing", "1", "2"): _PIECE,
    ("strata.gc.live", "", "262144", "262145"): _HELD,
    ("strata.gc.live", "", "8192", "8193"): _HELD,
    (
        "strata.gc.live", "LiveNumbers.__contains__",
        "isinstance(key, str) and bool(self.are_live([key])[0])",
        "bool(self.are_live([key])[0])",
    ): "only texts are looked for",
    ("strata.gc.live", "live_keys", "del exact", "pass"): (
        "the keys are the same; only memory would show it"
    ),
    (
        "strata.gc.live", "_is_many", "_PART in key or _BLOOM in key", "_BLOOM in key",
    ): _AS_KEPT,
    ("strata.gc.live", "_is_many", "_PART in key or _BLOOM in key", "_PART in key"): _AS_KEPT,
    ("strata.gc.live", "_is_many", "_PART in key", "_PART not in key"): _AS_KEPT,
    ("strata.gc.live", "_is_many", "_BLOOM in key", "_BLOOM not in key"): _AS_KEPT,
    ("strata.gc.reach", "Reach", "0", "1"): "a survey counts them before anybody asks",
    ("strata.gc.reach", "_holders", "0", "1"): _FIRST_DAY,
    ("strata.gc.sweep", "", "5", "6"): (
        "how often a sweep looks again beside an erasure decides no verdict"
    ),
    ("strata.gc.sweep", "_begin_for_dropped", "0", "1"): "nobody asks for what it returns",
    (
        "strata.gc.sweep", "_judged",
        "found.missing <= 0 or not (back := brought_back(machine, name))",
        "not (back := brought_back(machine, name))",
    ): f"{_SPEED}: what is set aside is listed, and nothing that is named is among it",
    ("strata.gc.sweep", "survey", "missing -= is_live", "pass"): (
        f"{_SPEED}: what is set aside is listed, and nothing that is named is among it"
    ),
    (
        "strata.gc.verdicts", "Judge._newest_generation", "seen > head.generation",
        "seen >= head.generation",
    ): f"{_SPEED}: the state is loaded again",
    (
        "strata.gc.verdicts", "Judge._is_lost", "commit.seqno > head.seqno",
        "commit.seqno >= head.seqno",
    ): "the newest commit is never among the old ones that are moved to a blob",
    ("strata.rollout.basis", "_seal", "2", "3"): (
        f"{_SPEED}: each correction of Python parses the files once more"
    ),
    ("strata.machine.machine", "", "2048", "2049"): _LONGER,
    ("strata.machine.machine", "", "64", "65"): (
        "how many states are read at a time changes none of them"
    ),
    ("strata.machine.reader_hold", "", "60000", "60001"): _LONGER,
    ("strata.machine.machine", "Machine.states", "0", "1"): "the first state is number 1",
    ("strata.machine.machine", "Machine.states_before", "seqno - low", "seqno + low"): (
        f"{_SPEED}: states that were not asked for are read, and left out"
    ),
    (
        "strata.machine.machine", "Machine.forget", "below > FIRST_SEQNO", "below >= FIRST_SEQNO",
    ): f"{_SPEED}: nothing lies before the first state",
    (
        "strata.machine.named", "_all_below", "f'/{BlobKind.PAGE}/' not in key or key in known",
        "f'/{BlobKind.PAGE}/' not in key",
    ): f"{_SPEED}: pages whose names are known are read again",
    ("strata.state.codec", "_document", "written > FORMAT", "written >= FORMAT"): (
        "a document of this format was returned before"
    ),
    ("strata.state.rows", "_spec_by_place", "all", "any"): (
        "a declaration has each column of its key and of its order"
    ),
    (
        "strata.state.rows", "_pieces", "len(_PIECES) > _PIECES_MAX",
        "len(_PIECES) >= _PIECES_MAX",
    ): f"{_SPEED}: the cache is emptied a value earlier",
    ("strata.state.schema", "_widened", "check_defaults(spec.name, wide)", "pass"): (
        "what a type holds a wider one holds, and the next line compares the two"
    ),
    (
        "strata.state.seal", "begins_with",
        "data.startswith(_HEAD) and data.startswith(field, _START)",
        "data.startswith(field, _START)",
    ): "what has no digest is not sealed, which is asked next",
    (
        "strata.erase.parts", "others_of_keys",
        "source.relation.key or tuple(source.relation.by_id)",
        "source.relation.key and tuple(source.relation.by_id)",
    ): f"{_SPEED}: all columns are read for the words of the key",
    ("strata.erase.prove", "look_at", "False", "True"): "threads read the same rows",
    ("strata.erase.spellings", "_spellings", "-len(one)", "len(one)"): (
        "the search tries each spelling in any order"
    ),
    (
        "strata.erase.spellings", "_spellings", "if form.isascii() and form.isalnum(): continue",
        "pass",
    ): "a spelling more is found, which nobody writes",
    ("strata.state.generations", "", "7", "8"): _LONGER,
    ("strata.state.generations", "", "86400000", "86400001"): _LONGER,
    ("strata.state.generations", "begin_sweep", "1", "2"): _FIRST_DAY,
    ("strata.state.tombstone", "revive", "0", "1"): "the first column of a relation is number 1",
    ("strata.state.tombstone", "revive", "1", "2"): _FIRST_DAY,
    ("strata.state.tombstone", "bring_back", "1", "2"): _FIRST_DAY,
    ("strata.state.erasing", "close", "1", "2"): _FIRST_DAY,
    ("strata.state.transitions", "create", "1", "2"): _FIRST_DAY,
    ("strata.state.holds", "renew", "wanted > state.upper", "wanted >= state.upper"): (
        "upper itself may be held"
    ),
    ("strata.state.transitions", "", "128", "129"): (
        "how many commits a state keeps decides nothing: a blob has the others"
    ),
    ("strata.machine.heartbeat", "beating.beat", "1000", "1001"): "a beat comes a little earlier",
    ("strata.machine.heartbeat", "beating", "True", "False"): (
        "the thread ends with its block in any case"
    ),
    (
        "strata.machine.reader_hold", "held_state",
        "settings.hold_ms <= 0 or _covered(state, stores.clock(), settings.hold_ms)",
        "settings.hold_ms <= 0",
    ): f"{_SPEED}: what takes a hold looks for a shared one, too",
    ("strata.machine.reader_hold", "held_state", "0", "1"): "nobody reads for a millisecond",
    ("strata.machine.reader_hold", "reading", "0", "1"): "nobody reads for a millisecond",
    ("strata.machine.reader_hold", "kept", "0", "1"): "nobody reads for a millisecond",
    ("strata.machine.reader_hold", "_Own.__init__", "False", "True"): (
        f"{_SPEED}: what was never taken is not there to be released"
    ),
    ("strata.machine.reader_hold", "", "15", "16"): _LONGER,
    ("strata.machine.reader_hold", "", "30", "31"): _LONGER,
    ("strata.machine.reader_hold", "", "86400000", "86400001"): _LONGER,
    (
        "strata.updates.overlaps", "Overlaps.of",
        "ref.key not in known or self._has(ref, within)", "self._has(ref, within)",
    ): f"{_SPEED}: a part that begins in a slice has a row group there",
    (
        "strata.updates.slices", "columns_alike",
        "ours != theirs or mine is None or mine.type != relation.by_id[ours].type",
        "ours != theirs or mine.type != relation.by_id[ours].type",
    ): "a part is sorted by columns that it has",
    (
        "strata.compact.tasks", "_lies_in", "ref.key_low >= stretch.low",
        "ref.key_low > stretch.low",
    ): f"{_SPEED}: a part that could stay is written again",
    (
        "strata.compact.run", "_prepare",
        "if large.unchanged: return _Prepared(state, request, (), _moved(request), writer=writer)",
        "pass",
    ): f"{_SPEED}: a run that could stay is merged alone",
    (
        "strata.store.disk", "DiskBlob.purge", "info.modified_ms < until_ms",
        "info.modified_ms <= until_ms",
    ): _MOMENT,
    (
        "strata.store.group_sync", "GroupSync.__init__",
        "os.posix_fallocate(self._file, 0, size)", "pass",
    ): "only a full disk would show it",
    (
        "strata.store.group_sync", "GroupSync._opened", "os.O_RDWR | os.O_CLOEXEC",
        "os.O_RDWR & os.O_CLOEXEC",
    ): "Linux syncs a file that is open for reading, and Python lets no program inherit one",
    (
        "strata.store.reference", "ReferringBlob._known",
        "data is not None and len(data) == HEAD_BYTES and data.startswith(MARK)",
        "data is not None and data.startswith(MARK)",
    ): f"{_SPEED}: a short reference is read twice",
    (
        "strata.backup.drop", "_refuse", "now_ms - info.modified_ms < ABANDONED_MS",
        "now_ms - info.modified_ms <= ABANDONED_MS",
    ): _MOMENT,
    (
        "strata.backup.save", "_added", "stores.clock() - at_ms >= ABANDONED_MS",
        "stores.clock() - at_ms > ABANDONED_MS",
    ): _MOMENT,
    ("strata.sums.ends", "EndsFold.folded", "count > 0", "count >= 0"): (
        f"{_SPEED}: what is new and not there makes its group be counted"
    ),
    (
        "strata.sums.ends", "EndsFold.folded",
        "now is not None and column.get(now, 0) < 0 and (known[now] <= 0)",
        "column.get(now, 0) < 0 and known[now] <= 0",
    ): "null is no value, so that no change has any",
    ("strata.sums.ends", "EndsFold.counted", "0", "1"): (
        f"{_SPEED}: the end is sought among all values, once more than is needed"
    ),
    (
        "strata.sums.run", "_Work._certain",
        "not self.table.valued or self.target.upper == MIN_TIME",
        "self.target.upper == MIN_TIME",
    ): f"{_SPEED}: the source is asked, and nothing follows from its answer",
    ("strata.sums.table", "SumsTable.few", "len(values) <= FEW", "len(values) < FEW"): (
        f"{_SPEED}: one value fewer is named"
    ),
    ("strata.sums.table", "SumsTable.of", "name.lower", "name.upper"): (
        "names that differ in case alone are alike either way"
    ),
    ("strata.sums.target", "check_target", "1", "2"): "the newest commit comes first",
    ("strata.publish.iceberg", "Publication._attempt", "62", "63"): (
        "one number in 2**63 would be too great"
    ),
    (
        "strata.publish.manifests", "make_manifests", "manifest.added_files_count or 0",
        "manifest.added_files_count",
    ): "each list of files that is written here has its counts",
    ("strata.publish.place", "_Output.__init__", "0", "1"): (
        "nobody asks for the size of a file that is not written yet"
    ),
    ("strata.decide.early", "PartBlocks.__init__", "False", "True"): (
        f"{_SPEED}: no call of the conjunct is replaced by what it yields everywhere"
    ),
    ("strata.decide.early", "beyond", "ends[1] - ends[0]", "ends[1] + ends[0]"): (
        f"{_SPEED}: texts that begin behind others in memory are left to the interpreter"
    ),
    (
        "strata.decide.early", "with_constants", "always.all() and (not never.any())",
        "not never.any()",
    ): "what may be neither true nor false, neither null nor an error, is on no row",
    ("strata.decide.skips", "Skips._sampled", "100", "101"): "a share of 100 is all parts",
    ("strata.audit.batches", "_union", "if actual is None: return", "pass"): (
        "where each part has statistics, there is a union of them"
    ),
    ("strata.audit.format", "share_of", "percent >= 100", "percent > 100"): (
        f"{_SPEED}: each part is drawn for a share of 100"
    ),
    (
        "strata.audit.receipts", "keep_receipt", "plan.parts_total > KEPT_PARTS_MAX",
        "plan.parts_total >= KEPT_PARTS_MAX",
    ): "how many parts a kept receipt has decides nothing",
    ("strata.audit.run", "_record", "RACES - 1", "RACES"): "one attempt more",
    ("strata.audit.escape", "_escapes", "occupied(spec.values).any", "occupied(spec.values).all"): (
        "there is one part"
    ),
    ("strata.audit.pages", "index_findings.below", "1", "2"): (
        "of two rows of an index the first one is compared"
    ),
    ("strata.adopt.columns", "_sample", "0", "1"): _ANY_VALUE,
    ("strata.adopt.columns", "_sample", "False", "True"): _ANY_VALUE,
    ("strata.adopt.delta", "DeltaPeer.overtaken", "ahead > 0", "ahead >= 0"): (
        f"{_SPEED}: the version that the shard holds is loaded again, and compared as well"
    ),
    ("strata.adopt.record", "standing_of", "MIN_TIME - 1", "MIN_TIME"): (
        "no commit with rows ends with the least time"
    ),
    (
        "strata.backup.save", "back_up", "stores.clock() - at_ms >= ABANDONED_MS",
        "stores.clock() - at_ms > ABANDONED_MS",
    ): _MOMENT,
    ("strata.backup.save", "", "16", "17"): "one look more before it gives up",
    ("strata.store.interface", "Blob.get", "0", "1"): (
        "what a protocol has as a default is for types alone"
    ),
    ("strata.updates.warm", "_digested", "1", "2"): _WARM,
    ("strata.ingest.readers.csv_lines", "warm", "True", "False"): _WARM,
    ("strata.machine.ledger", "", "16", "17"): "how many keys a level has decides nothing",
    (
        "strata.ingest.values.zones", "timestamptz_of",
        "if first.true_count: return Cast(texts.cast(goal), NONE_BAD)", "pass",
    ): f"{_SPEED}: where the first text has a zone, each is looked at",
    ("strata.erase.notes", "forget_undone", "if not steps: return", "pass"): (
        f"{_SPEED}: states that have nothing more to say are read"
    ),
    ("strata.config.environment", "check_stores", "0", "1"): _PIECE,
    ("strata.history.journal", "_append", "True", "False"): (
        f"{_SPEED}: the next attempt finds the token that this one has committed"
    ),
    ("strata.history.usage", "fold", "continue", "break"): (
        "days are listed in order, and none behind today is past"
    ),
    ("strata.history.usage", "tell", "if not metrics.wanted: return", "pass"): (
        f"{_SPEED}: figures are added up that nobody receives"
    ),
    ("strata.history.usage", "_slot", "8", "9"): "any hash spreads filters over the slots",
    ("strata.history.usage_blobs", "", "16", "17"): (
        "how many entries are read one by one decides nothing"
    ),
    (
        "strata.jobs.pulse", "Pulse.beating.beat", "self._heard + every", "self._heard - every",
    ): f"{_SPEED}: it looks more often whether a line is due",
    ("strata.jobs.runner", "", "20", "21"): (
        "how much the driver works on before workers are there changes no result"
    ),
    (
        "strata.decide.descent", "narrowed_ahead.narrowed", "step.batch.parts > PIECE_PARTS",
        "step.batch.parts >= PIECE_PARTS",
    ): f"{_SPEED}: a manifest of exactly that size is opened ahead",
    ("strata.decide.differences", "_difference", "low >= INT32[0]", "low > INT32[0]"): (
        f"{_WIDER}: of dates that lie 2**31 days apart nothing is said"
    ),
    (
        "strata.read.changes", "Stretch.within", "self.lower <= ends['min']",
        "self.lower < ends['min']",
    ): f"{_SPEED}: each row is looked at, and stays",
    (
        "strata.format.values.migrate", "_numeric_not_wider", "old.precision <= new.precision",
        "old.precision < new.precision",
    ): "types that are alike are known to be so before",
}  # fmt: skip
