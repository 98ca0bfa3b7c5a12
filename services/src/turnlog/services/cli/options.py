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

DEFAULT_DATA_DIR: Final = Path(".turnlog")
"""The data directory of a service that is started without `--data-dir`."""
DEFAULT_TENANT: Final = "default"
"""The tenant that is read when none is named."""

UrlOption = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="Address of a running service.")
]
DataDirOption = Annotated[
    Path,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        envvar="TURNLOG_DATA_DIR",
        help="Data directory; its service is asked, or it is opened when none runs.",
    ),
]
ServiceDataDirOption = Annotated[
    Path,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        envvar="TURNLOG_DATA_DIR",
        help="Data directory; its service is asked.",
    ),
]
TenantOption = Annotated[
    str,
    typer.Option(
        "--tenant",
        metavar="TENANT",
        envvar="TURNLOG_TENANT",
        help="Whose sessions, where no service is asked.",
    ),
]
OutputOption = Annotated[
    Literal["table", "json"],
    typer.Option("-o", "--output", help="Tables for people, JSON for programs."),
]
SessionArgument = Annotated[str, typer.Argument(metavar="SESSION", help="The session.")]
AtOption = Annotated[
    int | None, typer.Option("--at", metavar="SEQUENCE", min=1, help="As it was at this sequence.")
]
PhaseOption = Annotated[
    str | None,
    typer.Option("--phase", metavar="PHASE", help="Only what was said in this phase."),
]


@dataclass(frozen=True, slots=True)
class ReadTarget:
    """What a command reads: a running service, or a data directory that no service has open."""

    url: UrlOption = None
    data_dir: DataDirOption = DEFAULT_DATA_DIR
    tenant: TenantOption = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class ServiceTarget:
    """The running service that a command is sent to."""

    url: UrlOption = None
    data_dir: ServiceDataDirOption = DEFAULT_DATA_DIR


@dataclass(frozen=True, slots=True)
class LogTarget:
    """The log of one tenant in a data directory, read without a gateway."""

    data_dir: DataDirOption = DEFAULT_DATA_DIR
    tenant: TenantOption = DEFAULT_TENANT
