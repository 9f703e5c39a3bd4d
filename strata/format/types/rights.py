"""Access rights: who may do what, and who granted it."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.format.types import from_json
from strata.format.types.numbers import UINT64
from strata.format.types.row import (
    ROLE,
    ROLE_SUFFIX,
    Encoding,
    Message,
    NumberField,
    TypeView,
    message,
    packed,
    scalar,
)
from strata.format.types.shown import (
    as_array,
    as_unsigned,
    children,
    fixed,
    record_view,
)
from strata.format.values.nested import structured
from strata.format.values.physical import records, refuse, true
from strata.model.types import ColumnType, Kind

ACL: Final = message(
    NumberField("grantee", 0x08, 4),
    NumberField("grantor", 0x10, 4),
    NumberField("mode", 0x08, group=1),
    heads=(0, 0x1A),
)
MZ_ACL: Final = message(
    NumberField("grantee", ROLE),
    NumberField("grantor", ROLE, group=1),
    NumberField("mode", 0x08, group=2),
    heads=(0x0A, 0x12, 0x1A),
)
# Stored kinds of roles: their letters, and the tags of their fields in a message.
ROLES: Final = {100: ("s", 0x08), 200: ("g", 0x20), 300: ("u", 0x10), 400: ("p", 0x1A)}
PUBLIC: Final = 400  # the role that everybody has: its message is empty, its number 0
PATTERN: Final = r"^(p|[sgu](0|[1-9][0-9]{0,19}))$"


def _show_mz_acl(array: pa.Array) -> pa.Array:
    fields = records(array, MZ_ACL.stored)
    roles = []
    for name in ("grantee", "grantor"):
        kinds = fields[name + ROLE_SUFFIX].astype(np.int64)
        known = [letter for letter, _ in ROLES.values()]
        letters = np.select([kinds == kind for kind in ROLES], known, "?")
        number = pa.array(fields[name].astype(np.uint64)).cast(pa.string())
        shown = pc.if_else(pa.array(kinds == PUBLIC), "", number)
        text = pc.binary_join_element_wise(pa.array(letters, pa.string()), shown, "")
        roles.append(pc.if_else(array.is_valid(), text, None))
    mode = as_array(fields["mode"].astype(np.uint64), array).cast(UINT64)
    return structured(_seen(pa.string()), [*roles, mode], array)


def _store_mz_acl(array: pa.Array, column_type: ColumnType) -> pa.Array:
    fields = np.zeros(len(array), MZ_ACL.stored)
    grantee, grantor, mode = children(array, column_type)
    for name, texts in (("grantee", grantee), ("grantor", grantor)):
        wrong = true(texts.is_valid()) & ~true(pc.match_substring_regex(texts, PATTERN))
        refuse(texts, wrong, column_type, "a role is s1, g1, u1 or p")
        filled = texts.fill_null("p")
        letters = pc.utf8_slice_codeunits(filled, 0, 1)
        for kind, (letter, _) in ROLES.items():
            fields[name + ROLE_SUFFIX][true(pc.equal(letters, letter))] = kind
        digits = pc.utf8_slice_codeunits(filled, 1)
        number = pc.if_else(pc.equal(digits, ""), "0", digits)
        fields[name] = as_unsigned(number, pa.uint64(), column_type)
    fields["mode"] = as_unsigned(mode, pa.uint64(), column_type)
    return fixed(fields, array)


def _seen(role: pa.DataType) -> pa.StructType:
    return pa.struct([("grantee", role), ("grantor", role), ("mode", UINT64)])


def _right(
    kind: Kind,
    written: Message,
    spark: str,
    datum: tuple[str, int],
    *,
    role: Callable[[Any], Any],
    view: TypeView,
) -> Encoding:
    def read(value: Any) -> dict[str, Any]:
        parts = from_json.parts(value, {"grantee": None, "grantor": None, "mode": 0})
        mode = Decimal(from_json.integer(parts["mode"]))
        return {"grantee": role(parts["grantee"]), "grantor": role(parts["grantor"]), "mode": mode}

    return scalar(
        kind,
        pa.binary(written.stored.itemsize),
        f"struct<grantee: {spark}, grantor: {spark}, mode: decimal(20,0)>",
        datum,
        layout=packed(written),
        order="by grantee, then grantor, then mode",
        json=read,
        quoted=False,
        view=view,
    )


ROWS: Final = (
    _right(
        Kind.ACLITEM,
        ACL,
        "bigint",
        ("acl_item", 33),
        role=from_json.integer,
        view=record_view(ACL, _seen(pa.int64())),
    ),
    _right(
        Kind.MZ_ACLITEM,
        MZ_ACL,
        "string",
        ("mz_acl_item", 32),
        role=from_json.text,
        view=TypeView(_seen(pa.string()), _show_mz_acl, _store_mz_acl),
    ),
)
