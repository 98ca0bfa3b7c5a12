"""Faults of the protocol, planted by composition: each is a small, plausible mistake.

The product is unchanged. One part of a process is wrapped so that it does the wrong thing; the
tests check that the simulation finds it.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, cast

from faststream.nats.message import NatsMessage

from tests.simulation.fault_profiles import LOST_MESSAGES, LOST_REPLIES, NO_FAULTS, STOPPED_WORKERS
from tests.simulation.processes.simulated_roles import ProcessOptions
from turnlog.events.codec import CommandRef, EventBatch, EventDraft, decode_event, encode_batch
from turnlog.events.content import Digest, compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import TurnlogError
from turnlog.events.jetstream.blob_store import JetStreamMediaStore
from turnlog.events.jetstream.jetstream_client import JetStreamClient, JetStreamLog
from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.events.jetstream.token_stream import JetStreamTokenStream
from turnlog.events.model.call_events import AttemptStarted
from turnlog.events.registry import KnownEvent
from turnlog.events.store.media_chunks import (
    ChunkList,
    ReceivedMedia,
    StoredMedia,
    is_chunk_list,
    iterate_bytes,
    receive_media,
)
from turnlog.events.store.ports import (
    AppendOutcome,
    BatchConflict,
    LogUnreachable,
    StampedTokenEvent,
)
from turnlog.events.subjects import build_media_subject
from turnlog.events.tokens import AttemptClosed, Token
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.worker import delivery_handling
from turnlog.services.worker.child_sessions import ChildSessions
from turnlog.services.worker.turn_delivery import DeliveryVerdict, TurnDelivery
from turnlog.services.worker.turn_runner import TurnRunner

LATE_SECONDS: Final = 3.0
"""Seconds that no retry takes, and that a parent waits for its children at least."""


@dataclass
class PlantedFault:
    """Wraps an object and forwards everything that the subclass does not define."""

    real: Any

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the real one has
        return getattr(self.real, name)


def inject_into_log(kind: type[PlantedFault]) -> ProcessOptions:
    """Plant a faulty log in every process."""
    return ProcessOptions(over=lambda on: replace(on, log=cast("JetStreamLog", kind(on.log))))


def _inject_into_tokens(on: JetStreamClient) -> JetStreamClient:
    return replace(on, tokens=cast("JetStreamTokenStream", UncheckedTokens(on.tokens)))


class WatchedMessage(PlantedFault):
    """A message that remembers whether it was acknowledged in any way."""

    acknowledged = False

    async def ack(self) -> None:
        self.acknowledged = True
        await self.real.ack()

    async def nack(self, delay: float) -> None:
        self.acknowledged = True
        await self.real.nack(delay=delay)


async def hand_back_after_fencing(
    message: NatsMessage, connection: NatsConnection, answering: TurnRunner
) -> None:
    """Hand back what one was fenced off from."""
    overheard = WatchedMessage(message)
    await delivery_handling.handle_message(cast("NatsMessage", overheard), connection, answering)
    if not overheard.acknowledged:
        await message.nack(delay=0)


class UncheckedClaimLog(PlantedFault):
    """A log that appends claims at whatever position the session has reached."""

    async def append_batch(self, batch: EventBatch) -> AppendOutcome:
        outcome: AppendOutcome = await self.real.append_batch(batch)
        claims = any(isinstance(each.event, AttemptStarted) for each in _decode_batch(batch))
        if not claims or not isinstance(outcome, BatchConflict):
            return outcome
        return await self.append_batch(await _rebuild_batch(self.real, batch))


class ResubmittingLog(PlantedFault):
    """A log that appends the same again as new events after an ambiguous answer."""

    async def append_batch(self, batch: EventBatch) -> AppendOutcome:
        outcome: AppendOutcome = await replace(self.real, patience=0.0).append_batch(batch)
        if not (isinstance(outcome, LogUnreachable) and outcome.ambiguous):
            return outcome
        return await self.append_batch(await _rebuild_batch(self.real, batch))


class StaleReadLog(PlantedFault):
    """A log that reads from any replica where the leader was requested."""

    async def read_last_event(
        self, tenant: str, session: str, *, leader: bool = False
    ) -> RecordedEvent | None:
        del leader
        found: RecordedEvent | None = await self.real.read_last_event(tenant, session)
        return found


class UncheckedTokens(PlantedFault):
    """Tokens whose gaps and digests are repaired instead of checked."""

    async def read_token_events(
        self, tenant: str, session: str, turn: int
    ) -> Sequence[StampedTokenEvent]:
        events: Sequence[StampedTokenEvent] = await self.real.read_token_events(
            tenant, session, turn
        )
        texts: dict[int, str] = {}
        return [replace(each, event=_repair_token(each.event, texts)) for each in events]


def _repair_token(event: Any, texts: dict[int, str]) -> Any:  # noqa: ANN401 - any token event
    text = texts.get(event.attempt, "")
    match event:
        case Token():
            texts[event.attempt] = text + event.text
            return event.model_copy(update={"offset": len(text)})
        case AttemptClosed():
            return event.model_copy(update={"length": len(text), "digest": compute_digest(text)})
        case _:
            return event


class KeylessCommandHandler(PlantedFault):
    """A command handler that does not record the key of a command."""

    async def handle(self, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401
        return await self.real.handle(*arguments[:4], **(named | {"command": None}))


class UnreportedChildren(PlantedFault):
    """Children whose ends are left to the parent's own message."""

    async def report_end(self, tenant: str, session: str, turn: int) -> None:
        """Tell nobody."""


