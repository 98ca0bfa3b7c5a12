"""Faults of the protocol, planted by composition: each is a small, plausible mistake.

The product is unchanged. One part of a process is wrapped so that it does the wrong thing; the
tests check that the simulation finds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, cast

from faststream.nats.message import NatsMessage

from tests.simulation.roles import Making
from tests.simulation.weather import CALM, DEADLY, DOUBTFUL, SLEEPY
from turnlog.events.codec import CommandRef, EventBatch, EventDraft, decode_event, encode_batch
from turnlog.events.content import compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.jetstream.jetstream_client import JetStreamClient, JetStreamLog
from turnlog.events.jetstream.token_stream import JetStreamTokenStream
from turnlog.events.model.call_events import AttemptStarted
from turnlog.events.registry import KnownEvent
from turnlog.events.store.append_outcomes import AppendOutcome, BatchConflict, LogUnreachable
from turnlog.events.store.ports import StampedTokenEvent
from turnlog.events.tokens import AttemptClosed, Token
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.worker import app
from turnlog.services.worker.turn_runner import TurnRunner


@dataclass
class Instead:
    """Wraps an object and forwards everything that the subclass does not define."""

    real: Any

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the real one has
        return getattr(self.real, name)


def on_log(kind: type[Instead]) -> Making:
    """Plant a faulty log in every process."""
    return Making(over=lambda on: replace(on, log=cast("JetStreamLog", kind(on.log))))


def _on_tokens(on: JetStreamClient) -> JetStreamClient:
    return replace(on, tokens=cast("JetStreamTokenStream", Credulous(on.tokens)))


class Overheard(Instead):
    """A message that remembers whether it was acknowledged in any way."""

    said = False

    async def ack(self) -> None:
        self.said = True
        await self.real.ack()

    async def nack(self, delay: float) -> None:
        self.said = True
        await self.real.nack(delay=delay)


async def fenced_naks(message: NatsMessage, answering: TurnRunner) -> None:
    """Hand back what one was fenced off from."""
    overheard = Overheard(message)
    await app.handle_message(cast("NatsMessage", overheard), answering)
    if not overheard.said:
        await message.nack(delay=0)


class Blind(Instead):
    """A log that appends claims at whatever position the session has reached."""

    async def append_batch(self, batch: EventBatch) -> AppendOutcome:
        outcome: AppendOutcome = await self.real.append(batch)
        claims = any(isinstance(each.event, AttemptStarted) for each in _read(batch))
        if not claims or not isinstance(outcome, BatchConflict):
            return outcome
        return await self.append_batch(await _behind_whatever_is_there(self.real, batch))


class Impatient(Instead):
    """A log that appends the same again as new events after an ambiguous answer."""

    async def append_batch(self, batch: EventBatch) -> AppendOutcome:
        outcome: AppendOutcome = await replace(self.real, patience=0.0).append(batch)
        if not (isinstance(outcome, LogUnreachable) and outcome.ambiguous):
            return outcome
        return await self.append_batch(await _behind_whatever_is_there(self.real, batch))


class Trusting(Instead):
    """A log that reads from any replica where the leader was requested."""

    async def read_last_event(
        self, tenant: str, session: str, *, leader: bool = False
    ) -> RecordedEvent | None:
        del leader
        found: RecordedEvent | None = await self.real.last(tenant, session)
        return found


class Credulous(Instead):
    """Tokens whose gaps and digests are repaired instead of checked."""

    async def read_token_events(
        self, tenant: str, session: str, turn: int
    ) -> Sequence[StampedTokenEvent]:
        held: Sequence[StampedTokenEvent] = await self.real.recorded(tenant, session, turn)
        texts: dict[int, str] = {}
        return [replace(each, event=_fitted(each.event, texts)) for each in held]


def _fitted(event: Any, texts: dict[int, str]) -> Any:  # noqa: ANN401 - any token event
    text = texts.get(event.attempt, "")
    match event:
        case Token():
            texts[event.attempt] = text + event.text
            return event.model_copy(update={"offset": len(text)})
        case AttemptClosed():
            return event.model_copy(update={"length": len(text), "digest": compute_digest(text)})
        case _:
            return event


class Forgetful(Instead):
    """A command handler that does not record the key of a command."""

    async def act(self, *wanted: Any, **named: Any) -> Any:  # noqa: ANN401
        return await self.real.act(*wanted[:4], **named)


async def ack_first(message: NatsMessage, answering: TurnRunner) -> None:
    """Acknowledge a turn before it is answered."""
    await message.ack()
    await app.handle_message(message, answering)


def _forgetful(sessions: CommandHandler) -> CommandHandler:
    return cast("CommandHandler", Forgetful(sessions))


PLANTED: Final = {
    "a fenced worker that naks": (Making(take=fenced_naks), SLEEPY),
    "a claim without compare-and-set": (on_log(Blind), SLEEPY),
    "a retry that builds a new event after an ambiguous answer": (on_log(Impatient), DOUBTFUL),
    "a read-back that trusts a stale replica": (on_log(Trusting), DEADLY),
    "a recovery from tokens that ignores gaps and digests": (Making(over=_on_tokens), DEADLY),
    "an acknowledgement before the end is recorded": (Making(take=ack_first), DEADLY),
    "a command whose key is not recorded": (Making(asking=_forgetful), CALM),
}
"""Each planted fault, with a fault profile under which it shows."""


def _read(batch: EventBatch) -> list[RecordedEvent]:
    return [decode_event(message.payload, 0) for message in batch.messages]


async def _behind_whatever_is_there(log: JetStreamLog, batch: EventBatch) -> EventBatch:
    last = await log.read_last_event(batch.tenant, batch.session, leader=True)
    drafts = [_draft(each) for each in _read(batch)]
    return encode_batch(batch.tenant, batch.session, last.head if last else None, drafts)


def _draft(recorded: RecordedEvent) -> EventDraft:
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
