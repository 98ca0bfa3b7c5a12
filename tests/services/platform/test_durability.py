"""What the servers of a cluster say about fsync decides, and a silent one holds nobody up."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from pydantic import JsonValue, ValidationError
from structlog.testing import capture_logs

from tests.support.processes.process_host import find_free_port
from turnlog.events.errors import Refused, Unavailable
from turnlog.services.platform.durability import check_durability
from turnlog.services.platform.nats_monitor import fetch_store_faults
from turnlog.services.platform.process_settings import ProjectorSettings

JetStreamPage = Mapping[str, JsonValue]

SYNCED: JetStreamPage = {"config": {"store_dir": "/store", "sync_always": True}}
UNSYNCED: JetStreamPage = {"config": {"store_dir": "/store", "sync_interval": 120_000_000_000}}
LEAVING: JetStreamPage = {}
"""In lame duck, or before its JetStream has started."""


class MonitorPages(BaseHTTPRequestHandler):
    """The monitoring pages of one nats-server."""

    name: str
    jetstream: JetStreamPage
    fault: str | None

    def do_GET(self) -> None:
        page: dict[str, JsonValue] = {"status": "ok"}
        if self.path.endswith("varz"):
            start = "2026-11-26T20:00:00Z"
            page = {"server_name": self.name, "version": "2.15.1", "start": start}
            page["jetstream"] = dict(self.jetstream)
        elif self.fault:
            page = {"status": "unavailable", "error": self.fault}
        self.send_response(503 if "error" in page else 200)
        self.end_headers()
        self.wfile.write(json.dumps(page).encode())

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - as its base
        """Print nothing."""


@contextmanager
def serve_monitors(
    *servers: JetStreamPage, faults: Mapping[int, str] | None = None
) -> Generator[list[str]]:
    """Serve the pages of so many servers and yield their addresses."""
    with ExitStack() as stack:
        addresses: list[str] = []
        for number, jetstream in enumerate(servers):
            fields = {
                "name": f"n{number}",
                "jetstream": jetstream,
                "fault": (faults or {}).get(number),
            }
            handler = type("Handler", (MonitorPages,), fields)
            listener = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), handler))
            Thread(target=listener.serve_forever, args=(0.01,), daemon=True).start()
            stack.callback(listener.shutdown)
            addresses.append(f"http://127.0.0.1:{listener.server_port}")
        yield addresses


def find_silent_monitor() -> str:
    return f"http://127.0.0.1:{find_free_port()}"


async def test_durability_is_checked_when_every_server_confirms_it() -> None:
    with serve_monitors(SYNCED, SYNCED, SYNCED) as monitors:
        durability = await check_durability("replicated", 3, monitors)
    assert (durability.level, durability.checked) == ("replicated", True)


async def test_one_server_without_fsync_is_refused_by_name() -> None:
    with serve_monitors(SYNCED, UNSYNCED, SYNCED) as monitors:
        with pytest.raises(Refused, match="nats-server n1 acknowledges before fsync") as refused:
            await check_durability("replicated", 3, monitors)
        assert "sync_interval: always" in refused.value.fix
        assert (await check_durability("relaxed", 3, monitors)).level == "relaxed"


@pytest.mark.parametrize("first", ["silent", "leaving"])
async def test_unreachable_server_leaves_durability_unchecked_without_failing_the_start(
    first: str,
) -> None:
    with serve_monitors(LEAVING, SYNCED, SYNCED) as monitors:
        if first == "silent":
            monitors[0] = find_silent_monitor()
        with capture_logs() as logs:
            durability = await check_durability("replicated", 3, monitors)
    assert not durability.checked
    (log,) = logs
    assert log["event"] == "durability-check-failed"
    assert (monitors[0] if first == "silent" else "n0") in log["detail"]


async def test_start_without_any_monitor_response_leaves_durability_unchecked() -> None:
    durability = await check_durability("fsync-acked", 1, [find_silent_monitor()])
    assert not durability.checked
    with pytest.raises(Unavailable):
        await durability.require_promised()


async def test_store_faults_are_reported_for_each_server() -> None:
    with serve_monitors(SYNCED, SYNCED, faults={0: "disk full"}) as monitors:
        found = await fetch_store_faults([*monitors, silent := find_silent_monitor()])
    assert [found[monitor] for monitor in monitors] == ["disk full", None]
    assert isinstance(found[silent], Unavailable)


def test_monitors_are_a_list_of_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNLOG_NATS_MONITOR", "http://n1:8222, http://n2:8222/,https://n3/nats")
    expected = ("http://n1:8222", "http://n2:8222", "https://n3/nats")
    assert ProjectorSettings().nats_monitor == expected
    monkeypatch.setenv("TURNLOG_NATS_MONITOR", "n1:8222")
    with pytest.raises(ValidationError, match="http://host:8222"):
        ProjectorSettings()
