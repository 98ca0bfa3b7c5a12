"""A worker dies at every point of a turn with a picture, whose tools return pictures too.

It dies before or after every append, and before or after every picture that it stores.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterable
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, cast

import pytest

from tests.agent_programs.agent_harness import (
    AgentHarness,
    FakeToolServer,
    RoundKeyedModel,
    open_loop,
)
from tests.agent_programs.turns.test_turn_crashes import (
    WHEN,
    CrashingLog,
    CrashPoint,
    build_crashing_worker,
)
from tests.services.media.media_samples import PNG, make_png
from tests.support.sessions.session_harness import TENANT, build_delivery
from turnlog.events.async_tasks import cancel_tasks
from turnlog.events.content import Digest, compute_digest, get_plain_text
from turnlog.events.model.call_events import CallCompleted, ContextAssembled
from turnlog.events.model.content_parts import MediaPart
from turnlog.events.model.tool_events import ToolCalled, ToolReturned
from turnlog.events.model.turn_events import TurnCompleted, TurnSubmitted
from turnlog.events.store.media_chunks import StoredMedia
from turnlog.events.store.memory_log import MemoryMediaStore
from turnlog.services.media.incoming_media import IncomingMedia
from turnlog.services.worker.turn_delivery import DeliverySettled

APPENDS: Final = 12
"""The number of appends of the turn in these tests."""

PICTURES: Final = 2
"""The number of pictures that its tools return."""

SHOWN: Final = make_png(60)
"""What a tool returns beside its text."""

PART: Final = MediaPart(
    kind="image", digest=compute_digest(PNG), size=len(PNG), media_type="image/png", at=0
)


@dataclass(kw_only=True)
class CrashingMediaStore(CrashPoint):
    """A media store in which one item never comes to its end."""

    media: MemoryMediaStore

    def __getattr__(self, name: str) -> object:
        return getattr(self.media, name)

    async def put_media(
        self,
        tenant: str,
        data: AsyncIterable[bytes],
        *,
        most_bytes: int,
        expected: Digest | None = None,
    ) -> StoredMedia:
        """See `MediaStore.put_media`."""
        put = partial(self.media.put_media, most_bytes=most_bytes, expected=expected)
        return await self.store(partial(put, tenant, data))


async def crash_media_turn(
    at: int, when: Literal["before", "after"], kind: Literal["append", "picture"]
) -> tuple[AgentHarness, bool]:
    """Let a worker die in the turn and another complete it; return whether the first one died."""
    shop = await open_loop(FakeToolServer(media=(IncomingMedia(SHOWN, "image/png"),)))
    house, intact = shop.house, shop.house.media
    house.model = RoundKeyedModel()
    intact.media[TENANT, PART.digest] = PNG
    submitted = await house.submit_turn("Get me this hammer.", parts=(PART,))
    mortal_log = CrashingLog(log=house.log, fatal=at if kind == "append" else 0, when=when)
    mortal_media = CrashingMediaStore(media=intact, fatal=at if kind == "picture" else 0, when=when)
    house.media = cast("MemoryMediaStore", mortal_media)
    worker = build_crashing_worker(house, mortal_log, "w1")
    house.media = intact
    dead = mortal_log.dead if kind == "append" else mortal_media.dead
    working = asyncio.create_task(worker.run_turn(build_delivery(submitted)))
    dying = asyncio.create_task(dead.wait())
    await asyncio.wait({working, dying}, return_when=asyncio.FIRST_COMPLETED)
    died = dead.is_set()
    if not died:
        assert working.result() == DeliverySettled()
    await cancel_tasks(working, dying)
    if died:
        await shop.take_over_turn(submitted)
    return shop, died


POINTS = [
    *(("append", at, when) for at in range(1, APPENDS + 1) for when in WHEN),
    *(("picture", at, when) for at in range(1, PICTURES + 1) for when in WHEN),
]


@pytest.mark.parametrize(("kind", "at", "when"), POINTS)
async def test_crash_at_any_point_leaves_a_whole_record_of_every_picture(
    kind: Literal["append", "picture"], at: int, when: Literal["before", "after"]
) -> None:
    shop, died = await crash_media_turn(at, when, kind)
    assert died
    answered = Counter(each.call for each in shop.list_events(CallCompleted))
    assert set(answered.values()) == {1}
    assert len(shop.list_events(ContextAssembled)) == len(answered) == 3
    assert len(shop.list_events(TurnCompleted)) == 1
    assert [tool for tool, _ in shop.shop.tool_calls].count("pay") <= 1
    returned: list[ToolReturned] = shop.list_events(ToolReturned)
    came_back = Counter((each.call, each.id) for each in returned)
    assert came_back == Counter((each.call, each.id) for each in shop.list_events(ToolCalled))
    assert set(came_back.values()) == {1}
    # A payment of which nobody knows whether it ran has no picture; what was looked at has one.
    assert [each.outcome for each in returned if not each.parts] in ([], ["lost"])
    assert [each.digest for each in returned[0].parts] == [compute_digest(SHOWN)]
    (submitted,) = shop.list_events(TurnSubmitted)
    for part in (*submitted.parts, *(part for each in returned for part in each.parts)):
        stored = await shop.house.media.get_media(TENANT, part.digest)
        assert (compute_digest(stored), len(stored)) == (part.digest, part.size)
    reasoned = [get_plain_text(each.reasoning) for each in shop.list_events(CallCompleted)]
    assert reasoned == [f'{{"reasoning_content":"Round {n}."}}' for n in (1, 2, 3)]
    last = str(shop.house.model.requests[-1].messages)
    assert last.count(b64encode(PNG).decode()) == 1
    assert last.count(b64encode(SHOWN).decode()) == sum(len(each.parts) for each in returned)
    assert "'reasoning_content': 'Round 2.'" in last


@pytest.mark.parametrize(("kind", "most"), [("append", APPENDS), ("picture", PICTURES)])
async def test_crash_points_cover_every_append_and_every_picture(
    kind: Literal["append", "picture"], most: int
) -> None:
    _, died = await crash_media_turn(most + 1, "before", kind)
    assert not died
