"""Comparisons with constants of places whose values are known, for `tests/spark/signatures.py`."""

from collections.abc import Iterator


def members() -> Iterator[tuple[str, str]]:
    """Yield comparisons of places whose values are known with constants, also through casts."""
    for text in ("''", "'a'", "'abb'", "'5'", "'é'", "'none'"):
        yield "equal_to", f"s = {text}"
        yield "equal_null_safe", f"{text} <=> s2"
        yield "array_contains", f"array_contains(ls, {text})"
        yield "get_map_value", f"mi[{text}] is null"
        yield "element_at", f"element_at(ms, {text}) = 'a'"
    for number in ("0", "1", "7", "-100", "2024", "9223372036854775807L"):
        yield "equal_to", f"l = {number}"
        yield "equal_to", f"i = {number}"
        yield "equal_to", f"cast(sh as bigint) = {number}"
        yield "equal_to", f"st.i = {number}"
        yield "equal_to", f"cast(get_json_object(js, '$.n') as bigint) = {number}"
        yield "equal_to", f"try_cast(get_json_object(js, '$.m') as double) = {number}"
        yield "equal_to", f"try_variant_get(parse_json(js), '$.n', 'bigint') = {number}"
        yield "equal_to", f"from_json(js, 'n long, m double').n = {number}"
        yield "equal_to", f"from_json(js, 'n long, m double').m = {number}"
        yield "in", f"l in ({number}, 1, 2, 3, 4, 5, 6, 7, 9, 10)"
        if "L" not in number:
            yield "array_contains", f"array_contains(li, {number})"
    for number in ("0D", "-0D", "0.5D", "2147483648D", "double('NaN')"):
        yield "equal_to", f"d = {number}"
        yield "equal_to", f"cast(f as double) = {number}"
        yield "array_contains", f"array_contains(ld, {number})"
    for number in ("0BD", "1.00BD", "123.45BD", "-999.99BD", "99999999.99BD"):
        yield "equal_to", f"dec = cast({number} as decimal(10,2))"
        yield "equal_to", f"wide = cast({number} as decimal(38,10))"
    for text in ("'k1'", "'k7'", "'true'", "'[1]'", "'7'", "'1'", "'10'", "'-0'", "''"):
        for path in ("s", "m", "n", "b", "o", "o.y", "none"):
            yield "equal_to", f"get_json_object(js, '$.{path}') = {text}"
        yield "in", f"get_json_object(js, '$.m') in ({text}, 'x')"
        yield "equal_to", f"cast(variant_get(parse_json(js), '$.m') as string) = {text}"
        yield "equal_to", f"from_json(js, 's string, m string').m = {text}"
    yield "equal_to", "day = date'2024-02-29'"
    yield "equal_to", "ts = timestamp'1970-01-01 00:00:00'"
    yield "exists", "exists(ls, x -> x = 'abb')"
    yield "equal_to", "array_min(li) = 5"
    yield "equal_to", "element_at(ls, 1) = 'b'"
    yield "equal_to", "upper(s) = 'ABB'"
    yield "equal_to", "coalesce(s, s2) = 'abb'"
    yield from _collated()


def _collated() -> Iterator[tuple[str, str]]:
    """Yield comparisons of texts by another collation than that of bytes."""
    for collation in ("utf8_lcase", "utf8_binary_rtrim", "utf8_lcase_rtrim", "unicode_ci"):
        text = f"s collate {collation}"
        function = "string_trim_right" if "binary" in collation else "lower"
        for constant in ("'ABB'", "'abb  '", "'5'", "' 5'", "'K'", "'\u00c9'", "'\u212a'", "'z'"):
            yield function, f"{text} = {constant}"
            yield function, f"{text} < {constant}"
        yield function, f"{text} <=> 'ab'"
        yield function, f"{text} >= s2"
        yield function, f"{text} in ('A', 'zz ', s2)"
        yield function, f"{text} in ('A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I', 'J', 'K', 'L')"
        yield function, f"{text} between 'A' and 'b'"
        yield function, f"not ({text} <= 'AB')"
        yield function, f"({text}) is null"
        yield function, f"get_json_object(js, '$.s') collate {collation} = 'K1'"
        yield function, f"startswith({text}, 'A')"