class UnreportingRunner(PlantedFault):
    """A runner that acknowledges the turn of a child before its parent knows the end."""

    async def run_turn(self, delivery: TurnDelivery) -> DeliveryVerdict:
        return await TurnRunner.run_turn(cast("TurnRunner", self), delivery)

    def _create_children(self) -> UnreportedChildren:
        return UnreportedChildren(
            ChildSessions(self.sessions, self.blueprints, self.contexts.blobs)
        )


async def report_no_ends(
    message: NatsMessage, connection: NatsConnection, answering: TurnRunner
) -> None:
    """Leave the end of a child's turn to its parent's message."""
    await delivery_handling.handle_message(
        message, connection, cast("TurnRunner", UnreportingRunner(answering))
    )


class RelievedMessage(PlantedFault):
    """A message that is acknowledged where it should come again much later."""

    async def nack(self, delay: float) -> None:
        await (self.real.ack() if delay > LATE_SECONDS else self.real.nack(delay=delay))


async def acknowledge_waiting_parents(
    message: NatsMessage, connection: NatsConnection, answering: TurnRunner
) -> None:
    """Acknowledge a parent's turn while its children answer, who have messages of their own."""
    await delivery_handling.handle_message(
        cast("NatsMessage", RelievedMessage(message)), connection, answering
    )


async def acknowledge_first(
    message: NatsMessage, connection: NatsConnection, answering: TurnRunner
) -> None:
    """Acknowledge a turn before it is answered."""
    await message.ack()
    await delivery_handling.handle_message(message, connection, answering)


def _inject_keyless_handler(sessions: CommandHandler) -> CommandHandler:
    return cast("CommandHandler", KeylessCommandHandler(sessions))


PLANTED: Final = {
    "a fenced worker that naks": (ProcessOptions(take=hand_back_after_fencing), STOPPED_WORKERS),
    "a claim without compare-and-set": (inject_into_log(UncheckedClaimLog), STOPPED_WORKERS),
    "a retry that builds a new event after an ambiguous answer": (
        inject_into_log(ResubmittingLog),
        LOST_MESSAGES,
    ),
    "a read-back that trusts a stale replica": (inject_into_log(StaleReadLog), LOST_REPLIES),
    "a recovery from tokens that ignores gaps and digests": (
        ProcessOptions(over=_inject_into_tokens),
        LOST_REPLIES,
    ),
    "an acknowledgement before the end is recorded": (
        ProcessOptions(take=acknowledge_first),
        LOST_REPLIES,
    ),
    "a command whose key is not recorded": (
        ProcessOptions(asking=_inject_keyless_handler),
        NO_FAULTS,
    ),
}
"""Each planted fault, with a fault profile under which it shows."""

