"""Commands that start services or a demo, and `chat`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from turnlog.services.cli.commands.command_runner import run_async
from turnlog.services.cli.options import DEFAULT_DATA_DIR, ServiceTarget

ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="MODEL", help="The model of profiles that say `default`, for litellm."
    ),
]

HttpOption = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Where to listen; port 0 is any free one.")
]

RoleArgument = Annotated[
    Literal["gateway", "worker", "projector"],
    typer.Argument(metavar="PART", help="Which one: gateway, worker or projector."),
]


def start_all(
    *,
    data_dir: Annotated[
        Path,
        typer.Option(metavar="DIR", envvar="TURNLOG_DATA_DIR", help="Where everything is kept."),
    ] = DEFAULT_DATA_DIR,
    http: HttpOption = None,
    nats: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The same for its nats-server.")
    ] = None,
    ready_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Written when everything accepts work.")
    ] = None,
    blueprints: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Folder of blueprints; may be given several times."),
    ] = None,
    model: ModelOption = None,
) -> None:
    """Start everything in one process: NATS, gateway, worker and projector."""
    from turnlog.services.cli.actions.service_start import run_all_services

    given = {
        "data_dir": data_dir,
        "http": http,
        "nats": nats,
        "ready_file": ready_file,
        "blueprints": tuple(blueprints) if blueprints else None,
        "model": model,
    }
    run_async(run_all_services(given))


def run_role(role: RoleArgument) -> None:
    """Start one part, set by TURNLOG_... variables; see `turnlog config show`."""
    from turnlog.services.cli.actions.service_start import run_service_role

    run_async(run_service_role(role))


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
        typer.Option(metavar="DIR", help="Where its data lies; else a folder that is removed."),
    ] = None,
    http: HttpOption = None,
    model: ModelOption = None,
    exit_after: Annotated[
        bool, typer.Option("--exit", help="End after the show instead of staying up.")
    ] = False,
) -> None:
    """Start everything, play a conversation, and show what the log holds of it."""
    from turnlog.services.cli.demo.demo_runner import run_demo

    run_async(run_demo(name, data_dir, http, model, stay=not exit_after))


def start_chat(
    session: Annotated[
        str | None, typer.Argument(metavar="[SESSION]", help="One to resume; else a new one.")
    ] = None,
    *,
    blueprint: Annotated[
        str, typer.Option(metavar="NAME", help="What a new one is made from.")
    ] = "assistant",
    attribute: Annotated[
        list[str] | None,
        typer.Option("-a", "--attribute", metavar="NAME=VALUE", help="Given when it opens."),
    ] = None,
    target: ServiceTarget,
) -> None:
    """Talk to a session; Ctrl-C cancels the turn, Ctrl-D leaves."""
    from turnlog.services.cli.conversation.chat_terminal import run_chat

    run_chat(target, session, blueprint, attribute or [])
