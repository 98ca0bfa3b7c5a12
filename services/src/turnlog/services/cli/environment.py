"""The effective settings of each role, where each comes from, and the checks of the environment.

A misspelt variable is worse than a missing one, and one that is set and not used is as bad, so
every command that starts something refuses both. Secrets are never shown; an address is shown
without its credentials.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import JsonValue, SecretStr, TypeAdapter, ValidationError

from turnlog.events.errors import Refused
from turnlog.services.caches.session_snapshots import KEY_FILE
from turnlog.services.cli.account_file import ACCOUNT_VARIABLE, KEY_VARIABLE
from turnlog.services.cli.options import (
    CHECKPOINT_TOKEN_VARIABLE,
    CHECKPOINTS_VARIABLE,
    DEFAULT_DATA_DIR,
    URL_VARIABLE,
)
from turnlog.services.platform.nats_server import read_kept_address
from turnlog.services.platform.process_settings import (
    PROVIDED_BY_UP,
    AllInOneSettings,
    GatewaySettings,
    ProcessSettings,
    ProjectorSettings,
    WorkerSettings,
)
from turnlog.services.platform.secret_masking import SECRET_MASK, hide_credentials
from turnlog.services.seals.keyring_files import (
    KEYRING_FILE,
    apply_directory_keyring,
    needs_directory_keyring,
)
from turnlog.services.webhooks.webhook_keys import KEY_FILE_NAME

VARIABLE_PREFIX: Final = "TURNLOG_"

PROCESSES: Final[Mapping[str, type[ProcessSettings]]] = {
    "gateway": GatewaySettings,
    "worker": WorkerSettings,
    "projector": ProjectorSettings,
    "up": AllInOneSettings,
}

COMMAND_LINE: Final = "commands"
"""The reader of settings beside the processes: commands that open a data directory themselves."""

COMMAND_SETTINGS: Final = (
    GatewaySettings.model_fields.keys()
    - {"http", "hosts", "actor_header", "actor_proxies", "operators", "root_key", "require_reason"}
    - {"key_rate", "tenant_rate", "key_streams"}
    - {name for name in GatewaySettings.model_fields if name.startswith("oidc_")}
) | {"data_dir"}
"""What such a command takes: what a gateway reads, but for its address and its callers."""

_PROVIDED_VARIABLES: Final = frozenset(
    f"{VARIABLE_PREFIX}{name.upper()}" for name in PROVIDED_BY_UP
)

_JSON_ADAPTER: Final = TypeAdapter[JsonValue](JsonValue)

SettingsT = TypeVar("SettingsT", bound=ProcessSettings)

_KEY_FILES: Final = {"snapshot_key": KEY_FILE, "webhook_key": KEY_FILE_NAME}
"""Settings that `turnlog up` takes from files that it makes in its data directory."""


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    """The effective value of one setting."""

    setting: str
    value: JsonValue
    origin: str
    """`default`, the variable that sets it, or the file or rule of the data directory."""
    processes: tuple[str, ...]
    """The roles that take this value; `commands` are those that open a data directory."""


def format_variable(setting: str) -> str:
    """Return the name of a setting's environment variable."""
    return f"{VARIABLE_PREFIX}{setting.upper()}"


def refuse_unknown_variables(environ: Mapping[str, str]) -> None:
    """Raise `Refused` for a variable with Turnlog's prefix that nothing here reads."""
    known = {format_variable(field) for kind in PROCESSES.values() for field in kind.model_fields}
    known.update((URL_VARIABLE, KEY_VARIABLE, ACCOUNT_VARIABLE))
    known.update((CHECKPOINTS_VARIABLE, CHECKPOINT_TOKEN_VARIABLE))
    for name in sorted(environ):
        if name.startswith(VARIABLE_PREFIX) and name not in known:
            near = get_close_matches(name, known, n=1)
            fix = f"write {near[0]}" if near else "unset it; `turnlog config show` lists them all"
            raise Refused("unknown-setting", "no process has this setting", field=name, fix=fix)


def refuse_provided_variables(environ: Mapping[str, str]) -> None:
    """Raise `Refused` for a variable that names what a data directory provides itself."""
    for name, reason in PROVIDED_BY_UP.items():
        if environ.get(format_variable(name)):
            raise Refused(
                "not-for-up",
                f"what opens a data directory cannot use it: {reason}",
                field=format_variable(name),
                fix="unset it; or start roles with `turnlog run`, and give commands their --url"
                f" or {URL_VARIABLE}",
            )


def read_settings(
    kind: type[SettingsT], environ: Mapping[str, str], overrides: Mapping[str, Any] | None = None
) -> SettingsT:
    """Read the settings of a process; `overrides` take precedence over the environment.

    Raises `Refused` with the option or the variable whose value is invalid.
    """
    refuse_unknown_variables(environ)
    if issubclass(kind, AllInOneSettings):
        refuse_provided_variables(environ)
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


