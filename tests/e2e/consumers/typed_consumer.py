"""A consumer with the typed subscription of turnlog-events: `typed_consumer URL FILE`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.e2e.consumers.consumer_state import ConsumerState
from turnlog.events import RecordedEvent, Token
from turnlog.events.content import PlainText
from turnlog.events.jetstream.event_consumer import subscribe_events
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.events.store.ports import TurnTokenEvent
from turnlog.events.tokens import AttemptReset


async def follow_events(url: str, file: Path, state: ConsumerState) -> None:
    """Add all events to the digest, and follow each session for its tokens."""
    async with asyncio.TaskGroup() as sessions, subscribe_events(url, after=state.cursor) as stream:
        for session in state.links:
            sessions.create_task(follow_tokens(url, session, file, state))
        async for item in stream:
            if isinstance(item, RecordedEvent):
                state.add_event(
                    session=item.session,
                    sequence=item.sequence,
                    kind=item.envelope.type,
                    prevhash=item.envelope.prevhash,
                    stored=item.stored,
                )
                if item.sequence == 1:
                    sessions.create_task(follow_tokens(url, item.session, file, state))
            state.cursor = stream.cursor
            state.save(file)


async def follow_tokens(url: str, session: str, file: Path, state: ConsumerState) -> None:
    """Join the tokens of a session's turns."""
    after = state.cursors.get(session)
    begun = {name for name in state.replies if name.startswith(f"{session}/")}
    async with subscribe_events(url, session=session, tokens=True, after=after) as stream:
        async for item in stream:
            match item:
                case TurnTokenEvent(turn=turn, event=Token() as token):
                    reply = state.find_reply(session, turn)
                    reply.add_token("token", token.attempt, token.offset, token.text)
                case TurnTokenEvent(turn=turn, event=AttemptReset(attempt=attempt)):
                    state.find_reply(session, turn).add_token("attempt-reset", attempt)
                case RecordedEvent(event=TurnCompleted(turn=turn, text=PlainText(text=text))):
                    # What came while this program was not there need not be repeated
                    if (name := f"{session}/{turn}") in begun and state.replies[name].text != text:
                        state.replies[name].is_cut = True
                case _:
                    pass
            if isinstance(item, RecordedEvent):
                state.joined[session] = item.sequence
                state.tokens_place = sum(state.joined.values())
            state.cursors[session] = stream.cursor
            state.save(file)


if __name__ == "__main__":
    _, nats_url, state_file = sys.argv
    loaded = ConsumerState.load(Path(state_file))
    print(loaded.count, loaded.tokens_place, flush=True)
    asyncio.run(follow_events(nats_url, Path(state_file), loaded))
