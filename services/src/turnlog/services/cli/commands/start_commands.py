"""Commands that start services or a demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from turnlog.services.cli.command_runner import exit_cleanly_on_signals, run_async
from turnlog.services.cli.options import DEFAULT_DATA_DIR, ServiceTarget
from turnlog.services.platform.gc_control import reduce_start_collection
from turnlog.services.platform.lean_imports import import_structlog

ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="MODEL", help="The model of profiles that say `default`, for litellm."
    ),
]

HttpOption = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Address to listen at; port 0 chooses a free one."),
]

RoleArgument = Annotated[
    Literal["gateway", "worker", "projector"],
    typer.Argument(metavar="PART", help="Role: gateway, worker or projector."),
]


def start_all(
    *,
    data_dir: Annotated[
        Path,
        typer.Option(metavar="DIR", envvar="TURNLOG_DATA_DIR", help="Data directory."),
    ] = DEFAULT_DATA_DIR,
    http: HttpOption = None,
    nats: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Address of its nats-server, kept in the data directory for later starts;"
            " port 0 chooses a free one at each start.",
        ),
    ] = None,
    ready_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Written when everything accepts work.")
    ] = None,
    blueprints: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Folder of blueprints; may be given several times."),
    ] = None,
    tools: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Tool servers in the form `mcpServers`, as JSON or YAML."
        ),
    ] = None,
    dialects: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="What the servers of models take, by patterns of model names."
        ),
    ] = None,
    model: ModelOption = None,
) -> None:
    """Start everything in one process: NATS, gateway, worker and projector."""
    exit_cleanly_on_signals()
    overrides = {
        "data_dir": data_dir,
        "http": http,
        "nats": nats,
        "ready_file": ready_file,
        "blueprints": tuple(blueprints) if blueprints else None,
        "tools": tools,
        "model_dialects": dialects,
        "model": model,
    }
    import_structlog()
    with reduce_start_collection() as freeze_started:
        from turnlog.services.cli.actions.service_start import run_all_services

        run_async(run_all_services(overrides, freeze_started))


def run_role(role: RoleArgument) -> None:
    """Start one role, configured by TURNLOG_... variables; see `turnlog config show`."""
    exit_cleanly_on_signals()
    import_structlog()
    with reduce_start_collection() as freeze_started:
        from turnlog.services.cli.actions.service_start import run_service_role

        run_async(run_service_role(role, freeze_started))


def wait_until_ready(
    *,
    target: ServiceTarget,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="SECONDS", help="How long to wait.", min=0)
    ] = 60.0,
) -> None:
    """Wait until a service accepts work, and print its address."""
    from turnlog.services.cli.client.service_location import wait_for_service

    typer.echo(wait_for_service(target, seconds).url)


def run_demo(
    name: Annotated[
        Literal["trickster", "assistant", "araquem", "game-master", "uderia"],
        typer.Argument(
            metavar="[NAME]", help="trickster, assistant, araquem, game-master or uderia."
        ),
    ] = "trickster",
    *,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Data directory; by default a temporary folder."),
    ] = None,
    http: HttpOption = None,
    model: ModelOption = None,
    exit_after: Annotated[
        bool, typer.Option("--exit", help="Exit after the demo instead of staying up.")
    ] = False,
) -> None:
    """Start everything, play a conversation, and show what the log recorded."""
    exit_cleanly_on_signals()
    from turnlog.services.cli.demo.demo_runner import run_demo

    run_async(run_demo(name, data_dir, http, model, keep_running=not exit_after))
