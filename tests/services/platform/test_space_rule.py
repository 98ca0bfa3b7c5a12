"""When a nats-server whose store was full, or that hangs, is restarted."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from turnlog.services.integrity.nats_server_restart import (
    SILENT_REASON,
    can_gain_room,
    find_restart_reason,
)

MEGABYTE = 1024 * 1024


@pytest.mark.parametrize(
    ("room", "is_stuck", "free", "helps"),
    [
        (0, False, 400, True),
        (0, False, 10, False),  # At its limit on a disk that did not grow.
        (50, False, 400, False),  # It takes writes.
        (30, True, 400, True),
        (30, True, 1, False),  # The disk is still full.
        (-5, False, 400, True),
    ],
)
def test_server_restarts_only_if_it_refuses_writes_and_would_gain_space(
    room: int, free: int, *, is_stuck: bool, helps: bool
) -> None:
    gains = can_gain_room(room * MEGABYTE, is_stuck=is_stuck, free=free * MEGABYTE)
    assert gains is helps


@contextmanager
def run_monitor(pages: Mapping[str, object]) -> Generator[str]:
    """Serve pages of a nats-server's monitoring address; for any other it does not answer."""

    class Monitor(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path not in pages:
                self.close_connection = True
                return
            body = json.dumps(pages[self.path]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Monitor) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


ROOM = {"config": {"max_storage": 500 * MEGABYTE}, "storage": 100 * MEGABYTE}
FULL = {"config": {"max_storage": MEGABYTE}, "storage": MEGABYTE}


def test_server_that_does_not_report_its_streams_counts_as_hanging(
    tmp_path: Path,
) -> None:
    with run_monitor({"/jsz": ROOM}) as monitor:
        assert find_restart_reason(monitor, tmp_path) == SILENT_REASON
    with run_monitor({}) as monitor:
        assert find_restart_reason(monitor, tmp_path) is None
    assert find_restart_reason(monitor, tmp_path) is None


def test_healthy_server_is_not_restarted(tmp_path: Path) -> None:
    with run_monitor({"/jsz": ROOM, "/healthz": {"status": "ok"}}) as monitor:
        assert find_restart_reason(monitor, tmp_path) is None


def test_restart_reason_quotes_the_write_error_of_the_server(tmp_path: Path) -> None:
    unwell = {"status": "unavailable", "error": "write error: no space left on device"}
    with run_monitor({"/jsz": ROOM, "/healthz": unwell}) as monitor:
        reason = find_restart_reason(monitor, tmp_path)
    assert reason == "it has space, and took no writes: write error: no space left on device"
    with run_monitor({"/jsz": FULL, "/healthz": {"status": "ok"}}) as monitor:
        reason = find_restart_reason(monitor, tmp_path)
    assert reason == "it has space, and took no writes: its store was full"
