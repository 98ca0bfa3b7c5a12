"""Commands on what is listed from rows end once lists show what they did."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.services.cli.conftest import RunCommand
from turnlog.services.cli.client.row_waiting import BEHIND_NOTICE

KNOWLEDGE: dict[str, object] = {
    "collection": "harbour",
    "added": 1,
    "edited": 0,
    "removed": 0,
    "sequence": 7,
}

ANSWERS: dict[tuple[str, str], dict[str, object]] = {
    ("PUT", "knowledge"): KNOWLEDGE,
    ("DELETE", "knowledge"): KNOWLEDGE,
    ("POST", "knowledge"): KNOWLEDGE,
    ("POST", "segments"): {"segment": 1, "version": 1, "sequence": 7},
    ("PATCH", "segments"): {"segment": 1, "version": 1, "sequence": 7},
    ("GET", "knowledge"): {"collections": [], "sequence": 7},
    ("GET", "segments"): {"segments": [], "next": None},
}


SentRequest = tuple[str, str, dict[str, list[str]]]
"""A method, the first part of the path, and the query parameters."""


@dataclass
class RecordingService:
    """A service that records requests, and whose read models may never follow the log."""

    is_behind: bool = False
    requests: list[SentRequest] = field(default_factory=list[SentRequest])
    address: str = ""


class RecordingHandler(BaseHTTPRequestHandler):
    service: ClassVar[RecordingService]

    def answer_request(self) -> None:
        """Record a request and answer it."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        url = urlsplit(self.path)
        part = url.path.split("/")[2]
        self.service.requests.append((self.command, part, parse_qs(url.query)))
        status, answer = HTTPStatus.OK, ANSWERS[self.command, part]
        if url.path.endswith("/segments/import"):
            answer = {"added": [1], "edited": [], "rows": 1, "sequence": 7}
        if self.command == "GET" and self.service.is_behind:
            status = HTTPStatus.GATEWAY_TIMEOUT
            answer = {"code": "behind", "detail": "not reached", "status": status}
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = answer_request  # noqa: N815 - their names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        """Write nothing."""


@pytest.fixture
def service() -> Iterator[RecordingService]:
    recording = RecordingService()
    handler = type("Handler", (RecordingHandler,), {"service": recording})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        recording.address = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield recording
        server.shutdown()
        thread.join()


COMMANDS = [
    ("knowledge", "add", "harbour", "Gulls."),
    ("knowledge", "remove", "harbour", "gulls"),
    ("knowledge", "remove", "harbour", "--all"),
    ("knowledge", "import", "harbour", "FILES/knowledge.md"),
    ("segments", "add", "npc", "She waves."),
    ("segments", "edit", "1", "He shrugs."),
    ("segments", "deactivate", "1"),
    ("segments", "import", "FILES/rows.yaml"),
]


def run_listed_command(
    turnlog: RunCommand, service: RecordingService, folder: Path, command: tuple[str, ...]
) -> tuple[int, str]:
    (folder / "knowledge.md").write_text("# Gulls\nThey cry.\n")
    (folder / "rows.yaml").write_text("- {id: 1, scope: core, content: You lead a game.}\n")
    words = (word.replace("FILES", str(folder)) for word in command)
    ran = turnlog(*words, "--url", service.address)
    return ran.code, ran.err


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_command_ends_once_rows_contain_its_sequence(
    turnlog: RunCommand, service: RecordingService, tmp_path: Path, command: tuple[str, ...]
) -> None:
    ran = run_listed_command(turnlog, service, tmp_path, command)
    assert ran == (0, ""), "nothing to notice"
    assert len(service.requests) == 2
    method, part, query = service.requests[-1]
    assert (method, part, query["min_sequence"]) == ("GET", command[0], ["7"])


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_command_whose_rows_do_not_come_has_succeeded_and_says_so(
    turnlog: RunCommand, service: RecordingService, tmp_path: Path, command: tuple[str, ...]
) -> None:
    service.is_behind = True
    code, notice = run_listed_command(turnlog, service, tmp_path, command)
    assert (code, notice.strip()) == (0, BEHIND_NOTICE)
