"""The options that several commands share, spelt once; those of one dataclass go together."""

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
ServedDir = Annotated[
    Path,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        envvar="TURNLOG_DATA_DIR",
        help="Data directory; its service is asked.",
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
InPhase = Annotated[
    str | None,
    typer.Option("--phase", metavar="PHASE", help="Only what was said in this phase."),
]


@dataclass(frozen=True, slots=True)
class Asked:
    """Where to read: of a running service, or of a data directory that nobody serves."""

    url: Url = None
    data_dir: DataDir = HERE
    tenant: Tenant = DEFAULT


@dataclass(frozen=True, slots=True)
class Served:
    """Which running service is to do something."""

    url: Url = None
    data_dir: ServedDir = HERE


@dataclass(frozen=True, slots=True)
class Stored:
    """Whose log, in which data directory; asked without a gateway."""

    data_dir: DataDir = HERE
    tenant: Tenant = DEFAULT
