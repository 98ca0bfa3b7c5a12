"""Start services in this process and stop them on a signal.

Which roles `turnlog up` has in one process is in `services.all_in_one`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, assert_never

from turnlog.projections.store.read.read_your_writes import ProjectionSignal
from turnlog.services.caches.session_snapshots import KEY_FILE
from turnlog.services.cli.environment import read_settings
from turnlog.services.cli.process_log import configure_log
from turnlog.services.platform.concurrency import start_thread_pool
from turnlog.services.platform.lean_imports import import_nats_for
from turnlog.services.platform.nats_server import NatsConfig
from turnlog.services.platform.process_settings import (
    AllInOneSettings,
    GatewaySettings,
    ProcessSettings,
    ProjectorSettings,
    WorkerSettings,
)
from turnlog.services.platform.shutdown import Shutdown
from turnlog.services.platform.telemetry.loop_probe import run_loop_probe
from turnlog.services.platform.telemetry.metrics_export import export_metrics

if TYPE_CHECKING:
    from turnlog.services.all_in_one import ServiceAddresses

ServiceRole = Literal["gateway", "worker", "projector"]

RoleSettings = GatewaySettings | WorkerSettings | ProjectorSettings

ROLE_SETTINGS: Final[Mapping[ServiceRole, type[RoleSettings]]] = {
    "gateway": GatewaySettings,
    "worker": WorkerSettings,
    "projector": ProjectorSettings,
}

SHOWN_EVENTS: Final = frozenset(
    {
        "consumer-created",
        "gateway-listening",
        "keyring-created",
        "model-library-loaded",
        "model-library-loading",
        "nats-password-created",
        "no-keys-asked-for",
        "consumer-password-created",
        "projector-started",
        "sessions-sealed",
        "snapshot-key-created",
        "webhook-key-created",
    }
)
"""What the log says of a start, and a person at a terminal sees in the block at its end."""

SettingsT = TypeVar("SettingsT", bound=ProcessSettings)

StartedT = TypeVar("StartedT")


async def run_all_services(overrides: Mapping[str, Any], on_started: Callable[[], None]) -> None:
    """Start all services, print their address, and stop them on a signal."""
    # A process of one role does without the imports of the others.
    from turnlog.services.all_in_one import run_all_in_one  # noqa: PLC0415
    from turnlog.services.cli.console import create_error_console  # noqa: PLC0415
    from turnlog.services.cli.views.first_screen import (  # noqa: PLC0415
        render_first_screen,
        render_head,
    )
    from turnlog.services.seals.keyring_files import apply_directory_keyring  # noqa: PLC0415

    settings = _read_settings(AllInOneSettings, overrides)
    console = create_error_console()
    has_screen = console.is_terminal and settings.log_format == "console"
    if has_screen:
        configure_log(
            sys.stderr,
            settings.log_format,
            minimum_level=settings.log_level,
            shown_events=SHOWN_EVENTS if settings.log_level != "debug" else (),
        )
    keys = (NatsConfig(data_dir=settings.data_dir).credentials_file, settings.data_dir / KEY_FILE)
    new_keys = tuple(file for file in keys if not file.exists())
    ending = Shutdown()
    ending.handle_signals()
    service = _run_on_prepared_loop(run_all_in_one(settings, ending), "all-in-one", settings)

    def show_addresses(addresses: ServiceAddresses) -> None:
        console.print(render_head(addresses))
        if has_screen:
            found = apply_directory_keyring(settings, creating=False)
            console.print(render_first_screen(addresses, found, new_keys))
        on_started()

    await ending.run_until_end(service, show_addresses)


@asynccontextmanager
async def _run_on_prepared_loop(
    service: AbstractAsyncContextManager[StartedT], name: str, settings: ProcessSettings
) -> AsyncGenerator[StartedT]:
    start_thread_pool()
    async with (
        export_metrics(name, settings.otlp_endpoint, settings.metrics),
        service as started,
        run_loop_probe(),
    ):
        yield started


async def run_service_role(role: ServiceRole, on_started: Callable[[], None]) -> None:
    """Start one role with the settings of the environment, and stop it on a signal."""
    ending = Shutdown()
    ending.handle_signals()
    settings = _read_settings(ROLE_SETTINGS[role])
    service = _run_on_prepared_loop(open_role(settings, ending), role, settings)
    await ending.run_until_end(service, lambda _: on_started())


def open_role(settings: RoleSettings, ending: Shutdown) -> AbstractAsyncContextManager[object]:
    """Import a role, and return what runs it while its body runs."""
    if not isinstance(settings, WorkerSettings):  # Which speaks to models by aiohttp.
        import_nats_for(settings.nats_url.get_secret_value())
    # Each role has its own imports.
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
