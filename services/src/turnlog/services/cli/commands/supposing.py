"""Commands that look at other versions: what one would have meant, who runs by which."""

# ruff: noqa: PLC0415 - a command imports its work when it is called, so that help stays quick

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from turnlog.services.cli.commands.late import reading
from turnlog.services.cli.options import DEFAULT, HERE, Asked, DataDir, Output, Tenant, Url


def what_if(  # noqa: PLR0913 - one for each option
    sessions: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SESSION...]", help="The sessions; else all, or the blueprint's."),
    ] = None,
    *,
    blueprint: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Another version, by its folder.")
    ] = None,
    budget: Annotated[
        int | None, typer.Option(metavar="TOKENS", min=1, help="Another budget for every call.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Another model, as litellm names it.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report as one page too.")
    ] = None,
    url: Url = None,
    data_dir: DataDir = HERE,
    tenant: Tenant = DEFAULT,
    output: Output = "table",
) -> None:
    """Say what recorded calls would have been told under another blueprint, budget or model.

    No model is called and nothing is written. Exact for context, not for behaviour.
    """
    from turnlog.services.cli.supposing.asking import ask
    from turnlog.services.cli.supposing.folder import brought
    from turnlog.services.gateway.payloads.what_if import WhatIfForm

    form = WhatIfForm(
        sessions=sessions or None,
        blueprint=brought(blueprint) if blueprint else None,
        budget=budget,
        model=model,
    )
    asked = Asked(url, data_dir, tenant)
    reading(asked, lambda reader: ask(reader, form, output, html), rows=not sessions)
