"""Who runs a turn: the claim of a delivered turn, and what a silent worker leaves to the next one.

Of two workers that receive the same turn, the one whose claim is appended first runs it; the other
finds that the attempt is not the one that it had seen, and steps back. Whether a running attempt
may be taken over is decided by the server, which redelivers a turn that nobody extends, and by
`compute_grace`, which says whether the silence lasted long enough.

The token stream may still hold the answer of the silent worker. Only a closed attempt counts as
one, and only if its tokens join without a gap to the text whose digest the closing message states.
Anything less is recovered as a partial text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from turnlog.events.content import compute_digest
from turnlog.events.store.ports import StampedTokenEvent, TokenStream
from turnlog.events.tokens import AttemptAbandoned, AttemptClosed
from turnlog.projections.session.commands import ClaimTurn
from turnlog.projections.session.state import SessionState
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.sessions.cut_replies import join_tokens, read_shown_text
from turnlog.services.worker.turn_context import AttemptSuperseded, TurnContext, trace_failed_turn
from turnlog.services.worker.turn_delivery import TurnDelivery, compute_redelivery_wait


@dataclass(frozen=True, slots=True)
class RecoveredAnswer:
    """The whole answer of an attempt."""

    text: str
    closed: AttemptClosed


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

    None if none is stored, and for ever if its worker has abandoned it. What an earlier attempt
    still publishes does not count: its worker was superseded.
    """
    events = await tokens.read_token_events(delivery.tenant, delivery.session, delivery.turn)
    since = await tokens.measure_silence(delivery.tenant, delivery.session, delivery.turn)
    own = [stamped for stamped in events if stamped.event.attempt == attempt]
    if any(isinstance(stamped.event, AttemptAbandoned) for stamped in own):
        return math.inf
    if since is None or not own:
        return None
    return since + (events[-1].at - own[-1].at).total_seconds()


async def compute_grace(
    tokens: TokenStream,
    delivery: TurnDelivery,
    attempt: int,
    ack_wait: float,
    *,
    runs_here: bool,
) -> float:
    """Return the seconds to leave a running attempt alone; 0 when it may be taken over.

    How often its turn was delivered says nothing of an attempt that this worker runs itself.
    """
    silence = await measure_silence(tokens, delivery, attempt)
    if silence is None:
        silence = 0.0 if runs_here else estimate_silence(delivery.deliveries, ack_wait)
    return max(0.0, ack_wait - silence)


def estimate_silence(deliveries: int, ack_wait: float) -> float:
    """Return how long an attempt without tokens was silent, by the deliveries of its message.

    The first says nothing. A second one comes after a message was not extended for a while, and is
    handed back for the rest of `ack_wait`; with the third that is over.
    """
    match deliveries:
        case 1:
            return 0.0
        case 2:
            return compute_redelivery_wait(ack_wait)
        case _:
            return ack_wait


@dataclass(frozen=True, slots=True)
class TurnClaims:
    """Claims turns for a worker."""

    worker: str
    sessions: CommandHandler
    tokens: TokenStream

    async def claim_turn(self, context: TurnContext) -> SessionState:
        """Claim a turn whose lease is still as the context has it; return the state after it.

        Raises `AttemptSuperseded` if another worker was first. Claims nothing if the turn is over.
        """
        seen, policies = context.require_turn(), context.policies
        partial = await read_shown_text(self.tokens, context.tenant, context.session, seen)

        async def choose(state: SessionState | None) -> ClaimTurn | None:
            opened = state.open if state else None
            if opened is None or opened.turn != seen.turn:
                return None
            if opened.lease != seen.lease:
                raise AttemptSuperseded
            return ClaimTurn(seen.turn, self.worker, policies, partial)

        done = await self.sessions.handle(
            context.tenant, context.session, choose, context.by, expected_state=context.state
        )
        trace_failed_turn(done.events)
        return done.state
