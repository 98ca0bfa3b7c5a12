"""The doctor examines the set-up that is configured, and the machine as far as that needs it.

Variables that only roles of their own use (`PROVIDED_BY_UP`) say that these are the set-up: then
their NATS and their database are examined. Otherwise it is a data directory.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from pathlib import Path

from turnlog.services.cli.client.service_location import is_answering, read_ready_address
from turnlog.services.cli.doctor import (
    machine_checks,
    nats_checks,
    setup_checks,
    webhook_checks,
)
from turnlog.services.cli.doctor.check_findings import (
    CheckFinding,
    report_failure,
    report_good,
)
from turnlog.services.cli.environment import format_variable, read_settings
from turnlog.services.cli.options import CHECKPOINTS_VARIABLE, ServiceTarget
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


Check = Callable[
    [], CheckFinding | tuple[CheckFinding, ...] | Awaitable[CheckFinding | tuple[CheckFinding, ...]]
]
"""Something that is looked at; what it finds."""


async def run_named_checks(*checks: tuple[str, Check]) -> tuple[CheckFinding, ...]:
    """Run checks by their names. One that raises is a finding itself, and never the end."""
    findings: list[CheckFinding] = []
    for what, check in checks:
        try:
            found = check()
            found = await found if isawaitable(found) else found
        except Exception as error:  # noqa: BLE001 - the rest is still looked at
            found = report_failure(what, _describe_crash(error), "report this with the line above")
        findings += found if isinstance(found, tuple) else (found,)
    return tuple(findings)


def _describe_crash(error: Exception) -> str:
    """Return what a check raised, and where, without the values that messages may repeat."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    return f"the check itself failed: {type(error).__name__} at {place}"


async def _check_roles(
    target: ServiceTarget, environ: Mapping[str, str], chosen_by: str
) -> tuple[CheckFinding, ...]:
    gateway = read_settings(GatewaySettings, environ)
    worker = read_settings(WorkerSettings, environ)
    database = gateway.database_url.get_secret_value()
    address = target.url or f"http://{gateway.http}"
    return (
        report_good("set-up", f"roles of their own, because of {chosen_by}"),
        *await run_named_checks(
            ("NATS", lambda: nats_checks.check_nats(gateway)),
            ("read models", lambda: setup_checks.check_database(database)),
            (
                "sessions",
                lambda: setup_checks.check_stopped_sessions(database, gateway.tenant),
            ),
            ("snapshot key", lambda: setup_checks.check_shared_key(gateway)),
            ("HTTP", lambda: _check_http(gateway.http, _find_running(address))),
            ("webhooks", lambda: webhook_checks.check_webhooks(_find_running(address))),
            *_list_content_checks(gateway, worker, environ),
        ),
    )


async def _check_directory(
    target: ServiceTarget, environ: Mapping[str, str]
) -> tuple[CheckFinding, ...]:
    settings = read_settings(AllInOneSettings, environ, {"data_dir": target.data_dir})
    data_dir, database = settings.data_dir, settings.directory_database_url
    running = _find_running(target.url or read_ready_address(data_dir))
    return (
        report_good("set-up", f"data directory {data_dir.absolute()}, as `turnlog up` opens it"),
        *await run_named_checks(
            ("nats-server", machine_checks.check_nats_binary),
            ("JetStream", machine_checks.check_jetstream),
            ("data directory", lambda: machine_checks.check_data_dir(data_dir)),
            ("disk", lambda: machine_checks.check_disk(data_dir)),
            ("HTTP", lambda: _check_http(settings.http, running)),
            ("webhooks", lambda: webhook_checks.check_webhooks(running)),
            ("NATS", lambda: () if running else _check_nats_port(settings)),
            ("clock", lambda: machine_checks.check_clock(data_dir)),
            ("read models", lambda: setup_checks.check_database(database)),
            (
                "sessions",
                lambda: setup_checks.check_stopped_sessions(database, settings.tenant),
            ),
            ("snapshot key", lambda: setup_checks.check_directory_key(settings)),
            ("checkpoints", lambda: _check_checkpoints(data_dir, environ)),
            *_list_content_checks(settings, settings, environ),
        ),
    )


def _check_checkpoints(data_dir: Path, environ: Mapping[str, str]) -> CheckFinding:
    folder = environ.get(CHECKPOINTS_VARIABLE)
    if folder:
        return setup_checks.check_checkpoint_folder(Path(folder))
    return setup_checks.check_checkpoints(data_dir)


def _list_content_checks(
    gateway: GatewaySettings, worker: WorkerSettings, environ: Mapping[str, str]
) -> tuple[tuple[str, Check], ...]:
    return (
        ("blueprints", lambda: setup_checks.check_blueprints(gateway)),
        ("tools", lambda: setup_checks.check_tools(gateway.tools, environ)),
        ("prices", lambda: setup_checks.check_prices(gateway.prices)),
        ("dialects", lambda: setup_checks.check_dialects(worker.model_dialects)),
        ("model", lambda: setup_checks.check_model(worker, environ)),
        ("litellm", machine_checks.check_model_library),
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
