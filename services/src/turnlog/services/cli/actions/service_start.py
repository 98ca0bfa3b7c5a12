"""Start services in this process and stop them on a signal."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Literal, TypeVar, assert_never

from rich.text import Text

from turnlog.projections.store.read.read_your_writes import ProjectionSignal
from turnlog.services.all_in_one import ServiceAddresses, run_all_in_one
from turnlog.services.cli.console import create_error_console
from turnlog.services.cli.environment import read_settings
from turnlog.services.cli.process_log import configure_log
from turnlog.services.cli.views.theme import GOOD
from turnlog.services.platform.gc_control import freeze_live_objects
from turnlog.services.platform.process_settings import (
    AllInOneSettings,
    GatewaySettings,
    ProcessSettings,
    ProjectorSettings,
    WorkerSettings,
)
from turnlog.services.platform.shutdown import Shutdown
from turnlog.services.platform.telemetry.loop_probe import run_loop_probe

ServiceRole = Literal["gateway", "worker", "projector"]

RoleSettings = GatewaySettings | WorkerSettings | ProjectorSettings

_SETTINGS: Final[Mapping[ServiceRole, type[RoleSettings]]] = {
    "gateway": GatewaySettings,
    "worker": WorkerSettings,
    "projector": ProjectorSettings,
}

SettingsT = TypeVar("SettingsT", bound=ProcessSettings)

StartedT = TypeVar("StartedT")


async def run_all_services(overrides: Mapping[str, Any]) -> None:
    """Start all services, print their address, and stop them on a signal."""
    settings = _read_settings(AllInOneSettings, overrides)
    ending = Shutdown()
    ending.handle_signals()
    service = _run_with_probe(
        run_all_in_one(settings, ending), "all-in-one", settings.otlp_endpoint
    )
    await ending.run_until_end(service, _show_addresses)


@asynccontextmanager
async def _run_with_probe(
    service: AbstractAsyncContextManager[StartedT], name: str, endpoint: str | None
) -> AsyncGenerator[StartedT]:
    async with service as started, run_loop_probe(name, endpoint):
        yield started


def _show_addresses(addresses: ServiceAddresses) -> None:
    ready = Text().append("turnlog is up", f"bold {GOOD}").append(f"  {addresses.http}")
    create_error_console().print(ready.append(f"  data in {addresses.data_dir}"))
    freeze_live_objects()


async def run_service_role(role: ServiceRole) -> None:
    """Start one role with the settings of the environment, and stop it on a signal."""
    ending = Shutdown()
    ending.handle_signals()
    settings = _read_settings(_SETTINGS[role])
    service = _run_with_probe(_open_role(settings, ending), role, settings.otlp_endpoint)
    await ending.run_until_end(service, lambda _: freeze_live_objects())


def _open_role(settings: RoleSettings, ending: Shutdown) -> AbstractAsyncContextManager[object]:
    # Each role has its own imports: only the worker's include the model library.
    match settings:
        case GatewaySettings():
            from turnlog.services.gateway.main import run_gateway as gateway  # noqa: PLC0415

            return gateway(settings, ending, ProjectionSignal())
        case WorkerSettings():
            from turnlog.services.worker.worker_process import run_worker as worker  # noqa: PLC0415

            return worker(settings, ending)
        case ProjectorSettings():
            from turnlog.services.projector.main import run_projector as projector  # noqa: PLC0415

            return projector(settings, ending, ProjectionSignal())
        case _ as never:
            assert_never(never)


def _read_settings(kind: type[SettingsT], overrides: Mapping[str, Any] | None = None) -> SettingsT:
    settings = read_settings(kind, os.environ, overrides)
    configure_log(sys.stderr, settings.log_format, minimum_level=settings.log_level)
    return settings
