"""The slow twin of the cast: reads one source value the obvious way, sharing no code with ingest.

`verify` reads source files with it and compares what a shard holds; `tests/wall` judges ingest by
it. It is plain Python, one value at a time, from docs/reference/sources.md and
docs/reference/format.md alone.

Each type has one canonical Python form, and two forms are equal (`==`) exactly if readers see one
value. It is what readers are shown (`strata.format.values.view`), except where Python cannot
compare it:

| Type | Form |
|---|---|
| bool; integers, oid, mz_timestamp; interval year to month | `bool`; `int`; `int` of months |
| float32, float64 | `float`, never -0.0; NaN is the text "NaN" |
| numeric, numeric(p,s) | `Decimal`, never -0; NaN is the text "NaN" |
| date; timestamp; timestamptz | `date`; naive `datetime`; `datetime` in UTC |
| the same outside of the years 1 to 9999 | `int`: days, microseconds since 1970 |
| time | `str`, as in "09:05:00.000000000"; a leap second has the second 60 |
| interval; interval day to second | dict of months, days, micros; `timedelta` |
| string, varchar, char (no blanks at its end); bytes; uuid | `str`; `bytes`; `str`, lower case |
| jsonb | `str`, canonical JSON text (see `strata.ingest.twin.jsons`) |
| aclitem, mz_aclitem | dict of grantee, grantor, mode: `int`; roles of mz_aclitem are `str` |
| list; map; record | `list`; dict by key; dict by field |
| array, int2vector | dict of dims (a list of dicts of lower_bound, length) and vals |
| range | dict of lower, upper, lower_inclusive, upper_inclusive, empty |

A null is None. An invalid value raises `Unreadable`. A form that the documents do not mention
raises its subclass `Undecided`; then the caller does not judge the value.
"""

from strata.ingest.twin.connect import from_connect
from strata.ingest.twin.fields import csv_fields, quoted_nulls
from strata.ingest.twin.jsons import Number, Pairs, parse_json_line
from strata.ingest.twin.numerals import NUMBERS, plain_number
from strata.ingest.twin.objects import from_json
from strata.ingest.twin.physical import holds, stored
from strata.ingest.twin.python import from_python
from strata.ingest.twin.texts import from_text
from strata.ingest.twin.unreadable import Undecided, Unreadable
from strata.ingest.twin.written import from_form

__all__ = [
    "NUMBERS",
    "Number",
    "Pairs",
    "Undecided",
    "Unreadable",
    "csv_fields",
    "from_connect",
    "from_form",
    "from_json",
    "from_python",
    "from_text",
    "holds",
    "parse_json_line",
    "plain_number",
    "quoted_nulls",
    "stored",
]
