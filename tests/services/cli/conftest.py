from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.processes.blocking_turnlog_up import BlockingTurnlogUp, run_blocking_turnlog_up
from turnlog.services.cli.main import main


@dataclass(frozen=True)
class CommandResult:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - it is what the test says it is
        return json.loads(self.out)


RunCommand = Callable[..., CommandResult]


@pytest.fixture
def turnlog(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunCommand:
    """Run a command in this process."""
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments: str | Path) -> CommandResult:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        output = capsys.readouterr()
        return CommandResult(int(ended.value.code or 0), output.out, output.err)

    return run


TYPED_BLUEPRINT = """
blueprint: typed
version: 1
inputs:
  name: {type: text}
  count: {type: int, min: 1, max: 9}
layers:
  persona: {text: "You are terse.", keep: always}
  name: {input: name}
calls:
  reply: {messages: [{system: [persona, name]}, {user: [input]}]}
profiles:
  chat: {default: true, call: reply}
"""


@dataclass(frozen=True)
class RecordedSession:
    """A service with a session of three turns: one plain, one redacted, one excluded."""

    up: BlockingTurnlogUp
    session: str

    @property
    def here(self) -> tuple[str, str]:
        return "--data-dir", str(self.up.data_dir)


SESSION_QUESTIONS = ("Hello!", "What does the log hold?", "And how is it proven?")


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordedSession]:
    folder = tmp_path_factory.mktemp("played")
    (folder / "typed").mkdir()
    (folder / "typed" / "blueprint.yaml").write_text(TYPED_BLUEPRINT)
    with (
        run_blocking_turnlog_up(folder / "data", "--blueprints", str(folder)) as up,
        httpx.Client(base_url=up.http, timeout=100) as client,
    ):
        yield RecordedSession(up, record_session(client))


def record_session(client: httpx.Client) -> str:
    """Run the conversation that the tests read and return the session id."""
    body = {"blueprint": "assistant", "attributes": {"language": "Dutch"}}
    session = str(client.post("/v1/sessions", json=body).raise_for_status().json()["session"])
    session_path = f"/v1/sessions/{session}"
    for text in SESSION_QUESTIONS:
        client.post(f"{session_path}/turns?wait=90", json={"text": text}).raise_for_status()
    redaction = {"turn": 2, "reason": "asked for"}
    client.post(f"{session_path}/redactions", json=redaction).raise_for_status()
    excluded = client.put(f"{session_path}/turns/3/exclusion").raise_for_status().json()
    # Lists are read from rows, which follow the log.
    rows = {"min_sequence": f"{session}:{excluded['sequence']}"}
    client.get("/v1/sessions", params=rows).raise_for_status()
    return session
