"""The file with the keyring of an installation, and the one that a data directory gets."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

import structlog

from turnlog.events.errors import Refused
from turnlog.events.seals.keyrings import StaticKeyring, parse_keyring
from turnlog.services.platform.process_settings import AllInOneSettings, ProcessSettings
from turnlog.services.platform.whole_files import write_private_file

KEYRING_FILE: Final = "keyring"
"""Name of the file in a data directory, beside the folder of the store."""

_log = structlog.get_logger("turnlog.keyring")


def load_keyring(settings: ProcessSettings) -> StaticKeyring | None:
    """Return the keyring of a process; None without one. Refuses one that cannot be used."""
    if settings.keyring is None:
        if settings.sealing == "on":
            detail = "new sessions are to be sealed, and there is no keyring to seal them with"
            fix = "set TURNLOG_KEYRING to a file with a line such as `1 ` and 64 hexadecimal digits"
            raise Refused("no-keyring", detail, field="TURNLOG_KEYRING", fix=fix)
        return None
    try:
        return parse_keyring(settings.keyring.read_text())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        detail = f"{settings.keyring} cannot be used: {reason}"
        fix = "restore it from where it is kept: without it nobody reads what was sealed"
        raise Refused("bad-keyring", detail, field="TURNLOG_KEYRING", fix=fix) from None


def apply_directory_keyring(settings: AllInOneSettings, *, creating: bool) -> AllInOneSettings:
    """Return the settings with the keyring of their data directory, unless they have one.

    With `creating` one is made where new sessions are to be sealed and there is none yet. The
    caller has locked the directory.
    """
    if settings.keyring is not None:
        return settings
    file = settings.data_dir / KEYRING_FILE
    if creating and settings.sealing == "on" and not file.exists():
        _create_keyring(file)
    return settings.model_copy(update={"keyring": file}) if file.exists() else settings


def _create_keyring(file: Path) -> None:
    write_private_file(file, f"1 {secrets.token_hex(32)}\n")
    _log.info("keyring-created", file=str(file.absolute()))
