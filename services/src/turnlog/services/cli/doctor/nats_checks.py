"""Checks of NATS: whether it answers, each of its servers, each stream, and who may use it.

Each check returns findings and changes nothing. What a server says of itself is on its monitoring
page; without the addresses of these pages only what NATS answers itself is checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from turnlog.events.errors import Refused, TurnlogError, Unavailable
from turnlog.events.jetstream.nats_connection import (
    NatsConnection,
    build_service_inbox,
    open_connection,
)
from turnlog.events.jetstream.stream_setup import UNCOMPRESSED
from turnlog.events.jetstream.stream_state import StreamLayout, fetch_stream_layout
from turnlog.events.jetstream.work_queue import fetch_work_queue_state
from turnlog.events.subjects import (
    KEYS_STREAM,
    RECORD_STREAMS,
    SNAPSHOTS_STREAM,
    TOKENS_STREAM,
)
from turnlog.services.cli.doctor.check_findings import (
    CheckFinding,
    report_failure,
    report_good,
    report_warning,
)
from turnlog.services.cli.views.text_format import format_count
from turnlog.services.platform.durability import check_durability
from turnlog.services.platform.nats_monitor import ServerFacts, fetch_servers
from turnlog.services.platform.process_settings import ProcessSettings
from turnlog.services.platform.secret_masking import hide_credentials

STREAMS: Final = (*RECORD_STREAMS, SNAPSHOTS_STREAM, KEYS_STREAM, TOKENS_STREAM)

_RESTART_FIX: Final = "restart it in good order (SIGTERM), one server after the other"

_LAG_FIX: Final = "wait until it has caught up; if it does not, look at the log of that server"


async def check_nats(settings: ProcessSettings) -> tuple[CheckFinding, ...]:
    """Check NATS, its servers, the streams and the queue of turns."""
    url = settings.nats_url.get_secret_value()
    answers = await fetch_servers(settings.nats_monitor)
    try:
        async with open_connection(
            url, name="turnlog-doctor", inbox_prefix=build_service_inbox(url)
        ) as connection:
            layouts = {each: await fetch_stream_layout(connection, each) for each in STREAMS}
            found = (
                *await _check_connection(connection, settings),
                *check_servers(answers, layouts),
                *check_streams(layouts, settings.replicas),
                *await _check_work_queue(connection),
            )
    except TurnlogError as error:
        fix = "start it, or correct TURNLOG_NATS_URL"
        said = f"{hide_credentials(url)}: {error}"
        return report_failure("NATS", said, fix), *check_servers(answers, {})
    return *found, await check_access(url)


async def _check_connection(
    connection: NatsConnection, settings: ProcessSettings
) -> tuple[CheckFinding, ...]:
    """Check JetStream, and that the servers give the durability."""
    address = hide_credentials(settings.nats_url.get_secret_value())
    answer = json.loads((await connection.send_request("$JS.API.INFO")).data)
    if "error" in answer:
        detail = answer["error"].get("description", "it refuses JetStream")
        fix = "enable JetStream for this account"
        return (report_failure("NATS", f"{address}: {detail}", fix),)
    try:
        level = await check_durability(
            settings.durability, settings.replicas, settings.nats_monitor
        )
    except Refused as refused:
        return (report_failure("NATS", f"{address}: {refused.detail}", refused.fix),)
    detail = f"{address}, {level.level}"
    if not level.checked:
        fix = "name the monitoring address of each server in TURNLOG_NATS_MONITOR"
        return (report_warning("NATS", f"{detail}, not confirmed by every server", fix),)
    return (report_good("NATS", detail),)


def check_servers(
    answers: Mapping[str, ServerFacts | Unavailable], layouts: Mapping[str, StreamLayout | None]
) -> Iterator[CheckFinding]:
    """Check each server by what it says of itself."""
    servers = [each for each in answers.values() if isinstance(each, ServerFacts)]
    for monitor, answer in answers.items():
        if isinstance(answer, Unavailable):
            fix = "start that server, or correct its address in TURNLOG_NATS_MONITOR"
            yield report_warning("nats-server", f"{monitor}: {answer.detail}", fix)
        else:
            yield _check_server(answer, layouts)
    versions = {each.version for each in servers}
    if len(versions) > 1:
        fix = "bring all servers to the same version"
        yield report_warning("nats-server", f"versions {', '.join(sorted(versions))}", fix)


def _check_server(facts: ServerFacts, layouts: Mapping[str, StreamLayout | None]) -> CheckFinding:
    said = f"{facts.name} {facts.version}"
    if facts.syncs_before_ack is None:
        fix = "wait until it has started, or look at its log"
        return report_warning("nats-server", f"{said}: its JetStream does not run", fix)
    if not facts.syncs_before_ack:
        fix = "write `sync_interval: always` into the `jetstream` block of its configuration"
        return report_failure("nats-server", f"{said}: acknowledges before fsync", fix)
    still = [
        stream for stream, layout in layouts.items() if layout and _is_started_before(facts, layout)
    ]
    if still:
        detail = f"{said}: compresses {', '.join(still)} until it is restarted, and a power loss"
        return report_failure("nats-server", f"{detail} would make them unreadable", _RESTART_FIX)
    return report_good("nats-server", f"{said}, sync_interval always")


def _is_started_before(facts: ServerFacts, layout: StreamLayout) -> bool:
    """Return whether a server has run since before a stream's compression was turned off."""
    since = layout.uncompressed_since
    return since is not None and facts.started is not None and facts.started <= since


