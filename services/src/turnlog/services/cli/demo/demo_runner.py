"""The demo runner: it starts all services in this process, plays one scenario and shows the result.

Services run for real, in a data folder of their own, and everything shown is read back over HTTP.
Only the replies come from a script, unless a model is configured.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import socket
import sys
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, assert_never

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from turnlog.events.async_tasks import run_tasks
from turnlog.services.all_in_one import ServiceAddresses, run_all_in_one
from turnlog.services.cli.client.service_client import create_client
from turnlog.services.cli.console import create_output_console
from turnlog.services.cli.demo import araquem, assistant, game_master, trickster, uderia
from turnlog.services.cli.demo.demo_stage import DemoLocation, DemoStage, ProposedCommand
from turnlog.services.cli.environment import read_settings
from turnlog.services.cli.process_log import configure_log
from turnlog.services.cli.views.theme import MUTED
from turnlog.services.platform.process_settings import AllInOneSettings
from turnlog.services.platform.shutdown import Shutdown

DemoName = Literal["trickster", "assistant", "araquem", "game-master", "uderia"]


@dataclass(frozen=True, slots=True)
class DemoScenario:
    """A demo scenario."""

    scripted_model: str
    """The scripted model that replies where no other model is configured."""
    play_scenario: Callable[[DemoStage, str], Awaitable[tuple[str, tuple[ProposedCommand, ...]]]]
    """Plays the scenario with a model; returns its session and the commands to suggest."""


def get_scenario(name: DemoName) -> DemoScenario:
    match name:
        case "trickster":
            return DemoScenario(trickster.SCRIPTED_MODEL, trickster.play_scenario)
        case "assistant":
            return DemoScenario(assistant.SCRIPTED_MODEL, assistant.play_scenario)
        case "araquem":
            return DemoScenario(araquem.SCRIPTED_MODEL, araquem.play_scenario)
        case "game-master":
            return DemoScenario(game_master.SCRIPTED_MODEL, game_master.play_scenario)
        case "uderia":
            return DemoScenario(uderia.SCRIPTED_MODEL, uderia.play_scenario)
        case _ as never:
            assert_never(never)


def render_next_steps(
    location: DemoLocation, session: str, commands: Iterable[ProposedCommand]
) -> RenderableType:
    """Render the addresses and the suggested commands, ready to paste."""
    places = Table.grid(padding=(0, 2))
    places.add_column(style=MUTED, justify="right")
    places.add_row("open", Text(f"{location.http}/", "bold").append("  in a browser", MUTED))
    places.add_row("HTTP", f"{location.http}/v1/sessions/{session}")
    places.add_row("data", str(location.data_dir))
    heading = Text("or type in another terminal", MUTED)
    proposed = [
        Text(f"  # {each.purpose}\n  $ ", MUTED).append(each.command, "default")
        for each in commands
    ]
    end = Text("\nCtrl-C ends everything.", MUTED)
    return Group(places, Text(), heading, *proposed, end)


HOST: Final = "127.0.0.1"


PORT: Final = 8700


PROVIDER_VARIABLES: Final = ("OPENAI_API_KEY", "OPENAI_API_BASE")
"""Where one of these is set, the demo calls a real model instead of a scripted one."""


OPENAI_MODEL: Final = "openai/gpt-4.1-mini"


async def run_demo(
    name: DemoName,
    data_dir: Path | None,
    http: str | None,
    model: str | None,
    *,
    keep_running: bool,
) -> None:
    """Play a demo; with `keep_running`, keep everything running until a shutdown signal."""
    playing = get_scenario(name)
    with _open_data_dir(data_dir) as place, (place / "turnlog.log").open("a") as log:
        overrides = {
            "data_dir": place,
            "http": http or _choose_address(),
            "model": model or _choose_model(os.environ) or playing.scripted_model,
        }
        settings = read_settings(AllInOneSettings, os.environ, overrides)
        # A demo plays with the tools that ship, whatever the environment configures.
        settings = settings.model_copy(update={"tools": None})
        configure_log(log, "console", minimum_level=settings.log_level)
        ending = Shutdown()
        ending.handle_signals()
        async with AsyncExitStack() as running:
            with create_output_console().status(Text("starting everything", MUTED)):
                addresses = await running.enter_async_context(run_all_in_one(settings, ending))
            await _run_until_shutdown(
                _play_scenario(playing, addresses, settings.model, keep_running=keep_running),
                ending,
            )
            if keep_running:
                await ending.wait()


async def _play_scenario(
    play: DemoScenario, addresses: ServiceAddresses, model: str, *, keep_running: bool
) -> None:
    location = DemoLocation(
        http=addresses.http,
        data_dir=addresses.data_dir,
        turnlog_command=shlex.quote(sys.argv[0]),
        keep_running=keep_running,
    )
    async with create_client(addresses.http) as service:
        stage = DemoStage(service, location)
        session, commands = await play.play_scenario(stage, model)
        if keep_running:
            await stage.begin_scene("Your turn", "everything stays up")
            stage.console.print(render_next_steps(location, session, commands), soft_wrap=True)


@contextmanager
def _open_data_dir(data_dir: Path | None) -> Generator[Path]:
    if data_dir is not None:
        data_dir.mkdir(parents=True, exist_ok=True)
        yield data_dir
        return
    with tempfile.TemporaryDirectory(prefix="turnlog-demo-") as place:
        yield Path(place)


def _choose_address() -> str:
    """Return the default address, or one with a free port where the default is in use."""
    with suppress(OSError), socket.create_server((HOST, PORT)):
        return f"{HOST}:{PORT}"
    return f"{HOST}:0"


def _choose_model(environ: Mapping[str, str]) -> str | None:
    return OPENAI_MODEL if any(environ.get(name) for name in PROVIDER_VARIABLES) else None


async def _run_until_shutdown(show: Coroutine[Any, Any, None], ending: Shutdown) -> None:
    """Run the scenario to its end, or cancel it at a shutdown signal."""
    async with run_tasks(show, ending.wait()) as tasks:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
