"""Writes the logins of NATS into a directory: their permissions, and a password for each."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

from turnlog.services.platform.nats_logins import PASSWORD_VARIABLES, render_users
from turnlog.services.platform.whole_files import write_private_file

USERS_FILE: Final = "users.conf"

PASSWORDS_FILE: Final = "passwords.env"


def write_users(directory: Path) -> tuple[str, ...]:
    """Write both files; return the variables of the passwords that were created.

    Passwords that the file has already are kept, so that processes which have them go on.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / USERS_FILE).write_text(render_users())
    file = directory / PASSWORDS_FILE
    lines = file.read_text().splitlines() if file.exists() else []
    known = {line.partition("=")[0].strip() for line in lines}
    missing = tuple(each for each in PASSWORD_VARIABLES.values() if each not in known)
    if missing:
        made = (f"{variable}={_create_password()}" for variable in missing)
        write_private_file(file, "\n".join([*lines, *made, ""]))
    return missing


def _create_password() -> str:
    # A server takes a value of its environment for a number where it can, and none begins so.
    return f"p{secrets.token_hex(32)}"
