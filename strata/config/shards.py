"""The shards that a folder of declarations declares, created when they are first needed."""

from collections.abc import Sequence

from strata.config.folder import yaml_mappings
from strata.errors import InvalidRequest
from strata.machine.machine import Machine
from strata.model.near import one_of
from strata.model.spec import ShardSpec, parse_spec


def declared_shards(folder: str) -> dict[str, ShardSpec]:
    """Return the declarations in the YAML files of `folder` by the shard's name.

    Raises: InvalidRequest naming the file, for one that is malformed or repeats a name.
    """
    specs: dict[str, ShardSpec] = {}
    files: dict[str, str] = {}
    for file, raw in yaml_mappings(folder):
        spec = parse_spec(raw, file)
        if spec.name in specs:
            raise InvalidRequest(
                "two files declare the same shard",
                shard=spec.name, file=file, other=files[spec.name],
            )  # fmt: skip
        specs[spec.name], files[spec.name] = spec, file
    return specs


def ensure_shards(machine: Machine, folder: str, names: Sequence[str]) -> list[str]:
    """Create the shards of `names` that are declared and do not exist; return all names.

    No names: all declared ones. A shard that exists is left as it is.
    Raises: InvalidRequest for a name that is neither there nor declared.
    """
    there = set(machine.names())
    if names and there.issuperset(names):
        return list(names)
    specs = declared_shards(folder)
    wanted = list(names) or sorted(specs)
    for name in wanted:
        if name in there:
            continue
        if name not in specs:
            cure = one_of(name, sorted(there | set(specs)))
            raise InvalidRequest("no such shard", shard=name, shards_dir=folder, cure=cure)
        machine.create(specs[name])
    return wanted