def check_streams(
    layouts: Mapping[str, StreamLayout | None], replicas: int
) -> Iterator[CheckFinding]:
    """Check the replicas and the compression of each stream."""
    made = {stream: layout for stream, layout in layouts.items() if layout is not None}
    if not made:
        yield report_good("streams", "none yet; the first role that starts makes them")
        return
    good = list[str]()
    for stream, layout in made.items():
        finding = _find_stream_fault(stream, layout, replicas)
        if finding is None:
            good.append(stream)
        else:
            yield finding
    if good:
        leaders = {made[stream].leader for stream in good} if replicas > 1 else set[str]()
        led = f", led by {', '.join(sorted(leaders))}" if leaders else ""
        copies = format_count(replicas, "replica")
        yield report_good("streams", f"{', '.join(good)}: {copies} each{led}")


def _find_stream_fault(stream: str, layout: StreamLayout, replicas: int) -> CheckFinding | None:
    if layout.replicas != replicas:
        said = f"{stream} has {format_count(layout.replicas, 'replica')}"
        fix = (
            f"set TURNLOG_REPLICAS={layout.replicas}, or `nats stream edit {stream}"
            f" --replicas {replicas} --compression none`"
        )
        return report_failure("stream", f"{said}, TURNLOG_REPLICAS is {replicas}", fix)
    if layout.replicas > 1 and layout.compression != UNCOMPRESSED:
        said = f"{stream} is compressed and replicated: a power loss makes it unreadable"
        fix = f"start a role, which sets `--compression none`, and {_RESTART_FIX}"
        return report_failure("stream", said, fix)
    if layout.replicas > 1 and not layout.leader:
        return report_failure("stream", f"{stream} has no leader", "start the missing servers")
    behind = [each for each in layout.followers if not each.is_current or each.lag]
    if behind:
        names = ", ".join(f"{each.server} by {each.lag}" for each in behind)
        return report_warning("stream", f"{stream}: replicas behind its leader: {names}", _LAG_FIX)
    return None


async def _check_work_queue(connection: NatsConnection) -> tuple[CheckFinding, ...]:
    """Check whether workers wait for turns; a worker that is busy waits with its other slots."""
    queue = await fetch_work_queue_state(connection)
    if queue is None:
        return (report_good("workers", "none has started yet"),)
    turns = f"{format_count(queue.open_turns, 'open turn')}, {queue.undelivered} undelivered"
    said = f"{format_count(queue.waiting_slots, 'slot')} waiting for a turn, {turns}"
    if queue.waiting_slots:
        return (report_good("workers", said),)
    fix = "start a worker, or look at the `/readyz` of those that run"
    return (report_warning("workers", said, fix),)


async def check_access(url: str) -> CheckFinding:
    """Check that NATS refuses a client without a password, and what protects the connection."""
    first = urlsplit(url.partition(",")[0])
    plain = f"{first.scheme}://{first.netloc.rpartition('@')[2]}"
    try:
        async with open_connection(plain, name="turnlog-doctor", patience=2.0):
            fix = "give NATS a user and a password: who reaches it reads and writes everything"
            return report_warning("access", "NATS accepts clients without a password", fix)
    except Unavailable:
        tls = "with TLS" if first.scheme == "tls" else "without TLS"
        return report_good("access", f"clients without a password are refused; {tls}")
