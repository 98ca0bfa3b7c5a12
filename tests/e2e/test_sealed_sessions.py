"""Sealed sessions: no file of the store has what people and models say, and every reader has it."""

from __future__ import annotations

import asyncio
import json
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from subprocess import run
from typing import Any

import pytest
import pytest_asyncio

from tests.agent_programs.agent_service import (
    answer_with_plan,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.agent_programs.shipped.test_odd_answers import build_frames
from tests.services.media.media_samples import PNG
from tests.support.processes.live_service import TENANT
from tests.support.processes.process_host import ProcessHost, run_turnlog
from tests.support.processes.turnlog_up import TurnlogUp, run_turnlog_up
from tests.support.servers.model_behaviours import RawFrames
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.content import PlainText, compute_digest
from turnlog.events.errors import KeyringMissing
from turnlog.events.jetstream.jetstream_client import add_keys, build_client
from turnlog.events.model.memory_events import HistorySummarised
from turnlog.events.model.tool_events import ToolReturned
from turnlog.events.seals.keyrings import parse_keyring
from turnlog.projections.audit.export.bundle_format import build_blob_path
from turnlog.services.bundle.bundle_unpacking import unpack_bundle
from turnlog.services.seals.keyring_files import KEYRING_FILE

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("a service and a tool server start"),
]

SERVER = ("-m", "tests.support.servers.mcp_http_server")

SUMMARISING_TURN = 7
"""The turn of long ones before which the shipped `uderia` summarises the first."""

MARKER = "qvxmarker"
"""What every text of these sessions has in it, and nothing else."""


def build_sealed_variables(host: ProcessHost) -> dict[str, str]:
    """Return the settings of a service that seals, and has a tool server."""
    file = host.folder / "mcp.json"
    server = {"command": sys.executable, "args": [*SERVER, "--stdio"], "cwd": str(Path.cwd())}
    file.write_text(json.dumps({"mcpServers": {"far": server}}))
    return {
        "TURNLOG_TOOLS": str(file),
        "TURNLOG_SEALING": "on",
        # A picture has 85 tokens with it, and 8,500 with the model of other tests.
        "TURNLOG_MODEL": "openai/heron",
    }


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def sealed_up(host: ProcessHost) -> AsyncIterator[TurnlogUp]:
    async with run_turnlog_up(host, variables=build_sealed_variables(host)) as up:
        yield up


async def run_tool_session(up: TurnlogUp, provider: OpenAIServer) -> str:
    """Run two turns, one with a tool, in which a marker goes in by every way."""
    form = {
        "blueprint": "uderia",
        "profile": "tool_enabled",
        "title": f"{MARKER} title",
        "labels": [f"{MARKER}-label"],
        "metadata": {"note": f"{MARKER} metadata"},
    }
    opened = await up.service.http.post("/v1/sessions", json=form)
    session = str(opened.json()["session"])
    provider.queue_behaviours(
        answer_with_plan((f"{MARKER} goal", ["far_fail"])),
        answer_with_tool_calls(("far_fail", {"why": f"{MARKER} result"})),
        answer_with_tool_calls(("far_rows", {"count": 3})),
        answer_with_text(f"{MARKER} reply"),
    )
    await up.service.run_turn(session, f"{MARKER} question")
    provider.queue_behaviours(answer_with_plan(), answer_with_text(f"{MARKER} second reply"))
    turn = await up.service.run_turn(session, f"{MARKER} second question")
    assert turn["status"] == "completed", turn
    return session


