"""The delivery of one webhook by the process that has its lease.

The stream of all sessions is read in batches. Within a batch each session is delivered in order and
several sessions at a time; the next batch begins when all of them are delivered or behind. A
session that is behind is delivered by a task of its own, from the session's history. The place is
recorded at most once a second, after deliveries were accepted, so that a process that dies delivers
a second's events again and skips none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import structlog

from turnlog.events.async_tasks import cancel_tasks
from turnlog.events.codec import format_rfc3339
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Unavailable
from turnlog.events.model.webhook_events import (
    DeliveryFailure,
    WebhookAdvanced,
    WebhookGaveUp,
    WebhookPlace,
    WebhookPlaceEvent,
)
from turnlog.events.store.ports import EventLog, RawEvent
from turnlog.events.stray_messages import decode_unless_stray
from turnlog.projections.session_views.withheld_events import RedactedTurns
from turnlog.projections.webhooks.webhook_subscriptions import StoredWebhook
from turnlog.services.audit.redactions import RedactionCache
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.platform.clock import Clock
from turnlog.services.sessions.session_openings import SessionOpenings
from turnlog.services.webhooks.delivery.delivery_metrics import DeliveryMetrics
from turnlog.services.webhooks.delivery.delivery_progress import DeliveryProgress
from turnlog.services.webhooks.delivery.event_selection import (
    build_message,
    get_position_before,
    get_session_selection,
    has_selected_type,
)
from turnlog.services.webhooks.delivery.webhook_lease import ClaimLost, WebhookLease
from turnlog.services.webhooks.delivery.webhook_sender import DeliveryFault, WebhookSender
from turnlog.services.webhooks.webhook_service import WebhookService

_log = structlog.get_logger("turnlog.webhooks")

BATCH_EVENTS: Final = 256
"""Events of the stream that are looked at together."""

BATCH_BYTES: Final = 4 * 1024 * 1024
"""Bytes of events after which a batch ends; one event may have more."""

DECODED_IN_A_ROW: Final = 16
"""Events that are decoded before other tasks run."""

LANE_EVENTS: Final = 16
"""Events of a session that is behind that are read together."""

DELIVERER: Final = CommandMetadata("deliverer")
"""The actor of what deliverers record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryTerms:
    """How deliveries are paced, tried again and given up."""

    retry_delays: tuple[float, ...] = (5, 30, 120, 300, 600, 1_200, 1_400)
    """Seconds between the tries of one delivery; after one more try it is given up."""
    session_seconds: float = 10.0
    """Seconds after which a session that is not delivered leaves the batch to the others."""
    save_seconds: float = 1.0
    """Seconds between two records of the place."""
    failure_save_seconds: float = 10.0
    """The same where tries failed: a place names every session that is behind."""
    idle_save_seconds: float = 60.0
    """The same where nothing of what came was for this webhook."""
    at_once: int = 8
    """Sessions of a batch that are delivered at a time."""
    behind_at_once: int = 4
    """Sessions that are behind and are delivered at a time."""
    max_retried: int = 100
    """Sessions that may be behind; with so many no new event is delivered."""
    max_given_up: int = 100
    """Sessions that may be given up; with one more the whole webhook is stopped."""
    max_retry_after: float = 3_600.0
    """Seconds for which a receiver may ask to be left alone; more counts as so many."""
    failing_others: int = 2
    """With more failing sessions than that and no delivery accepted, the webhook is stopped."""


class WebhookStopped(Exception):
    """Nothing more is delivered until the webhook is resumed."""

    def __init__(self, failure: DeliveryFailure, session: str | None = None) -> None:
        super().__init__(failure.detail)
        self.failure = failure
        self.session = session


