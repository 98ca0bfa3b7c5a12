"""The effective settings, where each comes from, and the check for unknown variables.

A misspelt variable is worse than a missing one, so every command that starts something checks the
environment first. Secrets are never shown; an address is shown without its credentials.
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
    """The effective value of one setting."""

    setting: str
    value: JsonValue
    origin: str
    """`default`, or the name of the variable that sets it."""
    processes: tuple[str, ...]
    """The processes that read the setting."""


def variable(setting: str) -> str:
    """Return the name of a setting's environment variable."""
    return f"{PREFIX}{setting.upper()}"


def refuse_unknown(environ: Mapping[str, str]) -> None:
    """Raise `Refused` for a variable with Turnlog's prefix that no process reads."""
    known = {variable(field) for kind in PROCESSES.values() for field in kind.model_fields}
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known:
            near = get_close_matches(name, known, n=1)
            fix = f"write {near[0]}" if near else "unset it; `turnlog config show` lists them all"
            raise Refused("unknown-setting", "no process knows it", field=name, fix=fix)


def read(
    kind: type[Settings], environ: Mapping[str, str], given: Mapping[str, Any] | None = None
) -> Settings:
    """Read the settings of a process; `overrides` take precedence over the environment.

    Raises `Refused` with the option or the variable whose value is invalid.
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
    """Return every setting of every process, those read by most processes first."""
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
