"""Texts as codes are the same texts: whatever is found or written of them does not tell."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from strata.format.columns import updates_schema
from strata.format.layout import Description
from strata.format.part_write import encode_part
from strata.format.values.coded import (
    CODE,
    alike,
    are_within,
    canonical,
    codes,
    decoded,
    is_coded,
    is_text,
    ranks,
    text_ends,
    texts_of,
)
from strata.format.values.physical import pack_mask
from strata.format.weigh import Weighed, plain_sizes
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.parts.part_facts import Observed, PartFacts
from strata.updates.merge import merge
from strata.updates.order import encode_keys, sort_updates
from tests.support.updates import relations, split, updates

TEXT = Column(1, "text", parse_type("string"))
BYTES = Column(9, "bytes", parse_type("bytes"))
INT = parse_type("int64")
DESCRIPTION = Description(0, 100, 0)


@st.composite
def with_texts(draw: st.DrawFn) -> Relation:
    """Draw a relation that has a text in its key and bytes in its value, or the other way round.

    Without floats: Arrow says of tables with NaN that they differ.
    """
    other = draw(relations(max_columns=2))
    types = [INT if "float" in str(c.type) else c.type for c in other.columns]
    columns = (TEXT, *(Column(i, f"c{i}", kind) for i, kind in enumerate(types, 2)), BYTES)
    ids = [column.id for column in columns]
    key = draw(st.permutations([1, 9]))[:1]
    order = draw(st.permutations(ids))[: draw(st.integers(0, len(ids)))]
    return Relation(0, columns, tuple(key), tuple(order))


@st.composite
def codings(draw: st.DrawFn, rows: pa.Table, always: bool = False) -> pa.Table:
    """Draw dictionaries for the texts of a table: in any order, with more than there is, or twice.

    Some columns stay plain, unless `always`.
    """
    for i, field in enumerate(rows.schema):
        if is_text(field.type) and (always or draw(st.booleans())):
            rows = rows.set_column(i, field.name, _coded(draw, rows.column(i).combine_chunks()))
    return rows


def _coded(draw: st.DrawFn, texts: pa.Array) -> pa.DictionaryArray:
    known = sorted({text for text in texts.to_pylist() if text is not None})
    more = ["zzz", "a"] if pa.types.is_string(texts.type) else [b"zzz", b"a"]
    values = draw(st.permutations([*known, *draw(st.lists(st.sampled_from([*known, *more])))]))
    places: dict[object, list[int]] = {}
    for place, value in enumerate(values):
        places.setdefault(value, []).append(place)
    found = [None if t is None else draw(st.sampled_from(places[t])) for t in texts.to_pylist()]
    before = draw(st.integers(0, 9))  # an offset, as of a slice
    indices = pa.array([*[None] * before, *found], CODE)
    made = pa.DictionaryArray.from_arrays(indices, pa.array(values, texts.type))
    return made.slice(before)


def plain(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Return tables as one, decoded."""
    return pa.concat_tables([schema.empty_table(), *map(decoded, tables)]).combine_chunks()


@given(st.data())
def test_codes_are_weighed_and_observed_as_the_texts_that_they_stand_for(
    data: st.DataObject,
) -> None:
    relation = data.draw(with_texts())
    rows = sort_updates(data.draw(updates(relation).filter(lambda u: u.num_rows)), relation)
    coded = data.draw(codings(rows))
    ends = np.arange(rows.num_rows + 1)

    assert decoded(coded).equals(rows)
    assert Weighed(coded).bits(ends).tolist() == Weighed(rows).bits(ends).tolist()
    assert plain_sizes(coded, ends).tolist() == plain_sizes(rows, ends).tolist()
    assert encode_keys(coded, relation).equals(encode_keys(rows, relation))
    assert _observed(coded, relation) == _observed(rows, relation)


def _observed(rows: pa.Table, relation: Relation) -> PartFacts:
    observed = Observed(relation, 1, stats=True)
    observed.add(rows, 1)
    return observed.finish()


@given(st.data(), st.sampled_from(["structured", "both", "row"]), st.booleans())
def test_a_part_of_codes_has_the_bytes_of_one_of_texts(
    data: st.DataObject, layout: str, many: bool
) -> None:
    relation = data.draw(with_texts())
    rows = sort_updates(data.draw(updates(relation)), relation)
    if many:  # so that texts are few, and written as codes
        rows = sort_updates(pa.concat_tables([rows] * 30), relation)
    coded = data.draw(codings(rows, always=many))

    def part(table: pa.Table) -> bytes:
        return encode_part(
            table, relation, layout, description=DESCRIPTION, row_group_bytes=2_000
        ).data

    assert part(coded) == part(rows)


