"""Fields of structs: never fail, have the field's statistics, and are null where the struct is."""

from collections.abc import Sequence
from typing import Final

from strata.expr.entry import Context, Entry, Outcome, literal, opened, strict
from strata.expr.nodes import Call
from strata.expr.records import Record
from strata.expr.spec import Spec


def _get_struct_field(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    ordinal, values = literal(call, 1), args[0].values
    found = None
    if isinstance(values, Record) and ordinal is not None and isinstance(ordinal.value, int):
        found = values.child(ordinal.value)
    if found is None:
        return opened(call, args, fail=False)
    return strict(args, Outcome(found.values, null=found.null))


ENTRIES: Final = (
    Entry(
        "get_struct_field",
        "struct, ordinal",
        (2, 2),
        _get_struct_field,
        "the statistics of a field of a column",
        passes=True,
    ),
)
