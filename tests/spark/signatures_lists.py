"""Expressions of lists and maps: part of `tests/spark/signatures.py`."""

from collections.abc import Iterator

_LISTS = ("li", "ld", "ls", "lr", "ll")
_MAPS = ("mi", "ms", "mr")


def lists() -> Iterator[tuple[str, str]]:
    for name in _LISTS:
        for index in ("0", "1", "2", "-1", "i"):
            yield "get_array_item", f"{name}[{index}] is null"
            yield "get_array_item", f"get({name}, {index})"
        for index in ("1", "2", "3", "-1", "-3", "0", "i", "nullif(i, 0)"):
            yield "element_at", f"element_at({name}, {index})"
            yield "element_at", f"try_element_at({name}, {index})"
        yield "size", f"size({name})"
        yield "size", f"cardinality({name})"
        yield "size", f"array_size({name})"
        yield "array_distinct", f"array_distinct({name})[0]"
        yield "array_distinct", f"size(array_distinct({name}))"
    for index in ("l", "-1L", "4294967296L", "sh"):
        yield "get_array_item", f"li[{index}]"
    yield "get_array_item", "ll[0][1]"
    yield "get_array_item", "lr[0].x + 1"
    yield "get_array_item", "get(ll, sh)[0]"
    yield "element_at", "element_at(lr, 1).k"
    yield "element_at", "element_at(ll, 1)[0]"
    values = {
        "li": ("5", "i", "-5"),
        "ld": ("3D", "d", "double('NaN')"),
        "ls": ("'a'", "s"),
        "lr.x": ("2", "i"),
        "lr.k": ("'k1'", "s"),
        "map_keys(mi)": ("'a'", "s"),
    }
    for name, others in values.items():
        for other in others:
            yield "array_contains", f"array_contains({name}, {other})"
            yield "array_position", f"array_position({name}, {other})"
        yield "arrays_overlap", f"arrays_overlap({name}, array({', '.join(others)}))"
        yield "create_array", f"array({', '.join(others)})[1]"
        yield "create_array", f"array_contains(array({', '.join(others)}), {others[0]})"
        yield "arrays_overlap", f"arrays_overlap(array({others[0]}), {name})"
        for function in ("min", "max"):
            yield f"array_{function}", f"array_{function}({name})"
    yield "array_contains", "array_contains(ll, array(2S))"
    yield "array_contains", "array_contains(array(i, i2), 5)"
    yield "create_array", "array(i, null, i2)[2]"
    yield "create_array", "array_max(array(i, 10 div i2))"
    yield "create_array", "coalesce(li, array())[0]"
    yield "create_array", "size(coalesce(li, array()))"
    yield "create_array", "size(if(b, li, array(1)))"
    for ascending in ("true", "false"):
        yield "sort_array", f"sort_array(li, {ascending})[0]"
    yield "sort_array", "array_contains(sort_array(ls), 'a')"
    yield from _maps()


def _maps() -> Iterator[tuple[str, str]]:
    for name in _MAPS:
        for key in ("'a'", "'k1'", "s", "'none'"):
            yield "get_map_value", f"{name}[{key}]"
            yield "get_map_value", f"{name}[{key}] is null"
            yield "element_at", f"element_at({name}, {key})"
            yield "element_at", f"try_element_at({name}, {key})"
            yield "map_keys", f"map_contains_key({name}, {key})"
        yield "size", f"size({name})"
        yield "map_keys", f"map_keys({name})[0]"
        yield "map_values", f"map_values({name})[0]"
        yield "map_entries", f"map_entries({name})[0].key"
        yield "map_entries", f"map_entries({name})[0].value is null"
        yield "map_entries", f"size(map_entries({name}))"
        yield "exists", f"exists(map_values({name}), v -> v is null)"
    yield "get_map_value", "mi.k1"
    yield "get_map_value", "mr['a'].x"
    yield "get_map_value", "coalesce(mi['a'], 0) + 1"
    yield "get_map_value", "mi[ls[0]]"
    yield "map_values", "array_max(map_values(mi))"
    yield "map_values", "array_contains(map_values(ms), 'a')"
    yield "map_entries", "exists(map_entries(mi), e -> e.value > 5 and e.key = 'a')"
    yield "get_array_struct_fields", "lr.x[0]"
    yield "get_array_struct_fields", "array_max(lr.x)"
    yield "get_array_struct_fields", "size(lr.k)"
    yield "get_array_struct_fields", "map_values(mr).x[1]"
    yield "get_array_struct_fields", "exists(lr.k, k -> k like 'k%')"


