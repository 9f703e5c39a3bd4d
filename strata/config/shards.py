"""The shards that a folder of declarations declares, created when they are first needed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strata.config.folder import yaml_files, yaml_mapping, yaml_mappings
from strata.errors import InvalidRequest
from strata.machine.machine import Machine
from strata.machine.names import nearest_shards
from strata.model.spec import ShardSpec, parse_spec
from strata.state.declare import compared_with


@dataclass(frozen=True, slots=True)
class Declaration:
    """A declaration, and the file that it is in."""

    spec: ShardSpec
    file: str = ""  # empty: it is in none


def declarations(path: str) -> dict[str, Declaration]:
    """Return the declarations in a YAML file, or in those of a folder, by the shard's name.

    Raises: InvalidRequest naming the file, for one that is malformed or repeats a name.
    """
    found: dict[str, Declaration] = {}
    for file, raw in _mappings(path):
        spec = parse_spec(raw, file)
        if spec.name in found:
            raise InvalidRequest(
                "two files declare the same shard",
                shard=spec.name,
                file=file,
                other=found[spec.name].file,
            )
        found[spec.name] = Declaration(spec, file)
    return found


def _mappings(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if Path(path).is_file():
        yield path, yaml_mapping(Path(path))
    else:
        yield from yaml_mappings(path)


def declared_shards(folder: str) -> dict[str, ShardSpec]:
    """Return the declarations in the YAML files of `folder` by the shard's name.

    Raises: as `declarations`.
    """
    return {name: one.spec for name, one in declarations(folder).items()}


def ensure_shards(
    machine: Machine,
    folder: str,
    names: Sequence[str],
    say: Callable[[str], None] = lambda _: None,
    *,
    found: bool = False,
) -> list[str]:
    """Create the shards of `names` that are declared and do not exist; return all names.

    No names: all declared ones. A shard that exists is left as it is; `say` gets a line for each
    that its file declares otherwise. `found`: a list gave the names, so one that is neither there
    nor declared any more is left out.
    Raises: InvalidRequest for a name that is neither there nor declared.
    """
    there = set(machine.names())
    if names and there.issuperset(names):
        _say_of_files(machine, folder, names, say)
        return list(names)
    specs = declarations(folder)
    wanted = list(names) or sorted(specs)
    for name in wanted:
        if name in there:
            continue
        if name not in specs and found:
            say(f"{name}: passed over, because it was dropped meanwhile")
            continue
        if name not in specs:
            cure = nearest_shards(name, sorted(there | set(specs)))
            raise InvalidRequest("no such shard", shard=name, shards_dir=folder, cure=cure)
        machine.create(specs[name].spec)
    for name in wanted:
        if name in there and name in specs:
            _say_of(machine, specs[name], say)
    return [name for name in wanted if name in there or name in specs]


def _say_of_files(
    machine: Machine, folder: str, names: Sequence[str], say: Callable[[str], None]
) -> None:
    """Compare existing shards with the files that declare them.

    A file that cannot be read does not stop a shard that exists: it is named.
    """
    for path, raw in _readable(folder, say):
        if str(raw.get("name")) not in names:
            continue
        try:
            _say_of(machine, Declaration(parse_spec(raw, path), path), say)
        except InvalidRequest as error:
            say(f"{path} declares nothing, and the shard stays as it is: {error}")


def _readable(folder: str, say: Callable[[str], None]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in yaml_files(folder):
        try:
            yield str(path), yaml_mapping(path)
        except InvalidRequest as error:
            say(f"{path} declares nothing: {error}")


def _say_of(machine: Machine, declaration: Declaration, say: Callable[[str], None]) -> None:
    name = declaration.spec.name
    settings = [
        line.setting for line in compared_with(machine.load(name), declaration.spec).differences
    ]
    if settings:
        say(
            f"{name}: {declaration.file} declares {', '.join(settings)} otherwise than the shard, "
            f"and changes nothing until it is applied: `strata apply {declaration.file}` shows the "
            "plan"
        )
