"""The options that several commands share, spelt once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

HERE: Final = Path(".turnlog")
"""Where a service started here keeps its data, unless told otherwise."""
DEFAULT: Final = "default"
"""The tenant that is meant where nobody says."""

Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="Address of a running service.")
]
DataDir = Annotated[
    Path,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        envvar="TURNLOG_DATA_DIR",
        help="Data directory; its service is asked, or it is opened when none runs.",
    ),
]
Tenant = Annotated[
    str,
    typer.Option(
        "--tenant",
        metavar="TENANT",
        envvar="TURNLOG_TENANT",
        help="Whose sessions, where no service is asked.",
    ),
]
Output = Annotated[
    Literal["table", "json"],
    typer.Option("-o", "--output", help="Tables for people, JSON for programs."),
]
Session = Annotated[str, typer.Argument(metavar="SESSION", help="The session.")]
At = Annotated[
    int | None, typer.Option("--at", metavar="SEQUENCE", min=1, help="As it was at this sequence.")
]


@dataclass(frozen=True, slots=True)
class Asked:
    """What the options of a command say about where to read."""

    url: str | None
    data_dir: Path
    tenant: str
