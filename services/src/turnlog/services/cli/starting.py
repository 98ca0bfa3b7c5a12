"""Start services in this process and stop them on a signal."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, TypeVar, assert_never

from rich.text import Text

from turnlog.projections.store.reach import Bell
from turnlog.services.cli.console import remarks
from turnlog.services.cli.environment import read
from turnlog.services.cli.logs import log_to
from turnlog.services.cli.screens.palette import GOOD
from turnlog.services.runtime.bulk import settled
from turnlog.services.runtime.ending import Ending
from turnlog.services.runtime.settings import (
    GatewaySettings,
    Process,
    ProjectorSettings,
    WorkerSettings,
)
from turnlog.services.up.settings import UpSettings
from turnlog.services.up.up import up

Role = Literal["gateway", "worker", "projector"]
Settings = TypeVar("Settings", bound=Process)


async def start(given: Mapping[str, Any]) -> None:
    """Start all services, print their address, and stop them on a signal."""
    settings = read(UpSettings, os.environ, given)
    log_to(sys.stderr, settings.log_format)
    ending = Ending()
    ending.listen()
    async with up(settings, ending) as addresses:
        ready = Text().append("turnlog is up", f"bold {GOOD}").append(f"  {addresses.http}")
        remarks().print(ready.append(f"  data in {addresses.data_dir}"))
        settled()
        await ending.wait()


async def run(role: Role) -> None:
    """Start one role with the settings of the environment, and stop it on a signal."""
    ending = Ending()
    ending.listen()
    async with _running(role, ending):
        settled()
        await ending.wait()


def _running(role: Role, ending: Ending) -> AbstractAsyncContextManager[object]:
    # Each role has its own imports: only the worker's include the model library.
    match role:
        case "gateway":
            from turnlog.services.gateway.role import running as gateway  # noqa: PLC0415

            return gateway(_settings(GatewaySettings), ending, Bell())
        case "worker":
            from turnlog.services.worker.role import running as worker  # noqa: PLC0415

            return worker(_settings(WorkerSettings), ending)
        case "projector":
            from turnlog.services.projector.role import running as projector  # noqa: PLC0415

            return projector(_settings(ProjectorSettings), ending, Bell())
        case _ as never:
            assert_never(never)


def _settings(kind: type[Settings]) -> Settings:
    settings = read(kind, os.environ)
    log_to(sys.stderr, settings.log_format)
    return settings
