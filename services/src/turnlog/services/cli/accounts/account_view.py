"""Accounts on a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import RenderableType
from rich.text import Text

from turnlog.services.cli.account_file import Account
from turnlog.services.cli.console import OutputFormat, create_output_console, print_json
from turnlog.services.cli.views.text_format import escape_controls
from turnlog.services.cli.views.theme import GOOD, MUTED, create_listing


def print_accounts(
    accounts: Mapping[str, Account], chosen: str | None, output: OutputFormat
) -> None:
    """Print accounts as a table or as JSON; keys are not shown."""
    if output == "table":
        create_output_console().print(_render_accounts(accounts, chosen))
        return
    print_json(
        [
            {"name": name, "url": each.url, "has_key": each.key is not None, "used": name == chosen}
            for name, each in sorted(accounts.items())
        ]
    )


def _render_accounts(accounts: Mapping[str, Account], chosen: str | None) -> RenderableType:
    if not accounts:
        return Text("there is no account; `turnlog accounts add` makes one", MUTED)
    table = create_listing()
    for title in ("account", "address", "key", ""):
        table.add_column(title, no_wrap=True)
    for name, account in sorted(accounts.items()):
        key = "kept" if account.key else "none"
        used = Text("in use", GOOD) if name == chosen else Text()
        table.add_row(escape_controls(name), escape_controls(account.url), key, used)
    return table