def list_effective_settings(
    environ: Mapping[str, str], data_dir: Path
) -> tuple[EffectiveSetting, ...]:
    """Return what each role takes, those settings first that most roles read.

    A setting has an entry for each value that differs by role or by where it comes from.
    """
    found: dict[tuple[str, str, str], EffectiveSetting] = {}
    for process, kind in PROCESSES.items():
        for taken in _list_taken_settings(kind, environ, data_dir):
            readers: tuple[str, ...] = (process,)
            if kind is AllInOneSettings and taken.setting in COMMAND_SETTINGS:
                readers = (process, COMMAND_LINE)
            key = (taken.setting, str(taken.value), taken.origin)
            before = found[key].processes if key in found else ()
            found[key] = replace(taken, processes=(*before, *readers))
    return tuple(sorted(found.values(), key=lambda each: -_count_readers(each, found.values())))


def _count_readers(setting: EffectiveSetting, all_settings: Iterable[EffectiveSetting]) -> int:
    """Count the roles that read a setting with any value, so that its entries stand together."""
    return sum(len(each.processes) for each in all_settings if each.setting == setting.setting)


def _list_taken_settings(
    kind: type[ProcessSettings], environ: Mapping[str, str], data_dir: Path
) -> Iterator[EffectiveSetting]:
    if issubclass(kind, AllInOneSettings):
        outside = {name: environ[name] for name in environ if name not in _PROVIDED_VARIABLES}
        settings: ProcessSettings = read_settings(kind, outside, {"data_dir": data_dir})
    else:
        settings = read_settings(kind, environ)
    for setting in kind.model_fields:
        variable = format_variable(setting)
        origin = variable if environ.get(variable) else "default"
        value = _dump_setting(setting, getattr(settings, setting))
        taken = EffectiveSetting(setting, value, origin, ())
        if setting == "sealing" and value is None:
            taken = _decide_sealing(taken, settings)
        if isinstance(settings, AllInOneSettings):
            taken = _find_directory_setting(taken, settings, environ)
        yield taken


def _find_directory_setting(
    taken: EffectiveSetting, up: AllInOneSettings, environ: Mapping[str, str]
) -> EffectiveSetting:
    """Return a setting as `up` takes it from its data directory, if it does."""
    name = taken.setting
    if name in PROVIDED_BY_UP:
        if taken.origin != "default":
            origin = f"{taken.origin}: refused, because {PROVIDED_BY_UP[name]}"
            return replace(taken, value=None, origin=origin)
        value = up.directory_database_url if name == "database_url" else None
        return replace(taken, value=value, origin=PROVIDED_BY_UP[name])
    if name == "data_dir" and taken.value != environ.get(
        format_variable(name), str(DEFAULT_DATA_DIR)
    ):
        return replace(taken, origin="--data-dir")
    if name == "keyring" and taken.value is None:
        return _find_directory_keyring(taken, up)
    if name in _KEY_FILES and taken.value is None:
        key_file = up.data_dir / _KEY_FILES[name]
        state = "" if key_file.exists() else ", made at the next start"
        return replace(taken, value=SECRET_MASK, origin=f"file {key_file}{state}")
    if name == "nats" and taken.value is None and (kept := read_kept_address(up.data_dir)):
        return replace(taken, value=kept.address, origin=f"file {kept.file}")
    return taken


def _decide_sealing(taken: EffectiveSetting, settings: ProcessSettings) -> EffectiveSetting:
    """Return whether a process seals that nobody has told whether to."""
    if isinstance(settings, AllInOneSettings):
        if needs_directory_keyring(settings):
            return replace(taken, value="on", origin="the data directory is new")
        settings = apply_directory_keyring(settings, creating=False)
    if settings.keyring is None:
        return replace(taken, value="off", origin="there is no keyring")
    return replace(taken, value="on", origin="there is a keyring")


def _find_directory_keyring(taken: EffectiveSetting, up: AllInOneSettings) -> EffectiveSetting:
    """Return the keyring as `up` takes it from its data directory, if there is or will be one."""
    file = up.data_dir / KEYRING_FILE
    if needs_directory_keyring(up):
        return replace(taken, value=str(file), origin=f"file {file}, made at the next start")
    return replace(taken, value=str(file), origin=f"file {file}") if file.exists() else taken


def _dump_setting(setting: str, value: object) -> JsonValue:
    if isinstance(value, SecretStr):
        is_address = setting.endswith("_url")
        return hide_credentials(value.get_secret_value()) if is_address else SECRET_MASK
    return _JSON_ADAPTER.validate_json(TypeAdapter(object).dump_json(value))
