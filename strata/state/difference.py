"""Compare a declaration with an existing shard, and name the commands that remove differences.

A declaration is written once and kept in files, while a shard evolves. When they meet again, the
user gets each difference and, for columns, the `strata schema` command that removes it.
"""

import json
from collections.abc import Iterator
from dataclasses import fields
from shlex import quote

from strata.errors import InvalidRequest
from strata.format.values.migrate import widens
from strata.model.schema import Column, Relation
from strata.model.spec import ColumnSpec, ShardSpec
from strata.state.state import State


def check_same(found: State, asked: ShardSpec) -> None:
    """Refuse a declaration that differs from the existing shard.

    The order of columns does not count, since an added column comes after the others.
    Raises: InvalidRequest, naming the settings and the commands.
    """
    here = found.spec
    differs = [
        f.name
        for f in fields(ShardSpec)
        if f.name != "columns" and getattr(here, f.name) != getattr(asked, f.name)
    ]
    commands: list[str] = []
    if sorted(here.columns, key=_name) != sorted(asked.columns, key=_name):
        differs.insert(0, "columns")
        commands += column_commands(found.relation, asked)
    if not differs:
        return
    cure = "`strata apply FILE` shows what may change and changes it; or use another name"
    if commands:
        cure = f"bring the shard there with `{'`, `'.join(commands)}`; or {cure}"
    raise InvalidRequest(
        "the shard exists and was declared otherwise",
        shard=asked.name,
        differs=differs,
        cure=cure,
    )


def column_commands(relation: Relation, asked: ShardSpec) -> Iterator[str]:
    """Yield the commands that give the shard the declared columns."""
    command = "strata schema {} " + asked.name
    declared = {column.name for column in asked.columns}
    gone = [column for column in relation.columns if column.name not in declared]
    new = [column for column in asked.columns if column.name not in relation.by_name]
    if len(gone) == len(new) == 1 and gone[0].type == new[0].type:
        # Provided it is the same column
        yield f"{command.format('rename')} {quote(gone[0].name)} {quote(new[0].name)}"
        gone, new = [], []
    for column in gone:
        yield f"{command.format('drop')} {quote(column.name)}"
    for wanted in asked.columns:
        there = relation.by_name.get(wanted.name)
        if wanted in new:
            yield f"{command.format('add')} {_added(wanted)}"
        elif there is not None and (there.type, there.nullable) != (wanted.type, wanted.nullable):
            yield from _widened(command.format("widen"), there, wanted)


def _added(column: ColumnSpec) -> str:
    null = "" if column.nullable else " --not-null"
    default = "" if column.default is None else f" --default {quote(_text(column.default))}"
    return f"{quote(column.name)} {quote(str(column.type))}{null}{default}"


def _widened(command: str, there: Column, wanted: ColumnSpec) -> Iterator[str]:
    """Yield the command that widens a column; nothing if only a new column helps."""
    if not widens(there.type, wanted.type) or (there.nullable and not wanted.nullable):
        return
    kind = "" if there.type == wanted.type else f" {quote(str(wanted.type))}"
    null = " --null" if wanted.nullable and not there.nullable else ""
    yield f"{command} {quote(wanted.name)}{kind}{null}"


def _text(default: object) -> str:
    return default if isinstance(default, str) else json.dumps(default)


def _name(column: ColumnSpec) -> str:
    return column.name
