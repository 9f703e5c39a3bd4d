"""Settings from files and the environment: the only reader of both.

A settings file is TOML with the sections and fields of `strata.model.settings.Settings`. The
file is the one given, else the one that STRATA_CONFIG names, else there is none and the
defaults hold. `STRATA__SECTION__FIELD` in the environment overrides a field of a section,
`STRATA__FIELD` one outside any section. What is not known is refused, by name.

Relative paths and store addresses start at the current directory of the process that uses
them, not at the file's folder: the same file serves the driver and its workers.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Final, get_args, get_type_hints

from strata.errors import InvalidRequest
from strata.model.settings import Settings

CONFIG_VARIABLE: Final = "STRATA_CONFIG"
PREFIX: Final = "STRATA__"
_UNITS: Final = {"bytes": "bytes", "mib": "MiB", "ms": "milliseconds", "s": "seconds"}
_BOOLS: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def load_settings(path: str | None, env: Mapping[str, str]) -> Settings:
    """Return the settings of the file at `path` under those of the environment `env`.

    Raises: InvalidRequest naming the file or variable, the setting, its value and what fits.
    """
    file = path or env.get(CONFIG_VARIABLE)
    raw = _read(file) if file else {}
    where = file or "defaults"
    overrides = _overrides(env)
    sections = {name: kind for name, kind in _hints(Settings).items() if is_dataclass(kind)}
    known = [f.name for f in fields(Settings)]
    _refuse_unknown(raw, known, where, "")
    values: dict[str, Any] = {}
    for name, kind in _hints(Settings).items():
        if name in sections:
            section = raw.get(name, {})
            if not isinstance(section, dict):
                raise _wrong(where, name, section, f"a section, [{name}]")
            values[name] = _section(kind, name, section, where, overrides)
        else:
            values |= _field(kind, name, raw, where, overrides)
    if overrides:
        variable = next(iter(overrides.values()))[0]
        names = [*sections, *(name for name in known if name not in sections)]
        raise InvalidRequest(
            "this environment variable names no setting",
            variable=variable, cure=f"{PREFIX}SECTION__FIELD with one of {', '.join(names)}",
        )  # fmt: skip
    return Settings(**values)


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


def _overrides(env: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return {dotted setting: (variable, text)}; entries are taken out as they are used."""
    found = sorted((name, text) for name, text in env.items() if name.startswith(PREFIX))
    return {
        name.removeprefix(PREFIX).lower().replace("__", "."): (name, text) for name, text in found
    }


def _section(
    kind: Any,
    name: str,
    raw: Mapping[str, Any],
    where: str,
    overrides: dict[str, tuple[str, str]],
) -> Any:
    _refuse_unknown(raw, [f.name for f in fields(kind)], where, f"{name}.")
    values: dict[str, Any] = {}
    for field, field_kind in _hints(kind).items():
        dotted = {f"{name}.{k}": v for k, v in raw.items()}
        found = _field(field_kind, f"{name}.{field}", dotted, where, overrides)
        values |= {field: value for value in found.values()}
    return kind(**values)


def _field(
    kind: Any,
    setting: str,
    raw: Mapping[str, Any],
    where: str,
    overrides: dict[str, tuple[str, str]],
) -> dict[str, Any]:
    """Return {setting: value} if it is given anywhere, else nothing, so that the default holds."""
    if setting in overrides:
        variable, text = overrides.pop(setting)
        return {setting: _check(kind, setting, _parse(kind, text), variable)}
    if setting in raw:
        return {setting: _check(kind, setting, raw[setting], where)}
    return {}


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


def _check(kind: Any, setting: str, value: Any, where: str) -> Any:
    if type(value) not in _kinds(kind):
        raise _wrong(where, setting, value, _expectation(kind, setting))
    if isinstance(value, int) and value < 0:
        raise _wrong(where, setting, value, f"{_expectation(kind, setting)}, not negative")
    return value


def _expectation(kind: Any, setting: str) -> str:
    """Return what a setting takes, with its unit."""
    names: dict[Any, Callable[[], str]] = {
        int: lambda: f"a number of {unit}" if (unit := _unit(setting)) else "a whole number",
        bool: lambda: "true or false",
        str: lambda: "a text in quotes",
    }
    return " or ".join(names[k]() for k in _kinds(kind) if k in names)


def _unit(setting: str) -> str | None:
    return _UNITS.get(setting.rpartition("_")[2])


def _kinds(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) or (kind,)


def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _refuse_unknown(raw: Mapping[str, Any], known: list[str], where: str, prefix: str) -> None:
    for key in raw:
        if key not in known:
            raise InvalidRequest(
                "unknown setting", file=where, setting=f"{prefix}{key}",
                cure=f"one of {', '.join(known)}",
            )  # fmt: skip


def _wrong(where: str, setting: str, value: Any, expected: str) -> InvalidRequest:
    # The address of a database may hold a password: never shown.
    shown = "..." if setting == "store.consensus" else value
    return InvalidRequest(
        "this setting does not fit", file=where, setting=setting, value=shown, cure=expected
    )
