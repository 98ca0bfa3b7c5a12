"""A reply that is withheld while it streams, as clients and readers of the service see it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.parts.openai_behaviours import Answer
from tests.parts.openai_server import OpenAIServer
from tests.services.gateway.watching import Watcher
from tests.tutor.classroom import (
    DRAW,
    FORBIDDEN,
    REPLACEMENT,
    Classroom,
    edited,
    names,
    said,
    shown,
)
from turnlog.events.model.call_events import AttemptEnded
from turnlog.events.model.redaction_events import ReplyRedacted

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "trick@example.org"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session(room: Classroom) -> AsyncIterator[str]:
    """A session whose second reply was withheld, and whose third call had the note."""
    session = await room.open(DRAW)
    await room.say(session, "One", said("Hello. "))
    await room.say(session, "Two", said("Well. ", FORBIDDEN, "Soon."))
    await room.say(session, "Three", said("As I said. "))
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
    room: Classroom, session: str, place: str
) -> None:
    answer = await room.service.http.get(f"/v1/sessions/{session}{place}")
    assert answer.status_code == 200
    assert SECRET not in answer.text


async def test_the_withheld_text_is_in_no_event_and_in_the_blob_that_one_of_them_names(
    room: Classroom, session: str
) -> None:
    events = await room.events(session)
    assert SECRET not in str([each.stored for each in events])
    (redacted,) = [each.event for each in events if isinstance(each.event, ReplyRedacted)]
    assert redacted.withheld
    blob = await room.service.nats.blobs.get_blob("default", redacted.withheld)
    assert blob.decode().startswith("Well. Write to me at trick@example.org. ")
    ended = [each.event for each in events if isinstance(each.event, AttemptEnded)]
    assert [each.usage.known for each in ended] == ["reported", "estimated", "reported"]


async def test_who_watches_later_gets_the_replacement_and_no_token(
    room: Classroom, session: str
) -> None:
    heard = await room.heard(session, 2)
    assert names(heard) == ["redact"]
    assert heard[0].json["replacement"] == REPLACEMENT


async def test_a_client_that_comes_back_in_between_ends_with_the_replacement_only(
    room: Classroom,
) -> None:
    gate = asyncio.Event()
    room.provider.will(Answer(("Well. ", "So. ", FORBIDDEN, "Soon."), gates={2: gate}))
    session = await room.open(DRAW)
    turn = await room.service.submit(session, "Who are you?")
    port = room.service.http.base_url.port
    assert port is not None
    async with room.service.watching(session, turn) as answer:
        first = await anext(answer.events())
    path = f"/v1/sessions/{session}/turns/{turn}/stream"
    watcher = Watcher(port, path, text=first.json["text"], last_id=first.id)
    gate.set()
    await room.service.until(session, ReplyRedacted, turn=turn)
    await watcher.watch()
    assert watcher.names == ["redact"]
    assert watcher.end
    assert (watcher.end.name, watcher.end.json["replacement"]) == ("redact", REPLACEMENT)
    assert watcher.text == "Well. "


async def test_a_rule_that_holds_nothing_back_is_followed_by_a_redaction_of_what_was_shown(
    provider: OpenAIServer, room: Classroom
) -> None:
    file = room.trickster / "blueprint.yaml"
    shy = file.read_text().replace("hold_back: sentence", "hold_back: none")
    with edited(file, shy):
        session = await room.open(DRAW)
    pieces = ("Write to trick", "@exa", "mple", ".org or so.")
    provider.will(Answer(pieces))
    heard = await room.heard(session, await room.service.submit(session, "Who are you?"))
    assert shown(heard) == "".join(pieces[:3])
    assert names(heard)[-1] == "redact"
    (turn,) = await room.history(session)
    assert turn["reply"] == REPLACEMENT


async def test_a_reply_that_a_person_withholds_is_replaced_for_whoever_watched_it_to_its_end(
    room: Classroom,
) -> None:
    session = await room.open(DRAW)
    heard = await room.say(session, "One", said("Hello."))
    assert names(heard) == ["token", "done"]
    withheld = await room.post(session, "redactions", turn=1, reason="too warm")
    assert withheld.status_code == 200
    port = room.service.http.base_url.port
    assert port is not None
    path = f"/v1/sessions/{session}/turns/1/stream"
    watcher = Watcher(port, path, text="Hello.", last_id=heard[-1].id)
    await watcher.watch()
    assert watcher.names == ["redact"]
    assert watcher.end
    assert watcher.end.json == {"reason": "too warm", "replacement": REPLACEMENT}
