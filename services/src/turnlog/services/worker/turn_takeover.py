"""A turn that a worker takes over from another one that went silent: when it may, and what is left.

Three parts decide together whether it may: the server redelivers a turn after `ack_wait`,
`compute_grace` says whether the silence lasted long enough, and the rules of the session allow or
refuse the claim.

The token stream may still hold the answer of the silent worker. Only a closed attempt counts as
one, and only if its tokens join without a gap to the text whose digest the closing message states.
Anything less is recovered as a partial text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from turnlog.events.content import compute_digest
from turnlog.events.store.ports import StampedTokenEvent, TokenStream
from turnlog.events.tokens import AttemptClosed, Token
from turnlog.services.worker.turn_queue import TurnDelivery


@dataclass(frozen=True, slots=True)
class RecoveredAnswer:
    """The whole answer of an attempt."""

    text: str
    closed: AttemptClosed


def join_tokens(events: Iterable[StampedTokenEvent], attempt: int) -> str:
    """Join the tokens of an attempt up to the first gap."""
    text = ""
    for stamped in events:
        match stamped.event:
            case Token(attempt=of, offset=offset, text=piece) if of == attempt:
                text += piece if offset == len(text) else ""
            case _:
                pass
    return text


def recover_answer(events: Iterable[StampedTokenEvent], attempt: int) -> RecoveredAnswer | None:
    """Return the whole answer of an attempt, if all of it is stored."""
    stored_events = tuple(events)
    closed = next(
        (
            stamped.event
            for stamped in stored_events
            if isinstance(stamped.event, AttemptClosed) and stamped.event.attempt == attempt
        ),
        None,
    )
    text = join_tokens(stored_events, attempt)
    if closed is None or len(text) != closed.length or compute_digest(text) != closed.digest:
        return None
    return RecoveredAnswer(text, closed)


async def measure_silence(
    tokens: TokenStream, delivery: TurnDelivery, attempt: int
) -> float | None:
    """Return the seconds since the attempt's last token or sign of life, by the server's clock.

    None if none is stored. What an earlier attempt still publishes does not count: its worker was
    superseded.
    """
    events = await tokens.read_token_events(delivery.tenant, delivery.session, delivery.turn)
    since = await tokens.measure_silence(delivery.tenant, delivery.session, delivery.turn)
    own = [stamped.at for stamped in events if stamped.event.attempt == attempt]
    if since is None or not own:
        return None
    return since + (events[-1].at - own[-1]).total_seconds()


class AttemptSuperseded(Exception):
    """The attempt has lost the lease of its turn; only its cost may still be recorded."""


async def compute_grace(
    tokens: TokenStream, delivery: TurnDelivery, attempt: int, ack_wait: float
) -> float:
    """Return the seconds to leave a running attempt alone; 0 when it may be taken over.

    A redelivery of an attempt that left no tokens counts as silence.
    """
    silence = await measure_silence(tokens, delivery, attempt)
    if silence is None:
        return 0 if delivery.redelivered else ack_wait
    return max(0.0, ack_wait - silence)
