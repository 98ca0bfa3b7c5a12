"""Appends events to the log of reads, and reads them back.

The looks that a process has to record while an append is under way go into the next one together.
So however many look at once, none contends with another of the same process, and an append is
decided again only where another process was first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Final, Never

from turnlog.events.codec import EventBatch, EventDraft, decode_read_event, encode_batch
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Conflict, Unavailable
from turnlog.events.model.installation.read_events import RecordRead
from turnlog.events.store.ports import EventLog
from turnlog.events.subjects import READ_HISTORY
from turnlog.services.command_handling.idempotent_commands import (
    MAX_DECISION_RETRIES,
    IdempotentCommandHandler,
    get_sequence,
)
from turnlog.services.command_handling.tenant_histories import LastEventStates
from turnlog.services.platform.clock import Clock, CreateId

MAX_LOOKS_AT_ONCE: Final = 100
"""Looks that one append records."""

_CHUNK: Final = 200
"""Events that are read at once."""


@dataclass(frozen=True, slots=True)
class RecordedLook:
    """An event of the log of reads."""

    head: ChainHead
    event: RecordRead
    actor: str
    at: str
    """When it was recorded, RFC 3339."""


@dataclass(frozen=True, slots=True)
class ReadDay:
    """The end of a day's history."""

    head: ChainHead


@dataclass(frozen=True, slots=True)
class _PendingLook:
    actor: str
    event: RecordRead
    recorded: asyncio.Future[None]


@dataclass(kw_only=True)
class ReadLog:
    """The log of reads of all tenants, for one process; belongs to one event loop."""

    log: EventLog
    clock: Clock
    create_id: CreateId
    source: str
    """The `source` of appended events."""
    _days: IdempotentCommandHandler[ReadDay, Never] = field(init=False)
    _pending: dict[str, list[_PendingLook]] = field(
        init=False, default_factory=dict[str, list[_PendingLook]]
    )
    """What is to be recorded, by tenant."""
    _appending: dict[str, asyncio.Task[None]] = field(
        init=False, default_factory=dict[str, asyncio.Task[None]]
    )
    """The task that records it, by tenant."""

    def __post_init__(self) -> None:
        self._days = IdempotentCommandHandler(
            log=self.log,
            kind=READ_HISTORY,
            states=LastEventStates[ReadDay](lambda recorded: ReadDay(recorded.head)),
            clock=self.clock,
            create_id=self.create_id,
            source=self.source,
            log_name="the log of reads",
            has_whole_states=True,
        )

    async def record_look(self, tenant: str, actor: str, event: RecordRead) -> None:
        """Record a look; it is on the log when this returns.

        Raises `Unavailable` where the log gives no definite answer.
        """
        look = _PendingLook(actor, event, asyncio.get_running_loop().create_future())
        self._pending.setdefault(tenant, []).append(look)
        if tenant not in self._appending:
            self._appending[tenant] = asyncio.create_task(self._append_pending(tenant))
        await look.recorded

    async def _append_pending(self, tenant: str) -> None:
        try:
            while looks := self._take_pending(tenant):
                try:
                    await self._append_looks(tenant, looks)
                except asyncio.CancelledError:
                    self._pending.setdefault(tenant, []).extend(looks)
                    raise
                except Exception as error:  # noqa: BLE001 - those who wait raise it
                    _settle(looks, error)
                else:
                    _settle(looks, None)
        finally:
            del self._appending[tenant]
            # Nobody is left waiting for what will not be recorded.
            ended = Unavailable("the log of reads", "the process ends")
            _settle(self._pending.pop(tenant, []), ended)

    def _take_pending(self, tenant: str) -> Sequence[_PendingLook]:
        # Whoever went away meanwhile gets no answer, and has looked at nothing.
        waiting = [each for each in self._pending.pop(tenant, []) if not each.recorded.cancelled()]
        if later := waiting[MAX_LOOKS_AT_ONCE:]:
            self._pending[tenant] = later
        return waiting[:MAX_LOOKS_AT_ONCE]

    async def _append_looks(self, tenant: str, looks: Sequence[_PendingLook]) -> None:
        now = self.clock()
        day = format_day(now.date())
        drafts = [
            EventDraft(
                event=look.event,
                id=self.create_id(),
                at=now,
                source=self.source,
                actor=look.actor,
            )
            for look in looks
        ]
        state = self._days.states.get_presumed_state(tenant, day)
        for _ in range(MAX_DECISION_RETRIES):
            batch = self._encode_batch(tenant, day, state, drafts)
            if await self._days.append_batch(state, batch):
                return
            state = await self._days.load_state(tenant, day, leader=True)
        raise Conflict(day, get_sequence(state), None)

    def _encode_batch(
        self, tenant: str, day: str, state: ReadDay | None, drafts: Sequence[EventDraft]
    ) -> EventBatch:
        return encode_batch(
            tenant=tenant,
            session=day,
            after=state.head if state else None,
            drafts=drafts,
            kind=READ_HISTORY,
        )

    async def read_day(
        self, tenant: str, day: date, before: int | None
    ) -> AsyncGenerator[RecordedLook | int]:
        """Yield the looks of a day before a sequence, the newest first.

        In the place of an event of a later release is its sequence.
        """
        history = format_day(day)
        # The leader answers, so an acknowledged look is there.
        last = await self.log.read_last_event(tenant, history, leader=True)
        if last is None or (before is not None and before <= 1):
            return
        if before is not None and before <= last.sequence:
            last = await self.log.find_event(tenant, history, before - 1, last)
        while True:
            first = max(0, last.sequence - _CHUNK)
            after = await self.log.find_event(tenant, history, first, last) if first else None
            events = await self.log.read_range(tenant, history, after.head if after else None, last)
            for recorded in reversed(events):
                yield _read_look(recorded) or recorded.sequence
            if after is None:
                return
            last = after


def format_day(day: date) -> str:
    """Return the id of a day's history."""
    return day.isoformat()


def _settle(looks: Sequence[_PendingLook], error: Exception | None) -> None:
    for look in looks:
        if look.recorded.done():
            continue
        if error is None:
            look.recorded.set_result(None)
        else:
            look.recorded.set_exception(error)


def _read_look(recorded: RecordedEvent) -> RecordedLook | None:
    event = decode_read_event(recorded)
    if not isinstance(event, RecordRead):
        return None
    return RecordedLook(recorded.head, event, recorded.envelope.actor, recorded.envelope.time)
