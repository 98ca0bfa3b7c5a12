"""The file with the keyring of an installation: made, given a generation, and freed of old ones."""

from __future__ import annotations

import re
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import structlog

from turnlog.events.errors import Refused
from turnlog.events.seals.file_keyring import FileKeyring
from turnlog.events.seals.keyrings import SealKeyring, StaticKeyring, parse_keyring
from turnlog.events.subjects import SESSIONS_STREAM
from turnlog.services.extensions.plugins import load_keyring_factory
from turnlog.services.platform.nats_server import NatsConfig, lock_file
from turnlog.services.platform.process_settings import AllInOneSettings, ProcessSettings
from turnlog.services.platform.whole_files import write_private_file

KEYRING_FILE: Final = "keyring"
"""Name of the file in a data directory, beside the folder of the store."""

_ADDRESS: Final = re.compile(r"([a-z][a-z0-9_]*)\+([a-z]+://.*)")
"""The name of what a package registers, and an address for it."""

_log = structlog.get_logger("turnlog.keyring")


def load_keyring(settings: ProcessSettings) -> SealKeyring | None:
    """Return the keyring of a process; None without one. Refuses one that cannot be used."""
    if settings.keyring is None:
        if settings.sealing == "on":
            detail = "new sessions are to be sealed, and there is no keyring to seal them with"
            fix = "set TURNLOG_KEYRING to a file with a line such as `1 ` and 64 hexadecimal digits"
            raise Refused("no-keyring", detail, field="TURNLOG_KEYRING", fix=fix)
        return None
    if found := _ADDRESS.fullmatch(settings.keyring):
        token = settings.keyring_token
        return load_keyring_factory(found[1])(found[2], token.get_secret_value() if token else None)
    file = Path(settings.keyring)
    try:
        return FileKeyring.open(file)
    except (OSError, ValueError) as error:
        raise _build_refusal(file, error) from None


def require_keyring(settings: ProcessSettings) -> SealKeyring:
    """Return the keyring of a process; refuses also where there is none."""
    found = load_keyring(settings)
    if found is None:
        fix = "set TURNLOG_KEYRING, or name with --data-dir where `turnlog up` has made one"
        detail = "there is no keyring, neither set nor in the data directory"
        raise Refused("no-keyring", detail, field="TURNLOG_KEYRING", fix=fix)
    return found


def find_keyring_file(settings: ProcessSettings) -> Path | None:
    """Return the file of the keyring; None where a service has it, or there is none."""
    if settings.keyring is None or _ADDRESS.fullmatch(settings.keyring):
        return None
    return Path(settings.keyring)


def _build_refusal(file: Path, error: OSError | ValueError) -> Refused:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    fix = "restore it from where it is kept: without it nobody reads what was sealed"
    detail = f"{file} cannot be used: {reason}"
    return Refused("bad-keyring", detail, field="TURNLOG_KEYRING", fix=fix)


def apply_directory_keyring(settings: AllInOneSettings, *, creating: bool) -> AllInOneSettings:
    """Return the settings with the keyring of their data directory, unless they have one.

    With `creating` one is made where there is none yet and new sessions are to be sealed: because
    the setting says so, or because the directory is new and it does not say otherwise. The caller
    has locked the directory.
    """
    if settings.keyring is not None:
        return settings
    file = settings.data_dir / KEYRING_FILE
    if creating and needs_directory_keyring(settings):
        _create_keyring(file)
    return settings.model_copy(update={"keyring": str(file)}) if file.exists() else settings


def needs_directory_keyring(settings: AllInOneSettings) -> bool:
    """Return whether the next start with these settings makes a keyring in their data directory."""
    if settings.keyring is not None or (settings.data_dir / KEYRING_FILE).exists():
        return False
    if settings.sealing is None:
        return is_new_directory(settings.data_dir)
    return settings.sealing == "on"


def is_new_directory(data_dir: Path) -> bool:
    """Return whether a data directory has no log of sessions yet, whatever else is in it.

    A start that broke off before there was one has left files, and decided nothing.
    """
    return not (NatsConfig(data_dir=data_dir).streams_folder / SESSIONS_STREAM).exists()


def _create_keyring(file: Path) -> None:
    write_private_file(file, f"1 {secrets.token_hex(32)}\n")
    _log.info("keyring-created", file=str(file.absolute()))


@contextmanager
def lock_keyring(file: Path) -> Generator[StaticKeyring]:
    """Yield the keyring of a file, which no other command changes while the body runs.

    Refuses a file that is none, and one that another command is changing.
    """
    read_keyring(file)
    locked = lock_file(file.with_name(f"{file.name}.lock"))
    if locked is None:
        detail = f"another command is changing {file}"
        raise Refused("keyring-busy", detail, field="TURNLOG_KEYRING", fix="wait until it is done")
    with locked:
        yield read_keyring(file)


def read_keyring(file: Path) -> StaticKeyring:
    """Return the keyring of a file; refuses one that cannot be used."""
    try:
        return parse_keyring(file.read_text())
    except (OSError, ValueError) as error:
        raise _build_refusal(file, error) from None


def add_generation(file: Path) -> int:
    """Add a generation with a new key to a keyring that is locked; return its number."""
    text = file.read_text()
    newest = max(parse_keyring(text).keys) + 1
    separator = "" if text.endswith("\n") else "\n"
    write_private_file(file, f"{text}{separator}{newest} {secrets.token_hex(32)}\n")
    return newest


def remove_generations(file: Path, last: int) -> None:
    """Remove a generation and those before it from a keyring that is locked."""
    lines = file.read_text().splitlines(keepends=True)
    write_private_file(file, "".join(each for each in lines if _find_number(each) > last))


def _find_number(line: str) -> float:
    """Return the generation of a line; infinity for one that has none, such as a comment."""
    if not line.strip() or line.startswith("#"):
        return float("inf")
    return int(line.split(maxsplit=1)[0])
