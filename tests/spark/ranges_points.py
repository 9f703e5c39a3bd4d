"""Each row of random parts as a case of its own: what the interpreter says of single values.

Columns, and the paths of the JSON column where it is read as text, have one value a row, as in
`strata.decide.cases`; whatever else a filter reads is known as of the row's part.
"""

import numpy as np
import pyarrow as pa

from strata.decide.cases import CasePlace, CaseView, printed_only
from strata.decide.specs import PartSpecs
from strata.expr.entry import Context
from strata.expr.interpret import Interpreter
from strata.expr.nodes import Expr
from strata.expr.spec import Spec
from strata.format.columns import child
from strata.format.values.view import to_view
from strata.stats.members import JSON_FORM, Sought, canonical_bytes, place_named, values_at
from tests.spark.escapes import NOW
from tests.spark.ranges import RELATION, ROWS_A_PART, Parts

Values = dict[str, tuple[CasePlace, np.ndarray]]


class Points:
    """The rows of random parts, one case each."""

    def __init__(self, parts: Parts) -> None:
        """Write down the value of each row at each place."""
        self._specs = PartSpecs(parts.stats, RELATION, ())
        count = parts.rows.num_rows
        self._rows = np.arange(count) // ROWS_A_PART
        places = [place_named(RELATION, name) for name in parts.stats.column_names]
        known = [p for p in places if p is not None and not p.steps]
        self._columns = dict(_column(p, parts) for p in known if p.form != JSON_FORM)
        self._paths = dict(_paths([p for p in known if p.form == JSON_FORM], parts))

    def abstract(self, expr: Expr) -> Spec:
        """Return what the interpreter says about each row."""
        json = RELATION.by_name["js"].id
        chosen = self._columns | (self._paths if printed_only(expr, json) else {})
        view = CaseView(self._specs, self._rows, chosen)
        return Interpreter(Context(*NOW), lenient=False).evaluate(expr, view)


def _place(sought: Sought, values: list[bytes | None]) -> tuple[str, tuple[CasePlace, np.ndarray]]:
    """Return one case a row: its value, or -1."""
    there = np.array([value is not None for value in values], np.bool_)
    number = np.where(there, np.cumsum(there) - 1, -1)
    some = pa.array([value for value in values if value is not None], pa.binary())
    nothing = np.zeros(0, np.int64)
    return sought.name, (
        CasePlace(sought.name, np.zeros(0, np.bool_), nothing, nothing, some, sought.form),
        number,
    )


def _column(sought: Sought, parts: Parts) -> tuple[str, tuple[CasePlace, np.ndarray]]:
    seen = to_view(parts.rows[sought.column.name].combine_chunks(), sought.type)
    values: list[bytes | None] = []
    for row in range(len(seen)):
        one = canonical_bytes(seen.slice(row, 1).drop_null(), sought.form)
        values.append(one[0].as_py() if len(one) else None)
    return _place(sought, values)


def _paths(wanted: list[Sought], parts: Parts) -> list[tuple[str, tuple[CasePlace, np.ndarray]]]:
    column = RELATION.by_name["js"]
    table = pa.table({child(column.id): parts.rows["js"]})
    read = [values_at(table.slice(row, 1), wanted) for row in range(table.num_rows)]
    found = []
    for number, place in enumerate(wanted):
        texts = [one[number] for one in read]
        if all(one is not None for one in texts):
            values = [one[0].as_py() if one is not None and len(one) else None for one in texts]
            found.append(_place(place, values))
    return found
