"""A reply that is withheld while it streams, as clients and readers of the service see it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

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
from turnlog.events.model.call_events import AttemptEnded
from turnlog.events.model.redaction_events import ReplyRedacted

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "trick@example.org"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session(room: TutorService) -> AsyncIterator[str]:
    """A session whose second reply was withheld, and whose third call had the note."""
    session = await room.open_session(DRAW)
    await room.submit_and_watch(session, "One", answer_with_text("Hello. "))
    await room.submit_and_watch(session, "Two", answer_with_text("Well. ", FORBIDDEN, "Soon."))
    await room.submit_and_watch(session, "Three", answer_with_text("As I said. "))
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
async def test_the_withheld_text_is_nowhere_that_people_and_programs_read(
    room: TutorService, session: str, place: str
) -> None:
    answer = await room.service.http.get(f"/v1/sessions/{session}{place}")
    assert answer.status_code == 200
    assert SECRET not in answer.text


async def test_the_withheld_text_is_in_no_event_and_in_the_blob_that_one_of_them_names(
    room: TutorService, session: str
) -> None:
    events = await room.load_events(session)
    assert SECRET not in str([each.stored for each in events])
    (redacted,) = [each.event for each in events if isinstance(each.event, ReplyRedacted)]
    assert redacted.withheld
    blob = await room.service.nats.blobs.get_blob("default", redacted.withheld)
    assert blob.decode().startswith("Well. Write to me at trick@example.org. ")
    ended = [each.event for each in events if isinstance(each.event, AttemptEnded)]
    assert [each.usage.known for each in ended] == ["reported", "estimated", "reported"]


async def test_who_watches_later_gets_the_replacement_and_no_token(
    room: TutorService, session: str
) -> None:
    heard = await room.watch_turn(session, 2)
    assert list_event_names(heard) == ["redact"]
    assert heard[0].json["replacement"] == REPLACEMENT


async def test_a_client_that_comes_back_in_between_ends_with_the_replacement_only(
    room: TutorService,
) -> None:
    gate = asyncio.Event()
    room.provider.queue_behaviours(
        ModelAnswer(("Well. ", "So. ", FORBIDDEN, "Soon."), gates={2: gate})
    )
    session = await room.open_session(DRAW)
    turn = await room.service.submit_turn(session, "Who are you?")
    port = room.service.http.base_url.port
    assert port is not None
    async with room.service.watch_turn(session, turn) as answer:
        first = await anext(answer.iterate_events())
    path = f"/v1/sessions/{session}/turns/{turn}/stream"
    watcher = ResumingWatcher(port, path, text=first.json["text"], last_id=first.id)
    gate.set()
    await room.service.wait_for_event(session, ReplyRedacted, turn=turn)
    await watcher.watch_connection()
    assert watcher.names == ["redact"]
    assert watcher.end_event
    assert (watcher.end_event.name, watcher.end_event.json["replacement"]) == (
        "redact",
        REPLACEMENT,
    )
    assert watcher.text == "Well. "


async def test_a_rule_that_holds_nothing_back_is_followed_by_a_redaction_of_what_was_shown(
    provider: OpenAIServer, room: TutorService
) -> None:
    file = room.trickster / "blueprint.yaml"
    shy = file.read_text().replace("hold_back: sentence", "hold_back: none")
    with edit_file(file, shy):
        session = await room.open_session(DRAW)
    pieces = ("Write to trick", "@exa", "mple", ".org or so.")
    provider.queue_behaviours(ModelAnswer(pieces))
    heard = await room.watch_turn(session, await room.service.submit_turn(session, "Who are you?"))
    assert join_tokens(heard) == "".join(pieces[:3])
    assert list_event_names(heard)[-1] == "redact"
    (turn,) = await room.fetch_history(session)
    assert turn["reply"] == REPLACEMENT


async def test_a_reply_that_a_person_withholds_is_replaced_for_whoever_watched_it_to_its_end(
    room: TutorService,
) -> None:
    session = await room.open_session(DRAW)
    heard = await room.submit_and_watch(session, "One", answer_with_text("Hello."))
    assert list_event_names(heard) == ["token", "done"]
    withheld = await room.post_command(session, "redactions", turn=1, reason="too warm")
    assert withheld.status_code == 200
    port = room.service.http.base_url.port
    assert port is not None
    path = f"/v1/sessions/{session}/turns/1/stream"
    watcher = ResumingWatcher(port, path, text="Hello.", last_id=heard[-1].id)
    await watcher.watch_connection()
    assert watcher.names == ["redact"]
    assert watcher.end_event
    assert watcher.end_event.json == {"reason": "too warm", "replacement": REPLACEMENT}