def arrays() -> Iterator[tuple[str, str]]:
    for name, other, value in (
        ("li", "array(i, 5)", "5"),
        ("ld", "array(d)", "3D"),
        ("ls", "array(s, 'a')", "'a'"),
    ):
        for function in ("array_except", "array_intersect", "array_union"):
            for made in (f"{function}({name}, {other})", f"{function}({other}, {name})"):
                yield function, f"size({made})"
                yield function, f"get({made}, 0)"
                yield function, f"array_contains({made}, {value})"
        for function, made in {
            "array_sort": f"array_sort({name})",
            "reverse_list": f"reverse({name})",
            "array_remove": f"array_remove({name}, {value})",
            "concat_lists": f"concat({name}, {other})",
            "flatten": f"flatten(array({name}, {other}))",
            "slice": f"slice({name}, 1, 2)",
        }.items():
            yield function, f"size({made})"
            yield function, f"get({made}, 0)"
            yield function, f"array_max({made})"
            yield function, f"array_contains({made}, {value})"
    yield "array_remove", "array_remove(li, i)[0]"
    yield "array_sort", "size(array_sort(ll))"
    yield "reverse_list", "reverse(ll)[0][0]"
    yield "concat_lists", "size(concat(li, li, li))"
    yield "concat_lists", "concat(ll, array(li))[0]"
    yield "concat_lists", "concat(array(), li)[0]"
    yield "concat_lists", "size(concat(slice(li, sh, 1), li))"
    yield "flatten", "size(flatten(array(li, slice(li, sh, 1))))"
    yield "flatten", "size(flatten(ll))"
    yield "flatten", "get(flatten(ll), 1)"
    yield "flatten", "array_max(flatten(ll))"
    yield "flatten", "exists(flatten(ll), x -> x > 5)"
    yield "flatten", "flatten(ll) is null"
    for start, length in (
        ("1", "1"),
        ("2", "3"),
        ("-1", "1"),
        ("-2", "5"),
        ("i", "2"),
        ("1", "i2"),
        ("0", "1"),
        ("1", "-1"),
        ("1", "0"),
        ("nullif(i, 0)", "abs(sh)"),
    ):
        yield "slice", f"size(slice(li, {start}, {length}))"
        yield "slice", f"get(slice(ls, {start}, {length}), 0)"
        yield "slice", f"slice(ld, {start}, {length}) is null"


def structs() -> Iterator[tuple[str, str]]:
    """Yield comparisons of structs, and texts that are split, which other functions stand for."""
    for pair, items in {
        "i, s": ("1, 'a'", "5, 'abb'", "cast(null as int), 'a'"),
        "l, i": ("1L, 2", "0L, -7", "cast(null as bigint), cast(null as int)"),
        "d, b": ("0D, true", "double('NaN'), false"),
        "day, dec": ("date'2024-02-29', cast(1.25 as decimal(10,2))",),
    }.items():
        for item in items:
            yield "equal_null_safe", f"({pair}) = ({item})"
            yield "equal_null_safe", f"({pair}) <=> struct({item})"
            yield "equal_null_safe", f"({pair}) in (({item}), ({items[0]}))"
            yield "equal_null_safe", f"({pair}) not in (({item}))"
            yield "less_than", f"({pair}) < ({item})"
            yield "less_than", f"({pair}) <= ({item})"
            yield "greater_than", f"({pair}) > ({item})"
            yield "greater_than", f"not (({pair}) >= ({item}))"
    yield "less_than", "(i, l) < (i2, l2)"
    yield "greater_than", "struct(day, s) >= struct(day2, s2)"
    yield "greater_than", "(d, f) > (d2, f2)"
    yield "equal_null_safe", "named_struct('p', i) = named_struct('p', 5)"
    yield "equal_null_safe", "named_struct('p', i, 's', s) <=> named_struct('p', 5, 's', 'abb')"
    yield "equal_null_safe", "(i, 1 / i2) = (1, 2D)"
    yield "equal_null_safe", "struct(i, struct(s)) = struct(5, struct('a'))"
    for delimiter in ("-", "a", " ", r"\\.", "ab"):
        for text in ("s", "stamp"):
            yield "substring_index", f"split({text}, '{delimiter}')[0]"
            yield "substring_index", f"split({text}, '{delimiter}', 2)[0]"
            yield "string_split", f"split({text}, '{delimiter}', 1)[0]"


