"""A reply that is withheld while it streams, as clients and readers of the service see it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from io import BytesIO
from zipfile import ZipFile

import pytest
import pytest_asyncio

from tests.layered_prompts.tutor_service import (
    DRAW,
    FORBIDDEN,
    REPLACEMENT,
    TutorService,
    answer_with_text,
    edit_file,
    join_tokens,
    list_event_names,
)
from tests.services.gateway.streaming.sse_client import ResumingWatcher
from tests.support.servers.model_behaviours import ModelAnswer
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.content import compute_digest, decode_withheld_text
from turnlog.events.model.call_events import find_attempt_end
from turnlog.events.model.redaction_events import ReplyRedacted

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "trick@example.org"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session(tutor_service: TutorService) -> AsyncIterator[str]:
    """A session whose second reply was withheld, and whose third call had the note."""
    session = await tutor_service.open_session(DRAW)
    await tutor_service.submit_and_watch(session, "One", answer_with_text("Hello. "))
    await tutor_service.submit_and_watch(
        session, "Two", answer_with_text("Well. ", FORBIDDEN, "Soon.")
    )
    await tutor_service.submit_and_watch(session, "Three", answer_with_text("As I said. "))
    yield session


@pytest.mark.parametrize(
    "place",
    [
        "",
        "/history",
        "/window",
        "/window?call=debrief",
        "/events",
        "/calls",
        "/turns/2/stream",
        "/calls/2.1/prompt",
        "/calls/3.1/prompt",
        "/verify",
    ],
)
async def test_withheld_text_is_in_no_answer_of_the_service(
    tutor_service: TutorService, session: str, place: str
) -> None:
    answer = await tutor_service.service.http.get(f"/v1/sessions/{session}{place}")
    assert answer.status_code == 200
    assert SECRET not in answer.text


async def test_withheld_text_is_in_no_event_but_in_the_blob_that_one_names(
    tutor_service: TutorService, session: str
) -> None:
    events = await tutor_service.load_events(session)
    assert SECRET not in str([each.stored for each in events])
    (redacted,) = [each.event for each in events if isinstance(each.event, ReplyRedacted)]
    assert redacted.withheld
    blob = await tutor_service.service.nats.blobs.get_blob("default", redacted.withheld)
    text = decode_withheld_text(blob)
    assert text.startswith("Well. Write to me at trick@example.org. ")
    assert decode_withheld_text(text.encode()) == text, "as earlier releases stored it"
    assert compute_digest(text) not in str([each.stored for each in events])
    ended = [end for each in events if (end := find_attempt_end(each.event))]
    assert [each.usage.known for each in ended] == ["reported", "estimated", "reported"]


async def test_later_watcher_receives_the_replacement_and_no_token(
    tutor_service: TutorService, session: str
) -> None:
    received = await tutor_service.watch_turn(session, 2)
    assert list_event_names(received) == ["redact"]
    assert received[0].json["replacement"] == REPLACEMENT


async def test_reconnecting_client_ends_with_the_replacement_only(
    tutor_service: TutorService,
) -> None:
    gate = asyncio.Event()
    tutor_service.provider.queue_behaviours(
        ModelAnswer(tokens=("Well. ", "So. ", FORBIDDEN, "Soon."), gates={2: gate})
    )
    session = await tutor_service.open_session(DRAW)
    turn = await tutor_service.service.submit_turn(session, "Who are you?")
    port = tutor_service.service.http.base_url.port
    assert port is not None
    async with tutor_service.service.watch_turn(session, turn) as answer:
        first = await anext(answer.iterate_events())
    path = f"/v1/sessions/{session}/turns/{turn}/stream"
    watcher = ResumingWatcher(port=port, path=path, text=first.json["text"], last_id=first.id)
    gate.set()
    await tutor_service.service.wait_for_event(session, ReplyRedacted, turn=turn)
    await watcher.watch_connection()
    assert watcher.names == ["redact"]
    assert watcher.end_event
    assert (watcher.end_event.name, watcher.end_event.json["replacement"]) == (
        "redact",
        REPLACEMENT,
    )
    assert watcher.text == "Well. "


async def test_rule_without_hold_back_redacts_text_that_was_already_shown(
    provider: OpenAIServer, tutor_service: TutorService
) -> None:
    file = tutor_service.trickster / "blueprint.yaml"
    shy = file.read_text().replace("hold_back: sentence", "hold_back: none")
    with edit_file(file, shy):
        session = await tutor_service.open_session(DRAW)
    pieces = ("Write to trick", "@exa", "mple", ".org or so.")
    provider.queue_behaviours(ModelAnswer(tokens=pieces))
    received = await tutor_service.watch_turn(
        session, await tutor_service.service.submit_turn(session, "Who are you?")
    )
    assert join_tokens(received) == "".join(pieces[:3])
    assert list_event_names(received)[-1] == "redact"
    (turn,) = await tutor_service.fetch_history(session)
    assert turn["reply"] == REPLACEMENT


async def test_reply_redacted_by_a_person_is_replaced_for_a_watcher_that_saw_its_end(
    tutor_service: TutorService,
) -> None:
    session = await tutor_service.open_session(DRAW)
    received = await tutor_service.submit_and_watch(session, "One", answer_with_text("Hello."))
    assert list_event_names(received) == ["token", "done"]
    withheld = await tutor_service.post_command(session, "redactions", turn=1, reason="too warm")
    assert withheld.status_code == 200
    port = tutor_service.service.http.base_url.port
    assert port is not None
    path = f"/v1/sessions/{session}/turns/1/stream"
    watcher = ResumingWatcher(port=port, path=path, text="Hello.", last_id=received[-1].id)
    await watcher.watch_connection()
    assert watcher.names == ["redact"]
    assert watcher.end_event
    assert watcher.end_event.json == {"reason": "too warm", "replacement": REPLACEMENT}


SHORT = "Zanzibar"
"""A reply so short that a plain digest of it could be guessed."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def redacted_session(tutor_service: TutorService) -> AsyncIterator[str]:
    """A session whose first reply was withheld after a later call had included it."""
    session = await tutor_service.open_session(DRAW)
    await tutor_service.submit_and_watch(session, "One", answer_with_text(SHORT))
    await tutor_service.submit_and_watch(session, "Two", answer_with_text("Later."))
    display = f"/v1/sessions/{session}/turns/1/display"
    shown = await tutor_service.service.http.put(display, json={"reply": f"<b>{SHORT}</b>"})
    assert shown.status_code == 200
    withheld = await tutor_service.post_command(session, "redactions", turn=1, reason="a name")
    assert withheld.status_code == 200
    yield session


