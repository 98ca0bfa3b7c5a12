"""A consumer with FastStream, on durable consumers of its own: `faststream_consumer URL FILE`.

It takes the fields that it needs from the documented schemas, and nothing from Turnlog's packages.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from faststream import AckPolicy, FastStream
from faststream.nats import JStream, NatsBroker, NatsMessage, PullSub
from faststream.nats.subscriber.usecases import PullStreamSubscriber
from nats.js.api import ConsumerConfig
from pydantic import BaseModel, ValidationError

from tests.e2e.consumers.consumer_state import ConsumerState


class StoredEvent(BaseModel):
    """The fields of all events that the digest is made of."""

    tenant: str
    subject: str
    sequence: int
    type: str
    prevhash: str | None = None


class TokenMessage(BaseModel):
    """What all messages of `TOKENS` have, and the fields of a token."""

    kind: str
    attempt: int
    offset: int = 0
    text: str = ""


def parse_event(subject: str, stored: bytes) -> StoredEvent | None:
    """Return the event; None for a message that is no event of the session in its subject."""
    try:
        event = StoredEvent.model_validate_json(stored)
    except ValidationError:
        return None
    _, tenant, session, *_ = subject.split(".")
    return event if (event.tenant, event.subject) == (tenant, session) else None


def build_application(url: str, file: Path, state: ConsumerState) -> FastStream:
    """Build the application, whose handlers are sent a message until it is acknowledged.

    A handler that fails acknowledges nothing, so no later message comes, and none is lost.
    """
    broker = NatsBroker(url, logger=None, ack_policy=AckPolicy.MANUAL)

    def subscribe(stream: str, subject: str) -> PullStreamSubscriber:
        return broker.subscriber(
            subject,
            stream=JStream(stream, declare=False),
            durable=f"faststream-{stream}",
            pull_sub=PullSub(batch_size=1, timeout=1.0),
            config=ConsumerConfig(ack_wait=1, max_ack_pending=1),
        )

    @subscribe("SESSIONS", "session.default.>")
    async def on_event(message: NatsMessage) -> None:
        raw = message.raw_message
        place = raw.metadata.sequence.stream
        if place > state.place:
            if event := parse_event(raw.subject, raw.data):
                state.add_event(
                    session=event.subject,
                    sequence=event.sequence,
                    kind=event.type,
                    prevhash=event.prevhash,
                    stored=raw.data,
                )
            state.place = place
            state.save(file)
        await message.ack()

    @subscribe("TOKENS", "tokens.default.>")
    async def on_token(message: NatsMessage) -> None:
        raw = message.raw_message
        place = raw.metadata.sequence.stream
        if place > state.tokens_place:
            token = TokenMessage.model_validate_json(raw.data)
            _, _, session, turn = raw.subject.split(".")
            reply = state.find_reply(session, turn)
            reply.add_token(token.kind, token.attempt, token.offset, token.text)
            state.tokens_place = place
            state.save(file)
        await message.ack()

    return FastStream(broker, logger=None)


if __name__ == "__main__":
    _, nats_url, state_file = sys.argv
    loaded = ConsumerState.load(Path(state_file))
    print(loaded.count, loaded.tokens_place, flush=True)
    asyncio.run(build_application(nats_url, Path(state_file), loaded).run())