@given(st.data())
def test_runs_of_codes_are_merged_into_what_runs_of_texts_are(data: st.DataObject) -> None:
    relation, schema = (relation := data.draw(with_texts())), updates_schema(relation)
    runs = [
        sort_updates(data.draw(updates(relation)), relation)
        for _ in range(data.draw(st.integers(1, 4)))
    ]
    cuts = data.draw(st.lists(st.integers(0, 50), max_size=4))
    pieces = [[pa.Table.from_batches([batch]) for batch in split(run, cuts)] for run in runs]
    coded = [[data.draw(codings(piece)) for piece in run] for run in pieces]
    options = {
        "since": data.draw(st.integers(0, 5)),
        "memory_bytes": data.draw(st.integers(1, 9_999)),
    }

    texts = plain(list(merge(pieces, relation, **options)), schema)
    assert plain(list(merge(coded, relation, **options)), schema).equals(texts)


@given(st.data())
def test_what_is_coded_everywhere_comes_out_coded(data: st.DataObject) -> None:
    relation = data.draw(with_texts())
    rows = sort_updates(data.draw(updates(relation).filter(lambda u: u.num_rows)), relation)
    runs = [[data.draw(codings(rows, always=True))] for _ in range(3)]

    for chunk in merge(runs, relation):
        assert [is_coded(kind) for kind in chunk.schema.types] == [
            is_text(kind) for kind in updates_schema(relation).types
        ]


@given(st.data())
def test_canonical_codes_do_not_tell_where_they_come_from(data: st.DataObject) -> None:
    relation = Relation(0, (TEXT,), (1,), ())
    texts = data.draw(updates(relation)).column(0).combine_chunks()
    coded = data.draw(codings(pa.table({"1": texts}), always=True)).column(0).chunk(0)

    made, known = canonical(coded), [text for text in texts.to_pylist() if text is not None]

    assert made.equals(canonical(texts))
    assert made.to_pylist() == coded.to_pylist() == texts.to_pylist()
    assert made.dictionary.to_pylist() == list(dict.fromkeys(known))
    assert set(texts_of(coded).to_pylist()) == set(known)
    assert np.diff(text_ends(coded)).tolist() == [
        len((t or "").encode()) for t in texts.to_pylist()
    ]
    sorts = [
        (text.encode(), rank)
        for text, rank in zip(coded.to_pylist(), ranks(coded).tolist(), strict=True)
        if text is not None
    ]
    assert [t for t, _ in sorted(sorts)] == [t for t, _ in sorted(sorts, key=lambda s: s[1])]
    assert len({text for text, _ in sorts}) == len({rank for _, rank in sorts})


def test_a_code_without_a_text_is_seen() -> None:
    texts = pa.array(["a", "b"])
    for found, within in (([0, 1, None], True), ([], True), ([2], False), ([0, -1], False)):
        indices = pa.array(found, CODE)
        coded = pa.DictionaryArray.from_arrays(indices, texts, safe=False)
        assert are_within(coded) == within


def test_what_lies_under_a_null_is_no_code() -> None:
    under = np.array([1, 99, 0], np.int32)  # Arrow asks for nothing there
    buffers = [pack_mask(np.array([True, False, True])), pa.py_buffer(under)]
    indices = pa.Array.from_buffers(CODE, 3, buffers)
    coded = pa.DictionaryArray.from_arrays(indices, pa.array(["a", "bcd"]))

    assert codes(coded).tolist() == [1, 0, 0]
    assert ranks(coded).tolist()[::2] == [2, 1]
    assert text_ends(coded).tolist() == [0, 3, 3, 4]
    assert canonical(coded).to_pylist() == ["bcd", None, "a"]


def test_a_column_is_plain_in_all_tables_or_in_none() -> None:
    texts = pa.table({"1": ["a", "b"], "9": [b"a", b"b"], "t": [1, 2]})
    both, one = texts, texts
    for name in ("1", "9"):
        i = texts.schema.get_field_index(name)
        both = both.set_column(i, name, texts.column(name).dictionary_encode())
    one = both.set_column(0, "1", texts.column("1"))

    made = alike([both, one])

    assert [is_coded(kind) for table in made for kind in table.schema.types] == [
        False,
        True,
        False,
    ] * 2
    assert all(decoded(table).equals(texts) for table in made)
    assert alike([both, both]) == [both, both]
