"""Settings from files and the environment: the only reader of both.

A settings file is TOML with the sections and fields of `strata.model.settings.Settings`. The
file is the one given, else the one that STRATA_CONFIG names, else there is none and the
defaults hold. `STRATA__SECTION__FIELD` in the environment overrides a field of a section,
`STRATA__FIELD` one outside any section. What is not known is refused, by name.

Relative paths and store addresses start at the current directory of the process that uses
them, not at the file's folder: the same file serves the driver and its workers.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Final, cast, get_args, get_type_hints

from strata.errors import InvalidRequest
from strata.model.settings import ROLLOUT_RANGES, Settings

CONFIG_VARIABLE: Final = "STRATA_CONFIG"
PREFIX: Final = "STRATA__"
# What a number may be, both ends included; any other setting that is a number: 0 or more.
RANGES: Final[dict[str, tuple[int, int | None]]] = {
    "spark.driver_memory_mib": (256, None),
    "spark.shuffle_partitions": (1, None),
    "ingest.task_bytes": (1, None),
    "ingest.verify_percent": (0, 100),
    "compact.memory_bytes": (1, None),
    "compact.chunk_bytes": (1, None),
    "read.fetchers": (1, None),
    "validate.format_percent": (0, 100),
    "validate.filter_seconds": (1, 86_400),
    **{f"rollout.{name}": ends for name, ends in ROLLOUT_RANGES.items()},
}
_UNITS: Final = {"bytes": "bytes", "mib": "MiB", "ms": "milliseconds", "s": "seconds"}
Given = dict[str, tuple[Any, str]]  # setting -> (value, the file or variable it is from)
_BOOLS: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def load_settings(path: str | None, env: Mapping[str, str]) -> Settings:
    """Return the settings of the file at `path` under those of the environment `env`.

    Raises: InvalidRequest naming the file or variable, the setting, its value and what fits.
    """
    schema = _schema()
    file = path or env.get(CONFIG_VARIABLE)
    given = {**(_from_file(file, schema) if file else {}), **_from_environment(env, schema)}
    for setting, (value, where) in given.items():
        _check(schema[setting], setting, value, where)
    return _build({setting: value for setting, (value, _) in given.items()})


def _schema() -> dict[str, Any]:
    """Return the type of each setting by its dotted name."""
    found: dict[str, Any] = {}
    for name, kind in get_type_hints(Settings).items():
        if is_dataclass(kind):
            found |= {f"{name}.{k}": v for k, v in get_type_hints(kind).items()}
        else:
            found[name] = kind
    return found


def _build(values: Mapping[str, Any]) -> Settings:
    """Return the settings with these values; defaults for the rest."""
    arguments: dict[str, Any] = {}
    for name, kind in get_type_hints(Settings).items():
        if is_dataclass(kind):
            inner = {f.name: f"{name}.{f.name}" for f in fields(kind)}
            arguments[name] = cast(Any, kind)(
                **{field: values[setting] for field, setting in inner.items() if setting in values}
            )
        elif name in values:
            arguments[name] = values[name]
    return Settings(**arguments)


def _from_file(file: str, schema: Mapping[str, Any]) -> Given:
    sections = {setting.partition(".")[0] for setting in schema if "." in setting}
    given: Given = {}
    for name, value in _read(file).items():
        if name in sections and not isinstance(value, dict):
            raise _wrong(file, name, value, f"a section, [{name}]")
        if name in sections:
            given |= {f"{name}.{key}": (item, file) for key, item in value.items()}
        else:
            given[name] = (value, file)
    for setting in given:
        if setting not in schema:
            # a misspelt field is helped by its section, a misspelt section by all of them
            section = setting.rpartition(".")[0]
            fitting = [s for s in schema if s.startswith(f"{section}.")] if section else []
            known = fitting or sorted({s.partition(".")[0] for s in schema})
            raise InvalidRequest(
                "unknown setting", file=file, setting=setting, cure=f"one of {', '.join(known)}"
            )
    return given


def _from_environment(env: Mapping[str, str], schema: Mapping[str, Any]) -> Given:
    given: Given = {}
    for variable in sorted(v for v in env if v.startswith(PREFIX)):
        setting = variable.removeprefix(PREFIX).lower().replace("__", ".")
        if setting not in schema:
            names = ", ".join(PREFIX + s.upper().replace(".", "__") for s in schema)
            raise InvalidRequest(
                "this environment variable names no setting",
                variable=variable, cure=f"one of {names}",
            )  # fmt: skip
        given[setting] = (_parse(schema[setting], env[variable]), variable)
    return given


def _read(file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidRequest(
            "the settings file cannot be read", file=file, reason=error.strerror
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(
            "the settings file is not TOML", file=file, reason=str(error)
        ) from error


def _parse(kind: Any, text: str) -> Any:
    """Return the value that the text of a variable stands for; the text itself if none."""
    kinds = _kinds(kind)
    if NoneType in kinds and text.strip().lower() in ("", "none"):
        return None
    if bool in kinds:
        return _BOOLS.get(text.strip().lower(), text)
    if int in kinds:
        try:
            return int(text.replace("_", ""))
        except ValueError:
            return text
    return text


def _check(kind: Any, setting: str, value: Any, where: str) -> None:
    if type(value) not in _kinds(kind):
        raise _wrong(where, setting, value, _expectation(kind, setting))
    low, high = RANGES.get(setting, (0, None))
    if isinstance(value, int) and (value < low or (high is not None and value > high)):
        ends = range_text(setting)
        raise _wrong(where, setting, value, f"{_expectation(kind, setting)}, {ends}")


def range_text(setting: str) -> str:
    """Return what the number in a setting may be, for people.

    >>> range_text("rollout.on_percent"), range_text("gc.aside_days")
    ('1 to 100', 'not negative')
    """
    low, high = RANGES.get(setting, (0, None))
    if high is not None:
        return f"{low} to {high}"
    return f"{low} or more" if low else "not negative"


def _expectation(kind: Any, setting: str) -> str:
    """Return what a setting takes, with its unit."""
    unit = _UNITS.get(setting.rpartition("_")[2])
    names = {
        int: f"a whole number of {unit}" if unit else "a whole number",
        bool: "true or false",
        str: "a text in quotes",
    }
    return " or ".join(names[k] for k in _kinds(kind) if k in names)


def _kinds(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) or (kind,)


def _wrong(where: str, setting: str, value: Any, expected: str) -> InvalidRequest:
    # The address of a database may hold a password: never shown.
    shown = "..." if setting == "store.consensus" else value
    return InvalidRequest(
        "this setting does not fit", file=where, setting=setting, value=shown, cure=expected
    )
