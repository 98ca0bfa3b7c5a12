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
from turnlog.events.call import AttemptStarted
from turnlog.events.codec import Batch, Command, Draft, read, write
from turnlog.events.content import digest_of
from turnlog.events.envelope import Recorded
from turnlog.events.kinds import KnownEvent
from turnlog.events.log.outcomes import Conflicted, Outcome, Unreachable
from turnlog.events.log.ports import Stamped
from turnlog.events.nats.jetstream_log import JetStreamLog
from turnlog.events.nats.opening import JetStream
from turnlog.events.nats.tokens import JetStreamTokens
from turnlog.events.tokens import AttemptClosed, Token
from turnlog.services.runtime.sessions import Sessions
from turnlog.services.worker import app
from turnlog.services.worker.answering import Answering


@dataclass
class Instead:
    """Wraps an object and forwards everything that the subclass does not define."""

    real: Any

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the real one has
        return getattr(self.real, name)


def on_log(kind: type[Instead]) -> Making:
    """Plant a faulty log in every process."""
    return Making(over=lambda on: replace(on, log=cast("JetStreamLog", kind(on.log))))


def _on_tokens(on: JetStream) -> JetStream:
    return replace(on, tokens=cast("JetStreamTokens", Credulous(on.tokens)))


class Overheard(Instead):
    """A message that remembers whether it was acknowledged in any way."""

    said = False

    async def ack(self) -> None:
        self.said = True
        await self.real.ack()

    async def nack(self, delay: float) -> None:
        self.said = True
        await self.real.nack(delay=delay)


async def fenced_naks(message: NatsMessage, answering: Answering) -> None:
    """Nak a message after being fenced off from its turn."""
    overheard = Overheard(message)
    await app.take(cast("NatsMessage", overheard), answering)
    if not overheard.said:
        await message.nack(delay=0)


class Blind(Instead):
    """A log that appends claims at whatever position the session has reached."""

    async def append(self, batch: Batch) -> Outcome:
        outcome: Outcome = await self.real.append(batch)
        claims = any(isinstance(each.event, AttemptStarted) for each in _read(batch))
        if not claims or not isinstance(outcome, Conflicted):
            return outcome
        return await self.append(await _behind_whatever_is_there(self.real, batch))


class Impatient(Instead):
    """A log that appends the same again as new events after an ambiguous answer."""

    async def append(self, batch: Batch) -> Outcome:
        outcome: Outcome = await replace(self.real, patience=0.0).append(batch)
        if not (isinstance(outcome, Unreachable) and outcome.ambiguous):
            return outcome
        return await self.append(await _behind_whatever_is_there(self.real, batch))


class Trusting(Instead):
    """A log that reads from any replica where the leader was requested."""

    async def last(self, tenant: str, session: str, *, leader: bool = False) -> Recorded | None:
        del leader
        found: Recorded | None = await self.real.last(tenant, session)
        return found


class Credulous(Instead):
    """Tokens whose gaps and digests are repaired instead of checked."""

    async def recorded(self, tenant: str, session: str, turn: int) -> Sequence[Stamped]:
        held: Sequence[Stamped] = await self.real.recorded(tenant, session, turn)
        texts: dict[int, str] = {}
        return [replace(each, event=_fitted(each.event, texts)) for each in held]


def _fitted(event: Any, texts: dict[int, str]) -> Any:  # noqa: ANN401 - any token event
    text = texts.get(event.attempt, "")
    match event:
        case Token():
            texts[event.attempt] = text + event.text
            return event.model_copy(update={"offset": len(text)})
        case AttemptClosed():
            return event.model_copy(update={"length": len(text), "digest": digest_of(text)})
        case _:
            return event


class Forgetful(Instead):
    """A command handler that does not record the key of a command."""

    async def act(self, *wanted: Any, **named: Any) -> Any:  # noqa: ANN401
        return await self.real.act(*wanted[:4], **named)


async def ack_first(message: NatsMessage, answering: Answering) -> None:
    """Acknowledge a turn before it is answered."""
    await message.ack()
    await app.take(message, answering)


def _forgetful(sessions: Sessions) -> Sessions:
    return cast("Sessions", Forgetful(sessions))


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


def _read(batch: Batch) -> list[Recorded]:
    return [read(message.payload, 0) for message in batch.messages]


async def _behind_whatever_is_there(log: JetStreamLog, batch: Batch) -> Batch:
    last = await log.last(batch.tenant, batch.session, leader=True)
    drafts = [_draft(each) for each in _read(batch)]
    return write(batch.tenant, batch.session, last.head if last else None, drafts)


def _draft(recorded: Recorded) -> Draft:
    of = recorded.envelope
    return Draft(
        event=cast("KnownEvent", recorded.event),
        id=f"{of.id}-again",
        at=datetime.fromisoformat(of.time),
        source=of.source,
        actor=of.actor,
        causation=of.causationid,
        command=Command(of.commandkey, of.commandhash)
        if of.commandkey and of.commandhash
        else None,
    )