@dataclass(kw_only=True)
class WebhookRunner:
    """Delivers the events of one webhook."""

    tenant: str
    webhook: StoredWebhook
    secret: str = field(repr=False)
    progress: DeliveryProgress
    lease: WebhookLease
    log: EventLog
    service: WebhookService
    sender: WebhookSender
    redactions: RedactionCache
    openings: SessionOpenings
    clock: Clock
    terms: DeliveryTerms
    metrics: DeliveryMetrics = field(default_factory=DeliveryMetrics)
    connections: asyncio.Semaphore
    """Those to the receivers of the tenant, which its webhooks share."""
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it shall end in good order."""
    _lanes: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, "asyncio.Task[None]"])
    _sending: set[asyncio.Task[DeliveryFault | None]] = field(
        default_factory=set["asyncio.Task[DeliveryFault | None]"]
    )
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the place is to be recorded."""
    _busy_until: float = 0.0
    """Up to when the receiver asked to be left alone, by the clock of the loop."""
    _has_failed: bool = False
    """Whether a try failed since the place was recorded."""
    _room: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a session is behind no more."""
    _batch: list[list[RecordedEvent]] = field(default_factory=list[list[RecordedEvent]])
    """The events of the batch that is being delivered, by session."""
    _slots: asyncio.Semaphore = field(init=False)
    _lane_slots: asyncio.Semaphore = field(init=False)
    """Not those of the batch, so that sessions that fail do not hold up the others."""
    _save_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _ended: asyncio.Future[None] = field(init=False)
    """Gets what ended a task of a session."""

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self.terms.at_once)
        self._lane_slots = asyncio.Semaphore(self.terms.behind_at_once)

    async def run(self) -> None:
        """Deliver until `stop` is set, the claim is lost or the webhook is stopped.

        Raises `ClaimLost`, and what made the log unreadable.
        """
        self._ended = asyncio.get_running_loop().create_future()
        work: list[Coroutine[Any, Any, Any]] = [
            self._read_stream(),
            self._save_regularly(),
            self.lease.keep(),
            self.stop.wait(),
        ]
        tasks = [asyncio.create_task(each) for each in work]
        for session in self.progress.list_retried():
            self._start_lane(session)
        try:
            await asyncio.wait({*tasks, self._ended}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await cancel_tasks(*self._sending)
            raise
        finally:
            stop_reason = self._find_reason(tasks)
            await cancel_tasks(*tasks, *self._lanes.values())
        await self._finish(stop_reason)

    def measure_oldest(self) -> float:
        """Return the seconds since the oldest event that it has read and not delivered; 0 for none.

        Of a session that fails they are those since it does. One that was given up counts no more.
        """
        batch = [
            event.envelope.time
            for events in self._batch
            for event in events
            if self.progress.is_pending(event.stream_sequence)
        ]
        oldest = min([*batch, *self.progress.list_failing_since()], default=None)
        if oldest is None:
            return 0.0
        return max(0.0, (self.clock() - datetime.fromisoformat(oldest)).total_seconds())

    def _find_reason(self, tasks: Sequence[asyncio.Task[Any]]) -> BaseException | None:
        """Return what ended the delivery; None if it was asked to stop."""
        for each in (self._ended, *tasks):
            if each.done() and not each.cancelled() and (error := each.exception()):
                return error
        return None

    async def _finish(self, reason: BaseException | None) -> None:
        """Wait for what is under way, and record where it ended."""
        if self._sending:
            await asyncio.wait(self._sending)
        if isinstance(reason, ClaimLost):
            raise reason
        self._leave_rest()
        if isinstance(reason, WebhookStopped):
            self.progress.stopped = reason.failure
            self.metrics.record_outcome("stopped")
            _log.error("webhook-stopped", webhook=self.webhook.name, detail=reason.failure.detail)
            await self._save_failure(None, reason.failure)
            return
        await self._save()
        if reason is not None:
            raise reason

    def _leave_rest(self) -> None:
        """Put behind what is left of the batch, so that nothing is delivered again."""
        for events in self._batch:
            left = [each for each in events if self.progress.is_pending(each.stream_sequence)]
            if left:
                positions = [each.stream_sequence for each in left]
                before = get_position_before(left[0])
                self.progress.put_behind(left[0].session, before, positions)

    async def _read_stream(self) -> None:
        after = self.progress.after
        async with aclosing(self.log.stream_raw_events(self.tenant, after, live=True)) as bulks:
            try:
                async for bulk in bulks:
                    for batch in split_batches(bulk):
                        await self._deliver_batch(batch)
            except Corrupt as corrupt:
                raise WebhookStopped(self._create_failure(0, corrupt.detail)) from corrupt

    async def _deliver_batch(self, batch: Sequence[RawEvent]) -> None:
        """Deliver a batch, except what is left to sessions that are behind."""
        while len(self.progress.list_retried()) >= self.terms.max_retried:
            self._room.clear()
            await self._room.wait()
        sessions: dict[str, list[RecordedEvent]] = {}
        for number, raw in enumerate(batch, 1):
            if number % DECODED_IN_A_ROW == 0:
                await asyncio.sleep(0)
            event = self._decode(raw)
            if event is None or not await self._is_selected(event):
                continue
            if self.progress.extend_session(event.session, event.stream_sequence):
                self._changed.set()
            else:
                sessions.setdefault(event.session, []).append(event)
        positions = [each.stream_sequence for events in sessions.values() for each in events]
        self._batch = [*sessions.values()]
        self.progress.begin_batch(batch[-1].stream_sequence, positions)
        if sessions:
            redacted = await self._load_redactions()
            deadline = asyncio.get_running_loop().time() + self.terms.session_seconds
            await _run_all(
                self._deliver_session(each, redacted, deadline) for each in sessions.values()
            )

    def _decode(self, raw: RawEvent) -> RecordedEvent | None:
        try:
            return decode_unless_stray(raw.subject, raw.stored, raw.stream_sequence)
        except Corrupt as corrupt:
            # Its session is stopped everywhere, and a receiver sees the gap in its sequence.
            _log.error(
                "webhook-event-unreadable", position=raw.stream_sequence, detail=corrupt.detail
            )
            return None

    async def _is_selected(self, event: RecordedEvent) -> bool:
        chosen = self.webhook.filter
        return has_selected_type(event, chosen) and await self.openings.has_selected_session(
            event.tenant, event.session, get_session_selection(chosen)
        )

    async def _load_redactions(self) -> RedactedTurns:
        """Return what is withheld now; what is withheld later is an event that follows."""
        try:
            return await self.redactions.load_redactions(self.log, self.tenant)
        except Corrupt as corrupt:  # Nobody knows which texts are withheld.
            raise WebhookStopped(self._create_failure(0, corrupt.detail)) from corrupt

    async def _deliver_session(
        self, events: Sequence[RecordedEvent], redacted: RedactedTurns, deadline: float
    ) -> None:
        """Deliver the events of a session in order; what fails or takes long is put behind."""
        session = events[0].session
        for number, event in enumerate(events):
            is_late = asyncio.get_running_loop().time() > deadline
            fault = None if is_late else await self._deliver_in_slot(event, redacted)
            if is_late or fault:
                left = [each.stream_sequence for each in events[number:]]
                self.progress.put_behind(session, get_position_before(event), left)
                self._changed.set()
                try:
                    if fault:
                        self._note_fault(session, event, fault)
                    self._start_lane(session)
                except _SessionGivenUp as given_up:
                    await self._stop_session(session, given_up.failure)
                return

    async def _deliver_in_slot(
        self, event: RecordedEvent, redacted: RedactedTurns
    ) -> DeliveryFault | None:
        async with self._slots:
            return await self._deliver(event, redacted)

    async def _deliver(self, event: RecordedEvent, redacted: RedactedTurns) -> DeliveryFault | None:
        """Deliver one event; return why that failed, or None once it was accepted."""
        await self._wait_for_receiver()
        # Not within the time of a delivery: to wait for a connection is no fault of the receiver.
        await self.connections.acquire()
        try:
            while not self.lease.can_send():
                self.lease.require_held()
                await asyncio.sleep(self.lease.seconds / 30)
        except BaseException:
            self.connections.release()
            raise
        # A delivery that is under way is not broken off: it would only be made again.
        sending = asyncio.create_task(self._send(event, redacted))
        self._sending.add(sending)
        sending.add_done_callback(self._forget_sending)
        return await asyncio.shield(sending)

    async def _wait_for_receiver(self) -> None:
        """Wait as long as the receiver asked for, also where another session was told so since."""
        loop = asyncio.get_running_loop()
        while (left := self._busy_until - loop.time()) > 0:  # noqa: ASYNC110 - it may move on
            await asyncio.sleep(left)

    def _forget_sending(self, sending: asyncio.Task[DeliveryFault | None]) -> None:
        self._sending.discard(sending)
        self.connections.release()
        if not sending.cancelled():
            # Retrieved, since whoever waited for it may have been cancelled.
            sending.exception()

    async def _send(self, event: RecordedEvent, redacted: RedactedTurns) -> DeliveryFault | None:
        message = build_message(self.webhook, event, redacted.format_for_reader(event))
        fault = await self.sender.send(self.webhook.url, self.secret, message)
        self.metrics.record_outcome("failed" if fault else "delivered")
        if fault is None:
            self.progress.note_delivery(event.stream_sequence, self.clock())
            if event.session in self.progress.behind:
                self.progress.advance_session(event.session, event.stream_sequence)
            self._changed.set()
        return fault

    def _note_fault(self, session: str, event: RecordedEvent, fault: DeliveryFault) -> None:
        """Note a failed try; raises `WebhookStopped` where it is the webhook that fails."""
        at = self.clock()
        failure = self._create_failure(event.stream_sequence, fault.detail, fault.status, at)
        _log.warning(
            "webhook-delivery-failed",
            webhook=self.webhook.name,
            session=session,
            position=event.stream_sequence,
            detail=fault.detail,
        )
        self._has_failed = True
        # A receiver without room has none for other sessions either.
        pause = min(fault.retry_after or 0.0, self.terms.max_retry_after)
        until = asyncio.get_running_loop().time() + pause
        self._busy_until = max(self._busy_until, until)
        is_last = self.progress.note_failure(
            session, failure, self.terms.retry_delays, at, at_least=pause
        )
        if fault.is_final:
            raise WebhookStopped(failure, session)
        if is_last:
            if self.progress.is_failing_as_a_whole(session, self.terms.failing_others):
                raise WebhookStopped(failure, session)
            raise _SessionGivenUp(failure)

    def _start_lane(self, session: str) -> None:
        lane = asyncio.create_task(self._run_lane(session))
        self._lanes[session] = lane
        lane.add_done_callback(self._note_lane_end)

    def _note_lane_end(self, lane: asyncio.Task[None]) -> None:
        if lane.cancelled():
            return
        self._room.set()
        if (error := lane.exception()) and not self._ended.done():
            self._ended.set_exception(error)

    async def _run_lane(self, session: str) -> None:
        """Deliver a session that is behind until it is not, or given up."""
        try:
            await self._deliver_behind(session)
        except _SessionGivenUp as given_up:
            await self._stop_session(session, given_up.failure)
        except Corrupt as corrupt:
            after = self.progress.behind[session].after
            await self._stop_session(session, self._create_failure(after, corrupt.detail))
        finally:
            self._lanes.pop(session, None)

    async def _deliver_behind(self, session: str) -> None:
        while True:
            await self._wait_for_try(session)
            async with self._lane_slots:
                is_moved = await self._deliver_next(session)
            place = self.progress.behind[session]
            if place.after >= place.upto:
                del self.progress.behind[session]
                self._changed.set()
                return
            if not is_moved:
                await asyncio.sleep(self.terms.save_seconds)  # A follower has not all of it yet.

    async def _deliver_next(self, session: str) -> bool:
        """Deliver the next events of a session that is behind; return whether any were read."""
        events = await self._read_behind(session, self.progress.behind[session].after)
        redacted = await self._load_redactions()
        for event in events:
            if event.stream_sequence > self.progress.behind[session].upto:
                break
            fault = await self._deliver_selected(event, redacted)
            if fault:
                self._note_fault(session, event, fault)
                break
            self.progress.advance_session(session, event.stream_sequence)
        return bool(events)

    async def _deliver_selected(
        self, event: RecordedEvent, redacted: RedactedTurns
    ) -> DeliveryFault | None:
        return await self._deliver(event, redacted) if await self._is_selected(event) else None

    async def _wait_for_try(self, session: str) -> None:
        due = self.progress.behind[session].next_try
        if due is not None:
            left = (datetime.fromisoformat(due) - self.clock()).total_seconds()
            await asyncio.sleep(max(0.0, left))

    async def _read_behind(self, session: str, after: int) -> Sequence[RecordedEvent]:
        while True:
            try:
                head = None
                if after:
                    (last,) = await self.log.read_events_at(self.tenant, [after])
                    head = last.head
                return await self.log.read_next_events(self.tenant, session, head, LANE_EVENTS)
            except Unavailable:
                await asyncio.sleep(self.terms.save_seconds)

    async def _stop_session(self, session: str, failure: DeliveryFailure) -> None:
        self.progress.stop_session(session, failure)
        self.metrics.record_outcome("given_up")
        _log.error(
            "webhook-session-given-up",
            webhook=self.webhook.name,
            session=session,
            detail=failure.detail,
        )
        if self.progress.count_given_up() > self.terms.max_given_up:
            raise WebhookStopped(failure, session)
        await self._save_failure(session, failure)

    def _create_failure(
        self, position: int, detail: str, status: int | None = None, at: datetime | None = None
    ) -> DeliveryFailure:
        when = format_rfc3339(at or self.clock())
        return DeliveryFailure(at=when, position=position, status=status, detail=detail)

    async def _save_regularly(self) -> None:
        """Record the place after it changed, at most once in `save_seconds`."""
        saved = self.progress.build_place()
        while True:
            await self._wait_for_change(saved)
            self._changed.clear()
            self._has_failed = False
            try:
                saved = await self._save()
            except Unavailable as error:
                _log.warning("webhook-place-unsaved", webhook=self.webhook.name, detail=str(error))
                self._changed.set()
            await asyncio.sleep(self.terms.save_seconds)

    async def _wait_for_change(self, saved: WebhookPlace) -> None:
        """Wait until the place is to be recorded, which was `saved` before."""
        waited, pause = 0.0, self.terms.failure_save_seconds
        while True:
            try:
                async with asyncio.timeout(pause):
                    await self._changed.wait()
            except TimeoutError:
                waited += pause
                is_due = waited >= self.terms.idle_save_seconds
                if self._has_failed or (is_due and self.progress.build_place().after > saved.after):
                    return
            else:
                return

    async def _save(self) -> WebhookPlace:
        """Record the place; raises `ClaimLost` if another process has claimed the webhook."""
        return await self._append(
            lambda: WebhookAdvanced(name=self.webhook.name, place=self.progress.build_place())
        )

    async def _save_failure(self, session: str | None, failure: DeliveryFailure) -> None:
        await self._append(
            lambda: WebhookGaveUp(
                name=self.webhook.name,
                session=session,
                failure=failure,
                place=self.progress.build_place(),
            )
        )

    async def _append(self, build: Callable[[], WebhookPlaceEvent]) -> WebhookPlace:
        # One after the other, so that no earlier place is recorded after a later one.
        async with self._save_lock:
            event = build()

            def decide(latest: WebhookPlace | None) -> WebhookPlaceEvent | None:
                if latest is None or latest.claim != self.lease.claim:
                    self.lease.is_lost = True
                    raise ClaimLost
                return None if latest == event.place else event

            await self.service.save_place(self.tenant, self.webhook.id, decide, DELIVERER)
            return event.place


class _SessionGivenUp(Exception):
    """The last try of a session failed."""

    def __init__(self, failure: DeliveryFailure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


async def _run_all(work: Iterator[Coroutine[Any, Any, None]]) -> None:
    """Run coroutines together; the first error cancels the others and is raised."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        await cancel_tasks(*tasks)


def split_batches(bulk: Sequence[RawEvent]) -> Iterator[Sequence[RawEvent]]:
    """Split what was read into batches of bounded count and size."""
    batch: list[RawEvent] = []
    size = 0
    for raw in bulk:
        batch.append(raw)
        size += len(raw.stored)
        if len(batch) >= BATCH_EVENTS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
