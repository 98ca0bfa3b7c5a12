"""The file with the accounts of the command line, which only its owner may read.

A key goes to the address of its account and to no other one, whatever `--url` says.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from turnlog.events.errors import Refused
from turnlog.services.platform.whole_files import write_private_file

KEY_VARIABLE: Final = "TURNLOG_KEY"
"""The variable that commands take their key from; an option would show it to the whole machine."""

ACCOUNT_VARIABLE: Final = "TURNLOG_ACCOUNT"
"""The variable that chooses an account: an address with the key for it."""

FILE_NAME: Final = "accounts.json"


class Account(BaseModel):
    """A service, and the key that the command line has for it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    key: str | None = None


_ADAPTER: Final = TypeAdapter(dict[str, Account])


@dataclass(frozen=True, slots=True)
class AccountFile:
    """The accounts by name; a file that is not there has none."""

    path: Path

    def load(self) -> dict[str, Account]:
        """Return the accounts; raises `Refused` for a file that is damaged, or open to others."""
        try:
            mode, content = self.path.stat().st_mode, self.path.read_bytes()
        except FileNotFoundError:
            return {}
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            fix = f"chmod 600 {self.path}"
            raise Refused("bad-accounts", "others may read it", field=str(self.path), fix=fix)
        try:
            return _ADAPTER.validate_json(content)
        except ValidationError as error:
            place = ".".join(map(str, error.errors()[0]["loc"])) or "the whole of it"
            detail = f"{place}: {error.errors()[0]['msg']}"
            fix = "mend the file, or remove it and add the accounts again"
            raise Refused("bad-accounts", detail, field=str(self.path), fix=fix) from None

    def save(self, accounts: Mapping[str, Account]) -> None:
        """Replace the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private_file(self.path, _ADAPTER.dump_json(dict(accounts), indent=2).decode() + "\n")


def locate_account_file(environ: Mapping[str, str]) -> AccountFile:
    """Return the file of the user who runs a command, where the XDG specification has it."""
    folder = environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return AccountFile(Path(folder) / "turnlog" / FILE_NAME)


def find_chosen_account() -> Account | None:
    """Return the account that the environment chooses; raises `Refused` if there is none so."""
    name = os.environ.get(ACCOUNT_VARIABLE)
    if not name:
        return None
    accounts = locate_account_file(os.environ).load()
    if name not in accounts:
        known = ", ".join(sorted(accounts))
        fix = f"choose one of {known}" if known else "add it with `turnlog accounts add`"
        raise Refused("unknown-account", f"there is no {name!r}", field=ACCOUNT_VARIABLE, fix=fix)
    return accounts[name]


def find_key(url: str) -> str | None:
    """Return the key for the service at an address: the environment's, or the chosen account's."""
    if key := os.environ.get(KEY_VARIABLE):
        return key
    account = find_chosen_account()
    return account.key if account is not None and account.url == url.rstrip("/") else None