LINES = {"Accept": "application/x-ndjson"}


async def read_stream_until_redaction(room: TutorService, path: str, session: str) -> str:
    """Return the data lines of an event stream up to the redaction of a session."""
    lines: list[str] = []
    headers = {"Accept": "text/event-stream"}
    async with room.service.http.stream("GET", path, headers=headers) as answer:
        async for line in answer.aiter_lines():
            lines.append(line)
            if "reply-redacted" in line and session in line:
                break
    return "\n".join(lines)


@pytest.mark.parametrize("form", ["application/json", "application/x-ndjson", "text/event-stream"])
@pytest.mark.parametrize("place", ["/v1/events", "/v1/sessions/{session}/events"])
async def test_reply_redacted_later_is_on_no_event_route_nor_is_its_digest(
    tutor_service: TutorService, redacted_session: str, form: str, place: str
) -> None:
    path = place.format(session=redacted_session)
    if form == "text/event-stream":
        text = await read_stream_until_redaction(tutor_service, path, redacted_session)
    else:
        query = f"{path}?limit=1000"
        text = (await tutor_service.service.http.get(query, headers={"Accept": form})).text
    assert "reply-redacted" in text
    assert SHORT not in text
    assert compute_digest(SHORT).removeprefix("sha256:") not in text
    assert REPLACEMENT in text


@pytest.mark.parametrize(
    "place", ["/history", "/history?at={at}", "/export", "/export?format=chat"]
)
async def test_reply_redacted_later_is_in_no_history_or_export(
    tutor_service: TutorService, redacted_session: str, place: str
) -> None:
    events = await tutor_service.load_events(redacted_session)
    at = next(each.sequence for each in events if isinstance(each.event, ReplyRedacted)) - 1
    url = f"/v1/sessions/{redacted_session}{place.format(at=at)}"
    answer = await tutor_service.service.http.get(url)
    assert answer.status_code == 200
    assert SHORT not in answer.text
    assert REPLACEMENT in answer.text


async def test_event_names_its_redaction_and_the_route_to_its_stored_bytes(
    tutor_service: TutorService, redacted_session: str
) -> None:
    events = await tutor_service.load_events(redacted_session)
    by = next(each.sequence for each in events if isinstance(each.event, ReplyRedacted))
    path = f"/v1/sessions/{redacted_session}/events"
    answer = await tutor_service.service.http.get(f"{path}?types=turn-completed")
    shown = answer.json()["events"]
    assert [each.get("withheldby") for each in shown] == [by, None]
    assert shown[0]["data"]["text"] == {"text": REPLACEMENT}
    assert shown[0]["id"] != events[shown[0]["sequence"] - 1].envelope.id
    (stored,) = (await tutor_service.service.http.get(shown[0]["storedat"])).json()["events"]
    assert (stored["sequence"], stored["data"]["text"]) == (shown[0]["sequence"], {"text": SHORT})


async def test_audit_returns_withheld_words_and_a_bundle_the_stored_bytes_with_a_valid_chain(
    tutor_service: TutorService, redacted_session: str
) -> None:
    path = f"/v1/sessions/{redacted_session}/events"
    opened = (
        await tutor_service.service.http.get(f"{path}?stored=true", headers=LINES)
    ).content.splitlines()
    events = await tutor_service.load_events(redacted_session)
    assert opened == [each.opened_bytes for each in events]
    export = f"/v1/sessions/{redacted_session}/export"
    exported = await tutor_service.service.http.get(export, params={"stored": "true"})
    assert exported.content.splitlines() == opened
    bundle = await tutor_service.service.http.get(export, params={"format": "bundle"})
    with ZipFile(BytesIO(bundle.content)) as files:
        lines = files.read(f"sessions/{redacted_session}.ndjson").splitlines()
    assert lines == [bytes(each.stored) for each in events]
    digests = [compute_digest(line) for line in lines]
    assert [json.loads(line).get("prevhash") for line in lines] == [None, *digests[:-1]]
    verified = await tutor_service.service.get_json(f"/v1/sessions/{redacted_session}/verify")
    assert verified["findings"] == []
