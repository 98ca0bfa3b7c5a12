"""What comes with answers and results of tools is bounded: by each of them, and by the process."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterable
from dataclasses import replace

import pytest
from mcp_types import CallToolResult, ImageContent, TextContent

from tests.services.media.media_samples import PNG
from tests.services.worker.test_calls_with_media import NotedRoom
from tests.support.sessions.session_harness import SessionHarness
from turnlog.events.async_tasks import run_tasks
from turnlog.events.content import Digest, PlainText
from turnlog.events.model.call_events import AttemptEnded
from turnlog.events.model.content_parts import MAX_MEDIA_BYTES, MediaPart
from turnlog.events.model.quota_events import MediaBalance
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.events.store.media_chunks import StoredMedia
from turnlog.events.store.memory_log import MemoryMediaStore
from turnlog.projections.quotas.media_limits import MediaLimitReached
from turnlog.services.media.incoming_media import MAX_INCOMING_BYTES, IncomingMedia
from turnlog.services.worker.attempts.answer_parts import AnswerMediaIntake
from turnlog.services.worker.media_room import MediaRoom
from turnlog.services.worker.model.model_types import MediaDelta, ModelFailure
from turnlog.services.worker.tools.mcp_contents import convert_result
from turnlog.services.worker.tools.result_media import store_result_media
from turnlog.services.worker.tools.result_room import use_result_share
from turnlog.services.worker.turn_delivery import DeliverySettled

ENCODED = b64encode(PNG).decode()

PICTURE = MediaDelta((ENCODED,), "image/png", "heron.png")


LARGE = MediaDelta((b64encode(bytes(MAX_MEDIA_BYTES)).decode(),), "image/png")


def build_part(size: int) -> MediaPart:
    """Return a part that an answer has already."""
    digest: Digest = f"sha256:{'a' * 64}"
    return MediaPart(kind="image", digest=digest, size=size, media_type="image/png")


async def test_answer_with_more_media_than_one_may_have_fails_before_they_are_stored() -> None:
    store = MemoryMediaStore()
    intake = AnswerMediaIntake(store, MediaRoom())
    before = (build_part(MAX_MEDIA_BYTES), build_part(MAX_MEDIA_BYTES - len(PNG)))
    await intake.store_part("t", PICTURE, 0, before)
    assert len(store.media) == 1
    store.media.clear()
    one_more = (*before, build_part(len(PNG)))
    with pytest.raises(ModelFailure, match="too_long") as failed:
        await intake.store_part("t", PICTURE, 0, one_more)
    assert f"more than {MAX_INCOMING_BYTES} bytes" in failed.value.detail
    assert store.media == {}


class FullMediaStore(MemoryMediaStore):
    """A store whose tenants have reached their limits."""

    async def put_media(
        self,
        tenant: str,
        data: AsyncIterable[bytes],
        *,
        most_bytes: int,
        expected: Digest | None = None,
    ) -> StoredMedia:
        """Refuse what comes."""
        del tenant, data, most_bytes, expected
        raise MediaLimitReached(MediaBalance(limit=10, stored=10, items=1), len(PNG))


async def test_answer_whose_picture_has_no_room_is_recorded_with_a_line_that_says_so() -> None:
    house = SessionHarness(media=FullMediaStore())
    await house.open_session()
    house.model.scripts = [["Here: ", PICTURE, "A heron."]]
    event = await house.submit_turn("Show me a heron.")
    assert await house.run_turn(event, house.build_worker()) == DeliverySettled()
    events = [each.event for each in house.list_events()]
    (completed,) = [each for each in events if isinstance(each, TurnCompleted)]
    line = f"(image/png, {len(PNG)} bytes, not stored: the limit of media is reached)"
    assert (completed.parts, completed.text) == ((), PlainText(text=f"Here: \n{line}\nA heron."))


async def test_result_whose_picture_has_no_room_keeps_its_text() -> None:
    media = (IncomingMedia(PNG, "image/png"), IncomingMedia(PNG, "image/png"))
    assert await store_result_media(FullMediaStore(), "t", media, 0, None) == ()


async def test_answer_waits_with_a_picture_until_the_process_has_room_for_it() -> None:
    """What calls send takes nothing of that room, so that none waits for itself."""
    house, room = SessionHarness(), NotedRoom(len(ENCODED))
    worker = house.build_worker()
    worker.contexts = replace(worker.contexts, answer_room=room)
    await house.open_session()
    house.model.scripts = [["Here: ", PICTURE]]
    event = await house.submit_turn("Show me a heron.")
    with room.open_share() as held:
        await held.reserve(1)
        async with run_tasks(house.run_turn(event, worker)) as (running,):
            await asyncio.wait_for(room.is_awaited.wait(), 30)
            assert house.media.media == {}
            held.release()
            assert await running == DeliverySettled()
    events = [each.event for each in house.list_events()]
    (completed,) = [each for each in events if isinstance(each, TurnCompleted)]
    assert [each.name for each in completed.parts] == ["heron.png"]
    assert room.taken == 0


@pytest.mark.slow("it decodes fifty megabytes")
async def test_failed_answer_says_on_record_that_its_media_are_too_many() -> None:
    house = SessionHarness()
    await house.open_session()
    house.model.scripts = [[LARGE, LARGE, PICTURE]] * 9
    await house.run_turn(await house.submit_turn("Show me herons."))
    ended = [each.event for each in house.list_events() if isinstance(each.event, AttemptEnded)]
    faults = [each.fault for each in ended if each.fault]
    detail = f"its pictures, recordings and files are more than {MAX_INCOMING_BYTES} bytes"
    assert {(each.code, each.detail) for each in faults} == {("too_long", detail)}
    assert house.list_event_names()[-1] == "turn-failed"


async def test_result_of_a_tool_keeps_what_one_may_have_and_names_the_rest() -> None:
    (large,) = LARGE.pieces
    pictures = [
        ImageContent(type="image", data=each, mime_type="image/png")
        for each in (large, large, ENCODED)
    ]
    result = CallToolResult(content=[*pictures, TextContent(type="text", text="All three.")])
    answered = await convert_result(result)
    assert [len(each.data) for each in answered.media] == [MAX_MEDIA_BYTES] * 2
    line = f"(image, {len(PNG)} bytes, left out: a result has at most {MAX_INCOMING_BYTES})"
    assert answered.text.split("\n")[2:] == [line, "All three."]
    structured = result.model_copy(update={"structured_content": {"result": "three"}})
    assert line in (await convert_result(structured)).text


async def test_result_waits_for_room_before_it_is_decoded_and_makes_no_server_late() -> None:
    room, arrived = NotedRoom(len(ENCODED)), list[bool]()
    picture = ImageContent(type="image", data=ENCODED, mime_type="image/png")
    with (
        room.open_share() as held,
        room.open_share() as share,
        use_result_share(share, lambda: arrived.append(True)),
    ):
        await held.reserve(1)
        async with run_tasks(convert_result(CallToolResult(content=[picture]))) as (converting,):
            await asyncio.wait_for(room.is_awaited.wait(), 30)
            assert (arrived, converting.done(), share.size) == ([True], False, 0)
            held.release()
            assert [each.data for each in (await converting).media] == [PNG]
        assert room.taken == share.size == len(ENCODED)
    assert room.taken == 0