PLANTED_IN_TEAMS: Final = {
    "a parent that is not told of its child's end": ProcessOptions(take=report_no_ends),
    "a parent's turn that is acknowledged while its children answer": ProcessOptions(
        take=acknowledge_waiting_parents
    ),
}
"""Planted faults that only coordinators with children show, under no other fault."""


class HastyMediaStore(PlantedFault):
    """A media store that writes the list of the chunks before the chunks."""

    async def put_media(
        self,
        tenant: str,
        data: AsyncIterable[bytes],
        *,
        most_bytes: int,
        expected: Digest | None = None,
    ) -> StoredMedia:
        received = await receive_media(data, most_bytes=most_bytes, expected=expected)
        return await self.put_received(tenant, received)

    async def put_received(self, tenant: str, received: ReceivedMedia) -> StoredMedia:
        chunk_list = ChunkList(
            size=received.item.size, chunks=tuple(map(compute_digest, received.chunks))
        )
        subject = build_media_subject(tenant, received.item.digest)
        await self.real.blobs.store_once(
            subject, chunk_list.model_dump_json().encode(), is_chunk_list
        )
        for chunk in received.chunks:
            await self.real.blobs.put_blob(tenant, chunk)
        return received.item


class ForgetfulMediaStore(PlantedFault):
    """A media store that gives up what it could not store at once, and says that it is stored."""

    async def put_media(
        self,
        tenant: str,
        data: AsyncIterable[bytes],
        *,
        most_bytes: int,
        expected: Digest | None = None,
    ) -> StoredMedia:
        received = await receive_media(data, most_bytes=most_bytes, expected=expected)
        with suppress(TurnlogError):
            impatient = replace(self.real.blobs, patience=0.0)
            await replace(self.real, blobs=impatient).put_media(
                tenant, iterate_bytes(b"".join(received.chunks)), most_bytes=most_bytes
            )
        return received.item


def _inject_into_media(kind: type[PlantedFault]) -> ProcessOptions:
    return ProcessOptions(
        over=lambda on: replace(on, media=cast("JetStreamMediaStore", kind(on.media)))
    )


PLANTED_IN_MEDIA: Final = {
    "a list of chunks that is stored before the chunks": (
        _inject_into_media(HastyMediaStore),
        replace(LOST_MESSAGES, spite=0.3),
    ),
    "an upload that is said to be stored and may not be": (
        _inject_into_media(ForgetfulMediaStore),
        LOST_MESSAGES,
    ),
}
"""Planted faults that only seeds with pictures show, each with a fault profile."""


def _decode_batch(batch: EventBatch) -> list[RecordedEvent]:
    return [decode_event(message.payload, 0) for message in batch.messages]


async def _rebuild_batch(log: JetStreamLog, batch: EventBatch) -> EventBatch:
    last = await log.read_last_event(batch.tenant, batch.session, leader=True)
    drafts = [_copy_draft(each) for each in _decode_batch(batch)]
    return encode_batch(batch.tenant, batch.session, last.head if last else None, drafts)


def _copy_draft(recorded: RecordedEvent) -> EventDraft:
    of = recorded.envelope
    return EventDraft(
        event=cast("KnownEvent", recorded.event),
        id=f"{of.id}-again",
        at=datetime.fromisoformat(of.time),
        source=of.source,
        actor=of.actor,
        causation=of.causationid,
        command=CommandRef(of.commandkey, of.commandhash)
        if of.commandkey and of.commandhash
        else None,
    )
