"""Large frames of answers, of which all calls of a process have only so many bytes at a time."""

from __future__ import annotations

import asyncio
import json
import os
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from tests.services.media.media_samples import make_png
from tests.services.model.model_requests import build_request, collect_answer, expect_failure
from tests.support.servers.model_behaviours import ModelAnswer, RawFrames
from tests.support.servers.openai_server import OpenAIServer
from turnlog.services.platform.process_settings import ModelAdapter
from turnlog.services.worker.media_room import MediaRoom
from turnlog.services.worker.model.bounded_responses import (
    MAX_FRAME_BYTES,
    MAX_MEDIA_FRAME_BYTES,
)
from turnlog.services.worker.model.call_timeouts import CallTimeouts, open_call_timer
from turnlog.services.worker.model.model_router import ModelRouter
from turnlog.services.worker.model.model_types import (
    FinishedAnswer,
    MediaDelta,
    ModelFailure,
)

SHORT = 0.05

PATIENCE = 20.0
"""Seconds for something that happens at once, on any machine."""

PICTURE = b64encode(make_png(MAX_FRAME_BYTES)).decode()


@dataclass(eq=False)
class WatchedRoom(MediaRoom):
    """A room for one large frame, which notes how much of it was ever taken and who waits."""

    most_bytes: int = MAX_MEDIA_FRAME_BYTES
    most_taken: int = 0
    waits: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    """Released for each call that begins to wait."""

    def try_reserve(self, size: int) -> bool:
        """See `MediaRoom.try_reserve`."""
        is_reserved = super().try_reserve(size)
        self.most_taken = max(self.most_taken, self.taken)
        return is_reserved

    async def reserve(self, size: int) -> None:
        """See `MediaRoom.reserve`."""
        self.waits.release()
        await super().reserve(size)
        self.most_taken = max(self.most_taken, self.taken)


@pytest.fixture
def room() -> WatchedRoom:
    return WatchedRoom()


@pytest.fixture
async def model(
    adapted: tuple[ModelAdapter, str], timeouts: CallTimeouts, room: WatchedRoom
) -> AsyncIterator[ModelRouter]:
    router = ModelRouter(adapted[0], os.environ, timeouts=timeouts, frame_room=room)
    await router.load_early(adapted[1])
    yield router
    await router.close()


def build_picture_answer(gate: asyncio.Event | None) -> RawFrames:
    """Build an answer of one picture, whose frame stops in its middle until a gate is open."""
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}}
    delta = {"content": "", "images": [image]}
    chunk = {
        "id": "r-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "heron",
        "choices": [{"index": 0, "delta": delta, "finish_reason": None}],
    }
    end = {
        **chunk,
        "choices": [{"index": 0, "delta": {"content": "A heron."}, "finish_reason": "stop"}],
    }
    frame = b"data: %s\n\n" % json.dumps(chunk).encode()
    begin = MAX_FRAME_BYTES + 20_000
    rest = (frame[begin:], b"data: %s\n\n" % json.dumps(end).encode(), b"data: [DONE]\n\n")
    return RawFrames((frame[:begin], *((gate,) if gate else ()), *rest))


async def count_pictures(model: ModelRouter, name: str) -> int:
    """Return how many pictures an answer has that comes to its end."""
    deltas = [each async for each in model.stream(build_request(name))]
    assert isinstance(deltas[-1], FinishedAnswer)
    return sum(isinstance(each, MediaDelta) for each in deltas)


async def test_calls_read_only_as_many_large_frames_at_a_time_as_there_is_room_for(
    server: OpenAIServer, model: ModelRouter, name: str, room: WatchedRoom
) -> None:
    gate = asyncio.Event()
    server.queue_behaviours(*[build_picture_answer(gate)] * 3, ModelAnswer(tokens=("Text.",)))
    calls = [asyncio.create_task(count_pictures(model, name)) for _ in range(3)]
    async with asyncio.timeout(PATIENCE):
        for _ in range(2):
            await room.waits.acquire()
    assert (room.taken, room.waiting_count) == (MAX_MEDIA_FRAME_BYTES, 2)
    # An answer of small frames does not wait
    assert (await collect_answer(model, build_request(name))).text == "Text."
    gate.set()
    assert await asyncio.gather(*calls) == [1, 1, 1]
    assert (room.most_taken, room.taken) == (MAX_MEDIA_FRAME_BYTES, 0)


async def test_call_that_waits_for_room_leaves_when_it_is_cancelled(
    server: OpenAIServer, model: ModelRouter, name: str, room: WatchedRoom
) -> None:
    gate = asyncio.Event()
    server.queue_behaviours(*[build_picture_answer(gate)] * 2)
    calls = [asyncio.create_task(count_pictures(model, name)) for _ in range(2)]
    async with asyncio.timeout(PATIENCE):
        await room.waits.acquire()
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    assert (room.taken, room.waiting_count) == (0, 0)


async def test_frame_that_fails_leaves_its_room_to_others(
    server: OpenAIServer, model: ModelRouter, name: str, room: WatchedRoom
) -> None:
    frame = b'data: {"choices": [{"delta": {"images": [";base64,'
    server.queue_behaviours(
        RawFrames((frame, *[b"A" * 1_000_000] * 14)), build_picture_answer(None)
    )
    failure = await expect_failure(model, build_request(name))
    assert failure.code == "too_long"
    assert room.taken == 0
    assert await count_pictures(model, name) == 1


@pytest.mark.parametrize(
    ("timeouts", "code"),
    [
        pytest.param(CallTimeouts(60, SHORT, SHORT, 60), None, id="silence"),
        pytest.param(CallTimeouts(60, 60, 60, SHORT), "timeout_total", id="the whole call"),
    ],
)
async def test_waiting_for_room_is_no_silence_and_ends_with_the_time_of_the_whole_call(
    timeouts: CallTimeouts, code: str | None
) -> None:
    failed = None

    async def wait_for_others() -> None:
        with timer.suspend_silence():
            await asyncio.sleep(4 * SHORT)  # The deadline passes meanwhile

    with open_call_timer(timeouts) as timer:
        try:
            await timer.wait_for(wait_for_others())
        except ModelFailure as failure:
            failed = failure.code
        assert failed == code


async def test_silence_counts_again_once_there_was_room() -> None:
    """Not only at the end of the time for the whole call, for which the timer was set."""

    async def wait_for_others_and_the_server() -> None:
        with timer.suspend_silence():
            await asyncio.sleep(4 * SHORT)  # The deadline passes meanwhile
        await asyncio.Event().wait()

    with (
        open_call_timer(CallTimeouts(60, SHORT, 60, 60)) as timer,
        pytest.raises(ModelFailure, match="timeout_first_token"),
    ):
        async with asyncio.timeout(PATIENCE):
            await timer.wait_for(wait_for_others_and_the_server())
