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
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from strata.errors import InvalidRequest
from strata.model.declared import as_declared, converted, hints_of
from strata.model.near import one_of
from strata.model.settings import Settings, without_password
from strata.store.cures import unreadable
from strata.store.small_file import limited_bytes

CONFIG_VARIABLE: Final = "STRATA_CONFIG"
PREFIX: Final = "STRATA__"
DEFAULT: Final = "default"
BYTES_MAX: Final = 2**20  # of a file; all settings there are take a hundredth of it
# Settings of former versions, and what says the same today.
MOVED: Final = {
    "usage.statsd": "metrics.statsd, which is for reads as well",
    "usage.otlp": "metrics.otlp, which is for reads as well",
}


class Given(NamedTuple):
    """A value of a setting, and the file or variable that it is from."""

    value: Any
    source: str


def load_settings(path: str | None, env: Mapping[str, str]) -> Settings:
    """Return the settings of the file at `path` under those of the environment `env`.

    Raises: InvalidRequest naming the file or variable, the setting, its value and what fits.
    """
    return _built(given_settings(path, env))


def settings_file(path: str | None, env: Mapping[str, str]) -> str:
    """Return the whole path of the settings file that is read; empty without one."""
    file = path or env.get(CONFIG_VARIABLE)
    return str(Path(file).absolute()) if file else ""


def effective_settings(path: str | None, env: Mapping[str, str]) -> dict[str, Given]:
    """Return every setting by its dotted name, with its value and where it comes from.

    Passwords in addresses are masked. Raises: as `load_settings`.
    """
    given = given_settings(path, env)
    settings = _built(given)
    found = {}
    for setting in known_settings():
        value: Any = settings
        for name in setting.split("."):
            value = getattr(value, name)
        shown = without_password(value) if isinstance(value, str) else value
        found[setting] = Given(shown, given[setting].source if setting in given else DEFAULT)
    return found


def given_settings(path: str | None, env: Mapping[str, str]) -> dict[str, Given]:
    """Return the settings that a file or the environment gives, by their dotted names.

    The names are checked, the values are not. Raises: InvalidRequest.
    """
    file = path or env.get(CONFIG_VARIABLE)
    return {**(_from_file(file) if file else {}), **_from_environment(env)}


@cache
def known_settings() -> dict[str, Any]:
    """Return the type of each setting by its dotted name."""
    found: dict[str, Any] = {}
    for name, kind in hints_of(Settings).items():
        if is_dataclass(kind):
            found |= {f"{name}.{field}": hint for field, hint in hints_of(kind).items()}
        else:
            found[name] = kind
    return found


def _built(given: Mapping[str, Given]) -> Settings:
    raw: dict[str, Any] = {}
    for setting, (value, source) in given.items():
        section, _, name = setting.rpartition(".")
        into = raw.setdefault(section, {}) if section else raw
        in_environment = source.startswith(PREFIX)
        into[name] = converted(known_settings()[setting], value) if in_environment else value
    try:
        return as_declared(Settings, raw, lambda setting: {"file": given[setting].source})
    except InvalidRequest as error:
        if error.details.get("setting") != "store.consensus":
            raise
        # The address of a database may hold a password: never shown.
        hidden = {**error.details, "value": "..."}
        raise InvalidRequest(error.message, **hidden, cure=error.cure) from None


def _from_file(file: str) -> dict[str, Given]:
    known = known_settings()
    sections = sorted({setting.partition(".")[0] for setting in known if "." in setting})
    given: dict[str, Given] = {}
    for name, value in _read(file).items():
        if name not in sections:
            given[name] = Given(value, file)
        elif isinstance(value, dict):
            given |= {f"{name}.{key}": Given(item, file) for key, item in value.items()}
        else:
            raise InvalidRequest(
                "this setting does not fit",
                file=file,
                setting=name,
                value=value,
                cure=f"a section, [{name}]",
            )
    for setting in given.keys() - known.keys():
        # a misspelt field is helped by its section, a misspelt section by all of them
        section = setting.rpartition(".")[0]
        fitting = [s for s in known if section and s.startswith(f"{section}.")]
        names = fitting or sorted({s.partition(".")[0] for s in known})
        raise _unknown(setting, one_of(setting, names, listed=len(names)), file=file)
    return given


def _from_environment(env: Mapping[str, str]) -> dict[str, Given]:
    given: dict[str, Given] = {}
    for variable in sorted(v for v in env if v.startswith(PREFIX)):
        setting = variable.removeprefix(PREFIX).lower().replace("__", ".")
        if setting not in known_settings():
            names = [PREFIX + s.upper().replace(".", "__") for s in known_settings()]
            section = variable.rpartition("__")[0] + "__"
            near = [n for n in names if section != PREFIX and n.startswith(section)]
            raise _unknown(setting, one_of(variable, near or names), variable=variable)
        given[setting] = Given(env[variable], variable)
    return given


def _unknown(setting: str, cure: str, **where: str) -> InvalidRequest:
    if setting in MOVED:
        return InvalidRequest(
            "this setting has moved", **where, setting=setting, cure=f"say {MOVED[setting]}"
        )
    return InvalidRequest("unknown setting", **where, setting=setting, cure=cure)


def _read(file: str) -> dict[str, Any]:
    try:
        data = limited_bytes(Path(file), BYTES_MAX, "the settings file", "name another file")
        return tomllib.loads(data.decode())
    except OSError as error:
        raise unreadable("the settings file", error, file=file) from error
    except RecursionError as error:
        raise InvalidRequest(
            "the settings file is nested too deeply",
            file=file,
            cure="sections, and plain values in them",
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(
            "the settings file is not TOML", file=file, reason=str(error)
        ) from error
