"""Calls with pictures wait for room in memory, and for nothing else."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tests.services.media.media_samples import make_png
from tests.support.sessions.session_harness import TENANT, TESTER, SessionHarness, build_delivery
from turnlog.events.async_tasks import run_tasks
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.content_parts import MediaPart
from turnlog.projections.session.commands import CancelTurn
from turnlog.services.media.incoming_media import IncomingMedia, store_incoming_media
from turnlog.services.worker.media_room import MediaRoom
from turnlog.services.worker.turn_delivery import DeliverySettled

SIZE = 1_000


class NotedRoom(MediaRoom):
    """Room that tells when a call waits for it."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(most_bytes)
        self.is_awaited = asyncio.Event()

    async def reserve(self, size: int) -> None:
        self.is_awaited.set()
        await super().reserve(size)


class PictureSessions:
    """Sessions of one worker, whose calls have room for one picture at a time."""

    def __init__(self) -> None:
        self.house = SessionHarness()
        self.worker = self.house.build_worker()
        self.room = NotedRoom(SIZE * 3 // 2)
        self.worker.contexts = replace(self.worker.contexts, media_room=self.room)

    async def store_picture(self, name: str) -> MediaPart:
        picture = IncomingMedia(make_png(SIZE), "image/png", name)
        return await store_incoming_media(self.house.media, TENANT, picture, 0, None)

    async def store_text(self, name: str) -> MediaPart:
        """Store a file of the same size, which counts fewer tokens."""
        file = IncomingMedia(b"a" * SIZE, "text/plain", name)
        return await store_incoming_media(self.house.media, TENANT, file, 0, None)

    async def submit_turn(self, session: str, *parts: MediaPart) -> RecordedEvent:
        await self.house.open_session(session)
        return await self.house.submit_turn("What is this?", session, parts=parts)


async def test_call_waits_until_there_is_room_for_its_picture_and_text_does_not() -> None:
    sessions, end = PictureSessions(), asyncio.Event()
    house, run_turn = sessions.house, sessions.worker.run_turn
    part = await sessions.store_picture("heron.png")
    house.model.scripts = [[end, "A heron."], ["Hello."], ["A second heron."]]
    first = await sessions.submit_turn("first", part)
    second = await sessions.submit_turn("second", part)
    plain = await sessions.submit_turn("plain")
    async with run_tasks(
        run_turn(build_delivery(first)), run_turn(build_delivery(second))
    ) as tasks:
        await asyncio.wait_for(sessions.room.is_awaited.wait(), 30)
        assert await run_turn(build_delivery(plain)) == DeliverySettled()
        assert len(house.model.requests) == 2, "the second picture is not sent yet"
        assert house.list_event_names("plain")[-1] == "turn-completed"
        end.set()
        assert await asyncio.gather(*tasks) == [DeliverySettled()] * 2
    for session in ("first", "second"):
        assert house.list_event_names(session)[-1] == "turn-completed"
    assert sessions.room.taken == 0


async def test_prompt_counts_each_file_as_often_as_it_is_sent() -> None:
    sessions = PictureSessions()
    part = await sessions.store_text("heron.txt")
    taken = list[int]()
    sessions.house.model.scripts = [[lambda: taken.append(sessions.room.taken), "Twice the same."]]
    submitted = await sessions.submit_turn("twice", part, part)
    assert await sessions.worker.run_turn(build_delivery(submitted)) == DeliverySettled()
    assert taken == [2 * SIZE]


async def test_waiting_call_whose_turn_is_cancelled_waits_no_more() -> None:
    sessions, end = PictureSessions(), asyncio.Event()
    house, run_turn = sessions.house, sessions.worker.run_turn
    part = await sessions.store_picture("heron.png")
    asked = asyncio.Event()
    house.model.scripts = [[asked.set, end, "A heron."]]
    first = await sessions.submit_turn("first", part)
    second = await sessions.submit_turn("second", part)
    async with run_tasks(run_turn(build_delivery(first))) as (holding,):
        await asyncio.wait_for(asked.wait(), 30)
        async with run_tasks(run_turn(build_delivery(second))) as (waiting,):
            await asyncio.wait_for(sessions.room.is_awaited.wait(), 30)
            await house.sessions.handle(TENANT, "second", CancelTurn(), TESTER)
            assert await asyncio.wait_for(waiting, 30) == DeliverySettled()
        assert sessions.room.waiting_count == 0
        assert "turn-cancelled" in house.list_event_names("second")
        end.set()
        assert await holding == DeliverySettled()
    assert len(house.model.requests) == 1
