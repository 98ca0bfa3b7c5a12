"""The effective settings, where each comes from, and the check for unknown variables.

A misspelt variable is worse than a missing one, so every command that starts something checks the
environment first. Secrets are never shown; an address is shown without its credentials.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any, Final, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import JsonValue, SecretStr, TypeAdapter, ValidationError
from rich.table import Table
from rich.text import Text

from turnlog.events.errors import Refused
from turnlog.services.cli.console import create_output_console, print_json
from turnlog.services.cli.views.theme import MUTED
from turnlog.services.platform.process_settings import (
    AllInOneSettings,
    GatewaySettings,
    ProcessSettings,
    ProjectorSettings,
    WorkerSettings,
)
from turnlog.services.platform.secret_masking import SECRET_MASK


def print_settings(settings: Sequence[EffectiveSetting], output: Literal["table", "json"]) -> None:
    """Print settings as a table or as JSON."""
    if output == "json":
        print_json([asdict(each) for each in settings])
    else:
        create_output_console().print(render_settings(settings))


def render_settings(settings: Sequence[EffectiveSetting]) -> Table:
    """Render settings as a table in which changed ones are bold."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=MUTED, pad_edge=False)
    for title in ("setting", "value", "from", "read by"):
        table.add_column(title, overflow="fold")
    for each in settings:
        style = MUTED if each.origin == "default" else "bold"
        value = "" if each.value is None else str(each.value)
        readers = ", ".join(each.processes)
        table.add_row(each.setting, Text(value, style), Text(each.origin, style), readers)
    return table


VARIABLE_PREFIX: Final = "TURNLOG_"

PROCESSES: Final[Mapping[str, type[ProcessSettings]]] = {
    "gateway": GatewaySettings,
    "worker": WorkerSettings,
    "projector": ProjectorSettings,
    "up": AllInOneSettings,
}

_JSON_ADAPTER: Final = TypeAdapter[JsonValue](JsonValue)

SettingsT = TypeVar("SettingsT", bound=ProcessSettings)


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    """The effective value of one setting."""

    setting: str
    value: JsonValue
    origin: str
    """`default`, or the name of the variable that sets it."""
    processes: tuple[str, ...]
    """The processes that read the setting."""


def format_variable(setting: str) -> str:
    """Return the name of a setting's environment variable."""
    return f"{VARIABLE_PREFIX}{setting.upper()}"


def refuse_unknown_variables(environ: Mapping[str, str]) -> None:
    """Raise `Refused` for a variable with Turnlog's prefix that no process reads."""
    known = {format_variable(field) for kind in PROCESSES.values() for field in kind.model_fields}
    for name in sorted(environ):
        if name.startswith(VARIABLE_PREFIX) and name not in known:
            near = get_close_matches(name, known, n=1)
            fix = f"write {near[0]}" if near else "unset it; `turnlog config show` lists them all"
            raise Refused("unknown-setting", "no process has this setting", field=name, fix=fix)


def read_settings(
    kind: type[SettingsT], environ: Mapping[str, str], overrides: Mapping[str, Any] | None = None
) -> SettingsT:
    """Read the settings of a process; `overrides` take precedence over the environment.

    Raises `Refused` with the option or the variable whose value is invalid.
    """
    refuse_unknown_variables(environ)
    explicit_values = {
        name: value for name, value in (overrides or {}).items() if value is not None
    }
    try:
        return kind(**explicit_values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        setting = str(first["loc"][0])
        field = (
            f"--{setting.replace('_', '-')}"
            if setting in explicit_values
            else format_variable(setting)
        )
        raise Refused("bad-setting", first["msg"], field=field, fix="change its value") from None


def list_effective_settings(environ: Mapping[str, str]) -> tuple[EffectiveSetting, ...]:
    """Return every setting of every process, those read by most processes first."""
    found: dict[str, EffectiveSetting] = {}
    for process, kind in PROCESSES.items():
        settings = read_settings(kind, environ)
        for setting in kind.model_fields:
            readers = (*found[setting].processes, process) if setting in found else (process,)
            origin = format_variable(setting) if format_variable(setting) in environ else "default"
            value = _dump_setting(setting, getattr(settings, setting))
            found[setting] = EffectiveSetting(setting, value, origin, readers)
    return tuple(sorted(found.values(), key=lambda each: -len(each.processes)))


def _dump_setting(setting: str, value: object) -> JsonValue:
    if isinstance(value, SecretStr):
        is_address = setting.endswith("_url")
        return _format_address(value.get_secret_value()) if is_address else SECRET_MASK
    return _JSON_ADAPTER.validate_json(TypeAdapter(object).dump_json(value))


def _format_address(address: str) -> str:
    parts = urlsplit(address)
    if not parts.scheme:
        return SECRET_MASK
    user, at, host = parts.netloc.rpartition("@")
    masked = f"{SECRET_MASK if user else ''}{at}{host}"
    return f"{parts.scheme}://{masked}{parts.path}"