def list_files_with(folder: Path, words: bytes) -> Iterator[str]:
    """Yield the files below a folder that have these words."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        if words in file.read_bytes():
            yield file.relative_to(folder).as_posix()


async def require_verified(up: TurnlogUp, session: str) -> None:
    report = await up.service.get_json(f"/v1/sessions/{session}/verify")
    assert (report["verified"], report["reproduction"]) == (True, "reproduced"), report


async def test_words_of_a_sealed_session_are_in_no_file_of_the_store_and_every_reader_has_them(
    sealed_up: TurnlogUp, provider: OpenAIServer, tmp_path: Path
) -> None:
    service, data = sealed_up.service, sealed_up.ready_file.parent
    session = await run_tool_session(sealed_up, provider)
    history = await service.get_json(f"/v1/sessions/{session}/history")
    assert [turn["reply"] for turn in history["turns"]] == [
        f"{MARKER} reply",
        f"{MARKER} second reply",
    ]
    events = (await service.get_json(f"/v1/sessions/{session}/events"))["events"]
    assert events[0]["data"]["title"] == {"text": f"{MARKER} title"}
    assert events[0]["data"]["sealed_under"] == 1
    assert not any("sealed" in event for event in events)
    call = (await service.list_calls(session))[-1]["call"]
    prompt = await service.get_json(f"/v1/sessions/{session}/calls/{call}/prompt")
    assert prompt["messages"] == provider.exchanges[-1].body["messages"]
    why = await service.get_json(f"/v1/sessions/{session}/calls/{call}/why")
    assert why["said"]["text"] == f"{MARKER} second question"
    await require_verified(sealed_up, session)

    fork = (
        await service.http.post(f"/v1/sessions/{session}/fork", json={"at": len(events)})
    ).json()["session"]
    provider.queue_behaviours(answer_with_plan(), answer_with_text(f"{MARKER} forked reply"))
    await service.run_turn(fork, f"{MARKER} forked question")
    await require_verified(sealed_up, fork)

    assert list(list_files_with(data / "jetstream", MARKER.encode())) == []
    keyring = data / KEYRING_FILE
    assert keyring.stat().st_mode & 0o777 == 0o600
    assert list(list_files_with(data / "jetstream", keyring.read_bytes().split()[1])) == []

    for each in (session, fork):
        exported = await service.http.get(f"/v1/sessions/{each}/export?format=bundle")
        check_bundle(exported.content, tmp_path / each, each)


PICTURE = PNG + (MARKER.encode() + b" in a picture ") * 30_000
"""A picture that is stored in several chunks."""

FILE = f"{MARKER} in a text file".encode()

DRAWN = PNG + f"{MARKER} in a drawn picture".encode()


def answer_with_picture(text: str, picture: bytes) -> RawFrames:
    """Return an answer that is a text and a picture."""
    url = f"data:image/png;base64,{b64encode(picture).decode()}"
    image = {"type": "image_url", "image_url": {"url": url}}
    return build_frames({"content": text}, {"images": [image]})


async def run_media_turn(up: TurnlogUp, session: str, *parts: dict[str, Any]) -> dict[str, Any]:
    form = {"parts": [{"type": "text", "text": f"{MARKER} question"}, *parts]}
    answer = await up.service.http.post(f"/v1/sessions/{session}/turns?wait=60", json=form)
    settled: dict[str, Any] = answer.json()
    assert settled.get("status") == "completed", str(settled)
    return settled


async def read_blob(up: TurnlogUp, digest: str) -> bytes:
    answer = await up.service.http.get(f"/v1/blobs/{digest}")
    assert answer.is_success, answer.text
    return answer.content


async def test_bytes_of_pictures_and_files_are_in_no_file_of_the_store_and_every_reader_has_them(
    sealed_up: TurnlogUp, provider: OpenAIServer, tmp_path: Path
) -> None:
    service, store = sealed_up.service, sealed_up.ready_file.parent / "jetstream"
    uploaded = await service.http.post("/v1/blobs", content=FILE)
    digest = uploaded.json()["digest"]
    assert digest == compute_digest(FILE)
    taken = {"blueprint": "assistant", "session": "_uploads"}
    refused = await service.http.post("/v1/sessions", json=taken)
    assert refused.json()["code"] == "bad-id", refused.text
    assert await read_blob(sealed_up, digest) == FILE
    assert (await service.http.head(f"/v1/blobs/{digest}")).is_success
    session = await service.open_session("assistant")
    provider.queue_behaviours(answer_with_picture(f"{MARKER} reply", DRAWN))
    settled = await run_media_turn(
        sealed_up,
        session,
        {"type": "image", "data": b64encode(PICTURE).decode(), "name": f"{MARKER}.png"},
        {"type": "file", "digest": digest, "name": f"{MARKER}.txt"},
    )
    (drawn,) = settled["reply_parts"]
    assert await read_blob(sealed_up, drawn["digest"]) == DRAWN
    (turn,) = (await service.get_json(f"/v1/sessions/{session}/history"))["turns"]
    digests = [each["digest"] for each in turn["parts"]]
    assert all(each.startswith("hmac-sha256:") for each in (*digests, drawn["digest"]))
    assert [await read_blob(sealed_up, each) for each in digests] == [PICTURE, FILE]

    provider.queue_behaviours(answer_with_text(f"{MARKER} second reply"))
    named = {"type": "image", "digest": drawn["digest"]}
    await run_media_turn(sealed_up, session, named)
    sent: Any = provider.exchanges[-1].body
    assert b64encode(PICTURE).decode() in str(sent["messages"])
    assert b64encode(DRAWN).decode() in str(sent["messages"][-1])
    assert FILE.decode() in str(sent["messages"])
    shown = await service.get_json(f"/v1/sessions/{session}/calls/2.1/prompt")
    assert shown["reference"]["outcome"] == shown["assembly"]["outcome"] == "reproduced"
    history = await service.get_json(f"/v1/sessions/{session}/history")
    (again,) = history["turns"][1]["parts"]
    assert again["digest"] != drawn["digest"]
    assert await read_blob(sealed_up, again["digest"]) == DRAWN
    await require_verified(sealed_up, session)

    at = len((await service.get_json(f"/v1/sessions/{session}/events"))["events"])
    fork = (await service.http.post(f"/v1/sessions/{session}/fork", json={"at": at})).json()
    provider.queue_behaviours(answer_with_text(f"{MARKER} forked reply"))
    await service.run_turn(fork["session"], f"{MARKER} forked question")
    sent = provider.exchanges[-1].body
    assert b64encode(PICTURE).decode() in str(sent["messages"])
    await require_verified(sealed_up, fork["session"])

    assert list(list_files_with(store, MARKER.encode())) == []
    for plain in (PICTURE, FILE, DRAWN):
        plain_digest = compute_digest(plain).removeprefix("sha256:").encode()
        assert list(list_files_with(store, plain_digest)) == []
    exported = await service.http.get(f"/v1/sessions/{session}/export?format=bundle")
    folder = check_bundle(exported.content, tmp_path / session, session)
    bundled = [(folder / build_blob_path(each)).read_bytes() for each in digests]
    assert bundled == [PICTURE, FILE]


LARGE_ROWS = 12_000
"""Rows of a result that is larger than a message."""


async def test_turns_that_are_submitted_at_once_each_have_their_own_picture(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    service = sealed_up.service
    session = await service.open_session("assistant")
    pictures = [PNG + f"{MARKER} {number}".encode() for number in range(4)]
    provider.queue_behaviours(*(answer_with_text(f"{MARKER} reply") for _ in pictures))
    parts = [{"type": "image", "data": b64encode(each).decode()} for each in pictures]
    await asyncio.gather(*(run_media_turn(sealed_up, session, each) for each in parts))
    turns = (await service.get_json(f"/v1/sessions/{session}/history"))["turns"]
    read = [await read_blob(sealed_up, turn["parts"][0]["digest"]) for turn in turns]
    assert sorted(read) == pictures
    await require_verified(sealed_up, session)
    store = sealed_up.ready_file.parent / "jetstream"
    assert list(list_files_with(store, MARKER.encode())) == []


async def test_results_of_tools_are_in_no_file_of_the_store_and_every_reader_has_them(
    sealed_up: TurnlogUp, provider: OpenAIServer, tmp_path: Path
) -> None:
    service = sealed_up.service
    form = {"blueprint": "uderia", "profile": "tool_enabled"}
    session = (await service.http.post("/v1/sessions", json=form)).json()["session"]
    provider.queue_behaviours(
        answer_with_plan((f"{MARKER} goal", ["far_rows"]), (f"{MARKER} too", ["far_draw"])),
        answer_with_tool_calls(("far_rows", {"count": LARGE_ROWS, "width": 80})),
        answer_with_tool_calls(("far_draw", {"picture": b64encode(DRAWN).decode()})),
        answer_with_text(f"{MARKER} reply"),
    )
    turn = await service.run_turn(session, f"{MARKER} question")
    assert turn["status"] == "completed", turn
    returned = await service.wait_for_event(session, ToolReturned)
    assert returned.whole is not None
    digest = returned.whole.digest
    assert digest.startswith("hmac-sha256:")
    assert f"the whole is kept as {digest}" in str(provider.exchanges[-1].body)
    drawing = (await service.list_events_of_type(session, ToolReturned))[-1]
    (drawn,) = drawing.parts
    assert await read_blob(sealed_up, drawn.digest) == DRAWN
    path = f"/v1/sessions/{session}/calls/{returned.call}/tools/{returned.id}"
    whole = (await service.get_json(path))["whole"]
    assert whole == {"digest": digest, "size": returned.whole.size}
    result = await read_blob(sealed_up, digest)
    row = f"thing {LARGE_ROWS // 2}."
    assert row.encode() in result
    assert len(json.loads(result)) == LARGE_ROWS
    await require_verified(sealed_up, session)
    store = sealed_up.ready_file.parent / "jetstream"
    assert list(list_files_with(store, row.encode())) == []
    assert list(list_files_with(store, MARKER.encode())) == []
    exported = await service.http.get(f"/v1/sessions/{session}/export?format=bundle")
    folder = check_bundle(exported.content, tmp_path / session, session)
    assert (folder / build_blob_path(digest)).read_bytes() == result
    assert (folder / build_blob_path(drawn.digest)).read_bytes() == DRAWN


async def test_summary_of_sealed_turns_is_sealed_and_its_prompts_read_back(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    service = sealed_up.service
    session = await service.open_session("uderia")
    topics = ("tide", "berth", "crew", "fare", "wind", "fog", "rope")
    for number, topic in enumerate(topics, 1):
        summary = [answer_with_text(f"{MARKER} summary")] if number == SUMMARISING_TURN else []
        reply = f"{MARKER} reply {number}:" + f" {topic}" * 530
        provider.queue_behaviours(*summary, answer_with_text(reply))
        turn = await service.run_turn(session, f"{MARKER} asks of {topic}")
        assert turn["status"] == "completed", turn
    (summarised,) = await service.list_events_of_type(
        session, HistorySummarised, turn=SUMMARISING_TURN
    )
    assert summarised.summary == PlainText(text=f"{MARKER} summary")
    call = (await service.list_calls(session))[-1]["call"]
    prompt = await service.get_json(f"/v1/sessions/{session}/calls/{call}/prompt")
    assert prompt["messages"] == provider.exchanges[-1].body["messages"]
    assert f"{MARKER} summary" in str(prompt["messages"])
    await require_verified(sealed_up, session)
    withheld = {"turn": 2, "reason": f"{MARKER} reason"}
    answer = await service.http.post(f"/v1/sessions/{session}/redactions", json=withheld)
    assert answer.is_success, answer.text
    events = (await service.get_json(f"/v1/sessions/{session}/events"))["events"]
    assert f"{MARKER} reply 2:" not in json.dumps(events)
    stored = await service.get_json(f"/v1/sessions/{session}/events", stored="true")
    assert f"{MARKER} reply 2:" in json.dumps(stored["events"])
    await require_verified(sealed_up, session)
    assert list(list_files_with(sealed_up.ready_file.parent / "jetstream", MARKER.encode())) == []


def check_bundle(packed: bytes, folder: Path, session: str) -> Path:
    """Verify a bundle with its own verifier, and one of whose events the box was altered.

    Returns its folder.
    """
    folder.mkdir()
    zipped = folder / "bundle.zip"
    zipped.write_bytes(packed)
    unpack_bundle(zipped, folder / "bundle")
    stored = folder / "bundle/sessions" / f"{session}.ndjson"
    assert MARKER.encode() not in stored.read_bytes()
    assert run_verifier(folder / "bundle") == (6, "UNWITNESSED")
    manifest = folder / "bundle/manifest.json"
    listed: dict[str, Any] = json.loads(manifest.read_bytes())
    keys = listed["sessions"][0]["keys"]
    first, second, *_ = keys
    keys[first], keys[second] = keys[second], keys[first]
    manifest.write_text(json.dumps(listed))
    assert run_verifier(folder / "bundle") == (5, "NOT VERIFIED")
    return folder / "bundle"


def run_verifier(folder: Path) -> tuple[int, str]:
    """Run the verifier of a bundle; return its exit code and its verdict."""
    words = [sys.executable, "-I", "verify.py"]
    done = run(words, cwd=folder, capture_output=True, check=False, text=True)
    return done.returncode, done.stdout.splitlines()[-1]


async def run_keyring(up: TurnlogUp, *words: str) -> dict[str, Any]:
    """Run a command on the keyring of a service, and return what it prints as JSON."""
    folder = str(up.ready_file.parent)
    code, printed, errors = await run_turnlog("keyring", *words, "--data-dir", folder, "-o", "json")
    assert code == 0, errors
    answer: dict[str, Any] = json.loads(printed)
    return answer


async def test_generation_is_added_and_retired_while_a_service_runs(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    service, file = sealed_up.service, sealed_up.ready_file.parent / KEYRING_FILE
    early = await run_tool_session(sealed_up, provider)
    before = parse_keyring(file.read_text())
    assert (await run_keyring(sealed_up, "rotate"))["generation"] == 2
    later = await service.open_session("uderia")
    (opened, *_) = (await service.get_json(f"/v1/sessions/{later}/events"))["events"]
    assert opened["data"]["sealed_under"] == 2
    status = await run_keyring(sealed_up, "status")
    first, second = status["generations"]
    assert (first["records"], second["records"], status["newest"]) == (first["records"], 1, 2)
    assert first["records"] > 0

    retired = await run_keyring(sealed_up, "retire", "1")
    assert (retired["rewrapped"], retired["removed"], retired["unfit"]) == (
        first["records"],
        True,
        [],
    )
    assert 1 not in parse_keyring(file.read_text()).keys
    provider.queue_behaviours(answer_with_plan(), answer_with_text(f"{MARKER} late reply"))
    await service.run_turn(early, f"{MARKER} late question")
    await require_verified(sealed_up, early)
    # Who has nothing in memory reads it with what is left of the keyring, and not with the old one.
    connection = replace(service.nats.connection, keys=None)
    left = build_client(add_keys(connection, parse_keyring(file.read_text())))
    last = await left.log.read_last_event(TENANT, early)
    assert last is not None
    history = await left.log.read_range(TENANT, early, None, last)
    assert any("late question" in str(each.event) for each in history)
    with pytest.raises(KeyringMissing):
        await build_client(add_keys(connection, before)).log.read_last_event(TENANT, early)
    code, printed, _ = await run_turnlog(
        "keyring", "retire", "1", "--data-dir", str(sealed_up.ready_file.parent)
    )
    assert code == 0
    assert "no back-up of KEYS made before opens now" in printed


async def test_reader_without_the_keyring_says_which_setting_it_lacks(
    sealed_up: TurnlogUp,
) -> None:
    session = await sealed_up.service.open_session()
    opening = sealed_up.service.nats
    assert await opening.log.read_last_event(TENANT, session)
    plain = build_client(replace(opening.connection, keys=None))
    with pytest.raises(KeyringMissing, match="set TURNLOG_KEYRING to the file with the keys"):
        await plain.log.read_last_event(TENANT, session)