def lambdas() -> Iterator[tuple[str, str]]:
    tests = {
        "li": (
            "x > 5",
            "x = i",
            "x is null",
            "x + 1 > 3",
            "x between 0 and 3",
            "100 div x > 1",
            "null",
        ),
        "ld": ("x > 3", "isnan(x)", "cast(x as int) = 3"),
        "ls": ("x like 'a%'", "x = s", "cast(x as int) > 0", "length(x) > 1"),
        "lr": ("x.x > 2", "x.k is null", "x is null"),
        "ll": ("size(x) > 1", "exists(x, y -> y > 2)", "x[0] = 2", "exists(x, y -> y < size(x))"),
        "map_values(mi)": ("x > 50",),
    }
    for name, conditions in tests.items():
        for test in conditions:
            yield "exists", f"exists({name}, x -> {test})"
            yield "forall", f"forall({name}, x -> {test})"
            yield "filter", f"size(filter({name}, x -> {test}))"
            yield "filter", f"try_element_at(filter({name}, x -> {test}), 1) is null"
            yield "element", f"not exists({name}, x -> not ({test}))"
    yield "filter", "array_compact(li)[0]"
    yield "filter", "array_max(filter(li, x -> x > 5))"
    yield "filter", "size(filter(ls, (x, n) -> n < 2))"
    yield "transform", "array_max(transform(li, x -> x + 1))"
    yield "transform", "array_min(transform(ls, x -> length(x)))"
    yield "transform", "size(transform(ld, x -> cast(x as int)))"
    yield "transform", "array_contains(transform(lr, x -> x.k), 'k1')"
    yield "transform", "transform(ll, x -> array_max(x))[0]"
    yield "transform", "transform(li, x -> i)[0]"
    yield "element_index", "array_max(transform(li, (x, n) -> n))"
    yield "element_index", "size(filter(ls, (x, n) -> n > 2))"
    yield "element_index", "transform(li, (x, n) -> n + x)[0]"
    yield from _folds()


def _folds() -> Iterator[tuple[str, str]]:
    """Yield lambdas that go from element to element."""
    merges = {
        "li": {
            "0": ("a + x", "a + 1", "greatest(a, x)", "a - x", "if(x > 3, a + x, a)", "x"),
            "0L": ("a + x", "a * 2 + x", "a + coalesce(x, 0)", "a + 100 div x", "try_add(a, x)"),
            "i": ("least(a, x)", "a + sh", "a", "coalesce(a, x)"),
            "cast(null as int)": ("coalesce(a, x)", "a + x", "if(a is null or x > a, x, a)"),
            "false": ("a or x > 5", "a and x is null", "x = i", "not a"),
            "true": ("a and x > 0", "a <=> (x = 5)"),
            "0D": ("a + x / 3", "(a + x) / 2"),
            "cast(0 as decimal(20,2))": ("cast(a + x as decimal(20,2))",),
        },
        "ld": {
            "0D": ("a + x", "a * x", "greatest(a, x)", "a - x * d", "nanvl(a, x)"),
            "1D": ("a * x", "x / a", "a + abs(x)"),
        },
        "ls": {
            "0": ("a + length(x)", "a + cast(x as int)", "if(x = s, a + 1, a)"),
            "date'2024-01-31'": ("add_months(a, length(x))", "greatest(a, try_cast(x as date))"),
        },
        "lr": {"0": ("a + x.x", "a + if(x.k = 'k1', 1, 0)", "coalesce(x.x, a)")},
        "ll": {
            "0": (
                "a + size(x)",
                "a + aggregate(x, a, (b, y) -> b + y)",
                "aggregate(x, 0, (b, y) -> b + y + a, b -> b + a)",
            )
        },
        "array(day, day2)": {"day": ("greatest(a, x)", "date_add(a, 1)")},
    }
    for name, starts in merges.items():
        for start, bodies in starts.items():
            for body in bodies:
                yield "aggregate", f"aggregate({name}, {start}, (a, x) -> {body})"
    yield "aggregate", "aggregate(li, 0L, (a, x) -> a + x, a -> a / size(li))"
    yield "aggregate", "aggregate(li, 0, (a, x) -> a + 1, a -> a > 2)"
    yield "aggregate", "reduce(transform(li, x -> x % 10), 0, (a, x) -> a + x, a -> a * a)"
    yield "aggregate", "aggregate(map_values(mi), 0L, (a, x) -> a + x)"
    yield "aggregate", "aggregate(filter(ld, x -> x > 0), 0D, (a, x) -> a + x)"
    yield "aggregate", "exists(ll, y -> aggregate(y, 0, (a, x) -> a + x) > 5)"
    yield "accumulated", "aggregate(li, 5, (a, x) -> a + 1, a -> a - 5)"
    yield "accumulated", "aggregate(ld, 0D, (a, x) -> a / 2 + 1)"
    yield "accumulated", "aggregate(ls, false, (a, x) -> not a, a -> a is null)"
