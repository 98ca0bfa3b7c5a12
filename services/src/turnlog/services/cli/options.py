"""Options that several commands share, and option groups.

An option group is a frozen dataclass whose fields are options. A command takes the group as one
parameter; `expand_option_groups` shows typer one parameter per field and rebuilds the group when
the command is called.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

HERE: Final = Path(".turnlog")
"""The data directory of a service that is started without `--data-dir`."""
DEFAULT: Final = "default"
"""The tenant that is read when none is named."""

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
    """What a command reads: a running service, or a data directory that no service has open."""

    url: Url = None
    data_dir: DataDir = HERE
    tenant: Tenant = DEFAULT


@dataclass(frozen=True, slots=True)
class Served:
    """The running service that a command is sent to."""

    url: Url = None
    data_dir: ServedDir = HERE


@dataclass(frozen=True, slots=True)
class Stored:
    """The log of one tenant in a data directory, read without a gateway."""

    data_dir: DataDir = HERE
    tenant: Tenant = DEFAULT
