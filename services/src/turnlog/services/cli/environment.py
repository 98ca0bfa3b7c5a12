"""The settings in force, where each comes from, and a refusal of variables nobody knows.

A misspelt variable is worse than a missing one, so every command that starts something looks here
first. What is secret is never shown: of an address, only where it leads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from pydantic import JsonValue, SecretStr, TypeAdapter, ValidationError

from turnlog.events.errors import Refused
from turnlog.services.runtime.settings import (
    GatewaySettings,
    Process,
    ProjectorSettings,
    WorkerSettings,
)
from turnlog.services.up.settings import UpSettings

PREFIX: Final = "TURNLOG_"
PROCESSES: Final[Mapping[str, type[Process]]] = {
    "gateway": GatewaySettings,
    "worker": WorkerSettings,
    "projector": ProjectorSettings,
    "up": UpSettings,
}
HIDDEN: Final = "••••"
_JSON: Final = TypeAdapter[JsonValue](JsonValue)

Settings = TypeVar("Settings", bound=Process)


@dataclass(frozen=True, slots=True)
class InForce:
    """One setting as it stands."""

    setting: str
    value: JsonValue
    origin: str
    """`default`, or the variable it comes from."""
    processes: tuple[str, ...]
    """Who reads it."""


def variable(setting: str) -> str:
    """Spell a setting's variable."""
    return f"{PREFIX}{setting.upper()}"


def refuse_unknown(environ: Mapping[str, str]) -> None:
    """Refuse a variable with our prefix that no process knows."""
    known = {variable(field) for kind in PROCESSES.values() for field in kind.model_fields}
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known:
            near = get_close_matches(name, known, n=1)
            fix = f"write {near[0]}" if near else "unset it; `turnlog config show` lists them all"
            raise Refused("unknown-setting", "no process knows it", field=name, fix=fix)


def read(
    kind: type[Settings], environ: Mapping[str, str], given: Mapping[str, Any] | None = None
) -> Settings:
    """Read the settings of a process; what is `given` by options goes before the environment.

    Raises `Refused` naming the option or the variable at fault.
    """
    refuse_unknown(environ)
    said = {name: value for name, value in (given or {}).items() if value is not None}
    try:
        return kind(**said)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        setting = str(first["loc"][0])
        field = f"--{setting.replace('_', '-')}" if setting in said else variable(setting)
        raise Refused("bad-setting", first["msg"], field=field, fix="change its value") from None


def in_force(environ: Mapping[str, str]) -> tuple[InForce, ...]:
    """Give every setting of every process as it stands, the shared ones first."""
    found: dict[str, InForce] = {}
    for process, kind in PROCESSES.items():
        held = read(kind, environ)
        for setting in kind.model_fields:
            readers = (*found[setting].processes, process) if setting in found else (process,)
            origin = variable(setting) if variable(setting) in environ else "default"
            value = _shown(getattr(held, setting))
            found[setting] = InForce(setting, value, origin, readers)
    return tuple(sorted(found.values(), key=lambda each: -len(each.processes)))


def _shown(value: object) -> JsonValue:
    if isinstance(value, SecretStr):
        return _without_secrets(value.get_secret_value())
    return _JSON.validate_json(TypeAdapter(object).dump_json(value))


def _without_secrets(address: str) -> str:
    parts = urlsplit(address)
    if not parts.scheme:
        return HIDDEN
    user, at, host = parts.netloc.rpartition("@")
    shown = f"{HIDDEN if user else ''}{at}{host}"
    return f"{parts.scheme}://{shown}{parts.path}"
