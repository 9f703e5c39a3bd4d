"""Fields of structs: never fail; their values are not tracked yet."""

from collections.abc import Sequence
from typing import Final

from strata.expr.entry import Context, Entry, opened
from strata.expr.nodes import Call
from strata.expr.spec import Spec


def _get_struct_field(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    return opened(call, args, fail=False)


ENTRIES: Final = (
    Entry("get_struct_field", "struct, ordinal", (2, 2), _get_struct_field, "any value or null"),
)
