from __future__ import annotations

import asyncio
import os
import shlex
import socket
import sys
import tempfile
from collections.abc import Coroutine, Generator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from rich.text import Text

from turnlog.services.cli.console import answers
from turnlog.services.cli.environment import read
from turnlog.services.cli.logs import log_to
from turnlog.services.cli.reader.opened import client
from turnlog.services.cli.screens.palette import QUIET
from turnlog.services.demo.invitation import invitation
from turnlog.services.demo.plays import Name, Play, play_named
from turnlog.services.demo.stage import Stage, Where
from turnlog.services.runtime.ending import Ending
from turnlog.services.runtime.tasks import stopped
from turnlog.services.up.settings import UpSettings
from turnlog.services.up.up import Addresses, up

HOST: Final = "127.0.0.1"
PORT: Final = 8700
PROVIDED: Final = ("OPENAI_API_KEY", "OPENAI_API_BASE")
"""Where one of these is set, the demo calls a real model instead of a scripted one."""
OPENAI: Final = "openai/gpt-4.1-mini"


async def play(
    name: Name, data_dir: Path | None, http: str | None, model: str | None, *, stay: bool
) -> None:
    """Play a demo; with `stay`, keep everything running until a shutdown signal."""
    playing = play_named(name)
    with _place(data_dir) as place, (place / "turnlog.log").open("a") as log:
        log_to(log, "console")
        given = {
            "data_dir": place,
            "http": http or _address(),
            "model": model or _model(os.environ) or playing.script,
        }
        settings = read(UpSettings, os.environ, given)
        ending = Ending()
        ending.listen()
        async with AsyncExitStack() as running:
            with answers().status(Text("starting everything", QUIET)):
                addresses = await running.enter_async_context(up(settings, ending))
            await _unless_ended(_show(playing, addresses, settings.model, stay=stay), ending)
            if stay:
                await ending.wait()


async def _show(play: Play, addresses: Addresses, model: str, *, stay: bool) -> None:
    where = Where(addresses.http, addresses.data_dir, shlex.quote(sys.argv[0]))
    async with client(addresses.http) as reached:
        stage = Stage(reached, where)
        session, commands = await play.perform(stage, model)
        if stay:
            await stage.scene("Your turn", "everything stays up")
            stage.console.print(invitation(where, session, commands), soft_wrap=True)


@contextmanager
def _place(data_dir: Path | None) -> Generator[Path]:
    if data_dir is not None:
        data_dir.mkdir(parents=True, exist_ok=True)
        yield data_dir
        return
    with tempfile.TemporaryDirectory(prefix="turnlog-demo-") as place:
        yield Path(place)


def _address() -> str:
    """Return the default address, or one with a free port where the default is in use."""
    with suppress(OSError), socket.create_server((HOST, PORT)):
        return f"{HOST}:{PORT}"
    return f"{HOST}:0"


def _model(environ: Mapping[str, str]) -> str | None:
    return OPENAI if any(environ.get(name) for name in PROVIDED) else None


async def _unless_ended(show: Coroutine[Any, Any, None], ending: Ending) -> None:
    """Run the scenario to its end, or cancel it at a shutdown signal."""
    playing, ended = asyncio.create_task(show), asyncio.create_task(ending.wait())
    try:
        await asyncio.wait({playing, ended}, return_when=asyncio.FIRST_COMPLETED)
        for task in (playing, ended):
            if task.done():
                task.result()
    finally:
        await stopped(playing, ended)
