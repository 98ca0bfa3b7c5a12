"""Commands on the accounts of the command line."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from turnlog.services.cli.command_runner import run_async
from turnlog.services.cli.options import OutputOption

AccountArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of the account, as TURNLOG_ACCOUNT has it.")
]


def add_account(
    name: AccountArgument,
    *,
    url: Annotated[str, typer.Option("--url", metavar="URL", help="Address of the service.")],
) -> None:
    """Keep the address of a service with the key for it, which is asked for and not shown.

    Without a terminal, the key is the first line of the standard input. It is kept once the service
    has let it in; no key at all is kept for a service that asks for none.
    """
    from turnlog.client import key_operations
    from turnlog.services.cli.account_file import Account, locate_account_file
    from turnlog.services.cli.client.service_client import create_client
    from turnlog.services.cli.console import create_output_console
    from turnlog.services.cli.keys.key_view import render_principal

    file = locate_account_file(os.environ)
    accounts = file.load()
    account = Account(url=url.rstrip("/"), key=_read_key() or None)

    async def sign_in() -> None:
        async with create_client(account.url, account.key) as service:
            principal = await service.send(key_operations.fetch_principal())
        file.save(accounts | {name: account})
        create_output_console().print(render_principal(principal))

    run_async(sign_in())


def list_accounts(*, output: OutputOption = "table") -> None:
    """List the accounts; keys are not shown."""
    from turnlog.services.cli.account_file import ACCOUNT_VARIABLE, locate_account_file
    from turnlog.services.cli.accounts.account_view import print_accounts

    file = locate_account_file(os.environ)
    print_accounts(file.load(), os.environ.get(ACCOUNT_VARIABLE), output)


def remove_account(name: AccountArgument) -> None:
    """Forget an account; its key signs in until it is revoked."""
    from turnlog.events.errors import Refused
    from turnlog.services.cli.account_file import locate_account_file

    file = locate_account_file(os.environ)
    accounts = file.load()
    if accounts.pop(name, None) is None:
        fix = "`turnlog accounts list` has all"
        raise Refused("unknown-account", f"there is no {name!r}", field="NAME", fix=fix)
    file.save(accounts)


def _read_key() -> str:
    if sys.stdin.isatty():
        return str(typer.prompt("Key", default="", hide_input=True, show_default=False)).strip()
    return sys.stdin.readline().strip()
