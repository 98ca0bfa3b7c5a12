"""The doctor examines the set-up that is configured, and the machine as far as that needs it.

Variables that only roles of their own use (`PROVIDED_BY_UP`) say that these are the set-up: then
their NATS and their database are examined. Otherwise it is a data directory.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from turnlog.services.cli.client.service_location import is_answering, read_ready_address
from turnlog.services.cli.doctor import cluster_checks, machine_checks, setup_checks
from turnlog.services.cli.doctor.check_findings import CheckFinding, report_good
from turnlog.services.cli.environment import format_variable, read_settings
from turnlog.services.cli.options import ServiceTarget
from turnlog.services.cli.process_log import configure_log
from turnlog.services.platform.nats_server import choose_address
from turnlog.services.platform.process_settings import (
    PROVIDED_BY_UP,
    AllInOneSettings,
    GatewaySettings,
    WorkerSettings,
)


async def run_checks(target: ServiceTarget, environ: Mapping[str, str]) -> tuple[CheckFinding, ...]:
    """Run the checks of the configured set-up; nothing is changed."""
    configure_log(sys.stderr, "console", minimum_level="error")
    variables = [format_variable(name) for name in PROVIDED_BY_UP]
    chosen = [name for name in variables if environ.get(name)]
    if chosen:
        return await _check_roles(target, environ, ", ".join(chosen))
    return await _check_directory(target, environ)


async def _check_roles(
    target: ServiceTarget, environ: Mapping[str, str], chosen_by: str
) -> tuple[CheckFinding, ...]:
    gateway = read_settings(GatewaySettings, environ)
    worker = read_settings(WorkerSettings, environ)
    return (
        report_good("set-up", f"roles of their own, because of {chosen_by}"),
        *await cluster_checks.check_nats(gateway),
        await setup_checks.check_database(gateway.database_url.get_secret_value()),
        await setup_checks.check_stopped_sessions(
            gateway.database_url.get_secret_value(), gateway.tenant
        ),
        setup_checks.check_shared_key(gateway),
        _check_http(gateway.http, _find_running(target.url or f"http://{gateway.http}")),
        *_check_contents(gateway, worker, environ),
    )


async def _check_directory(
    target: ServiceTarget, environ: Mapping[str, str]
) -> tuple[CheckFinding, ...]:
    settings = read_settings(AllInOneSettings, environ, {"data_dir": target.data_dir})
    data_dir = settings.data_dir
    running = _find_running(target.url or read_ready_address(data_dir))
    return (
        report_good("set-up", f"data directory {data_dir.absolute()}, as `turnlog up` opens it"),
        await machine_checks.check_nats_binary(),
        *await machine_checks.check_jetstream(),
        machine_checks.check_data_dir(data_dir),
        machine_checks.check_disk(data_dir),
        _check_http(settings.http, running),
        *([] if running else [_check_nats_port(settings)]),
        machine_checks.check_clock(data_dir),
        await setup_checks.check_database(settings.directory_database_url),
        await setup_checks.check_stopped_sessions(settings.directory_database_url, settings.tenant),
        setup_checks.check_directory_key(settings),
        setup_checks.check_checkpoints(data_dir),
        *_check_contents(settings, settings, environ),
    )


def _check_contents(
    gateway: GatewaySettings, worker: WorkerSettings, environ: Mapping[str, str]
) -> tuple[CheckFinding, ...]:
    return (
        setup_checks.check_blueprints(gateway),
        setup_checks.check_tools(gateway.tools, environ),
        setup_checks.check_prices(gateway.prices),
        setup_checks.check_model(worker, environ),
        machine_checks.check_model_library(),
    )


def _find_running(address: str | None) -> str | None:
    return address if address is not None and is_answering(address) else None


def _check_http(address: str, running: str | None) -> CheckFinding:
    if running is not None:
        return report_good("HTTP", f"{running} answers")
    return machine_checks.check_port("HTTP", address, "--http")


def _check_nats_port(settings: AllInOneSettings) -> CheckFinding:
    address = choose_address(settings.data_dir, settings.nats)
    return machine_checks.check_port("NATS", address, "--nats")
