"""The doctor names each fault of a cluster: a server, a stream, the queue, an open door."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.processes.process_host import find_free_port
from turnlog.events.errors import Unavailable
from turnlog.events.jetstream.jetstream_client import open_client
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.jetstream.stream_state import FollowerState, StreamLayout
from turnlog.services.cli.doctor.check_findings import CheckFinding
from turnlog.services.cli.doctor.nats_checks import (
    STREAMS,
    check_access,
    check_nats,
    check_servers,
    check_streams,
)
from turnlog.services.platform.nats_monitor import ServerFacts
from turnlog.services.platform.nats_server import NatsConfig, NatsServer, find_server_binary
from turnlog.services.platform.process_settings import ProjectorSettings

STARTED = datetime(2026, 11, 26, 20, tzinfo=UTC)

GOOD_SERVER = ServerFacts("n1", "2.15.1", STARTED, syncs_before_ack=True)

FOLLOWERS = (
    FollowerState("n2", is_current=True, lag=0),
    FollowerState("n3", is_current=True, lag=0),
)

GOOD_LAYOUT = StreamLayout(
    replicas=3, compression="none", leader="n1", followers=FOLLOWERS, uncompressed_since=None
)

UPDATED = replace(GOOD_LAYOUT, uncompressed_since=STARTED + timedelta(hours=1))


def list_verdicts(*findings: CheckFinding) -> list[str]:
    return [each.verdict for each in findings]


@pytest.mark.parametrize(
    ("change", "said", "verdict"),
    [
        ({}, "n1 2.15.1, sync_interval always", "good"),
        ({"syncs_before_ack": False}, "acknowledges before fsync", "bad"),
        ({"syncs_before_ack": None}, "its JetStream does not run", "wary"),
    ],
)
def test_doctor_rates_each_server_by_its_monitoring_facts(
    change: dict[str, object], said: str, verdict: str
) -> None:
    facts = replace(GOOD_SERVER, **change)  # type: ignore[arg-type]
    (finding,) = check_servers({"http://n1": facts}, {"SESSIONS": GOOD_LAYOUT})
    assert (finding.verdict, said in finding.said) == (verdict, True)


def test_doctor_names_server_and_streams_that_need_a_restart_to_stop_compression() -> None:
    old, new = GOOD_SERVER, replace(GOOD_SERVER, name="n2", started=STARTED + timedelta(hours=2))
    layouts = {"SESSIONS": UPDATED, "TOKENS": GOOD_LAYOUT}
    findings = [*check_servers({"http://n1": old, "http://n2": new}, layouts)]
    assert list_verdicts(*findings) == ["bad", "good"]
    assert "n1 2.15.1: compresses SESSIONS until it is restarted" in findings[0].said
    assert "SIGTERM" in findings[0].fix


def test_unreachable_server_and_mixed_versions_are_warnings() -> None:
    older = replace(GOOD_SERVER, name="n2", version="2.14.6")
    silent = Unavailable("nats-server monitoring", "connection refused")
    answers: dict[str, ServerFacts | Unavailable] = {
        "http://n1": GOOD_SERVER,
        "http://n2": older,
        "http://n3": silent,
    }
    findings = [*check_servers(answers, {})]
    assert list_verdicts(*findings) == ["good", "good", "wary", "wary"]
    assert "http://n3" in findings[2].said
    assert "versions 2.14.6, 2.15.1" in findings[3].said


@pytest.mark.parametrize(
    ("change", "said", "verdict"),
    [
        ({}, "SESSIONS: 3 replicas each, led by n1", "good"),
        ({"replicas": 1}, "SESSIONS has 1 replica, TURNLOG_REPLICAS is 3", "bad"),
        ({"compression": "s2"}, "a power loss makes it unreadable", "bad"),
        ({"leader": ""}, "SESSIONS has no leader", "bad"),
        (
            {"followers": (FollowerState("n2", is_current=False, lag=7), FOLLOWERS[1])},
            "n2 by 7",
            "wary",
        ),
    ],
)
def test_doctor_compares_each_stream_with_its_configuration(
    change: dict[str, object], said: str, verdict: str
) -> None:
    layout = replace(GOOD_LAYOUT, **change)  # type: ignore[arg-type]
    (finding,) = check_streams({"SESSIONS": layout, "BLOBS": None}, 3)
    assert (finding.verdict, said in finding.said) == (verdict, True)


async def test_doctor_checks_a_real_server_without_creating_streams(tmp_path: Path) -> None:
    async with await NatsServer.start(NatsConfig(data_dir=tmp_path, monitor=True)) as server:
        settings = ProjectorSettings.model_validate(
            {"nats_url": server.url, "nats_monitor": [server.monitor_url]}
        )
        before = {each.what: each for each in await check_nats(settings)}
        assert before["streams"].said == "none yet; the first role that starts makes them"
        assert before["workers"].said == "none has started yet"
        async with open_client(server.url, StreamOptions()):
            after = {each.what: each for each in await check_nats(settings)}
    assert {each.verdict for each in after.values()} == {"good"}
    assert after["streams"].said == f"{', '.join(STREAMS)}: 1 replica each"
    assert "turnlog 2.1" in after["nats-server"].said


async def test_a_nats_that_accepts_clients_without_a_password_is_a_warning(
    tmp_path: Path, nats_url: str
) -> None:
    assert (await check_access(nats_url)).verdict == "good"
    port = find_free_port()
    process = await asyncio.create_subprocess_exec(
        find_server_binary(), "--addr", "127.0.0.1", "--port", str(port), "--log", tmp_path / "log"
    )
    try:
        async with asyncio.timeout(60):
            # As long as it starts, nobody is accepted.
            while (finding := await check_access(f"nats://127.0.0.1:{port}")).verdict == "good":
                pass
    finally:
        process.kill()
        await process.wait()
    assert "accepts clients without a password" in finding.said
