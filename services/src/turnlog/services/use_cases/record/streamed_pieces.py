"""What a stream of events has of the replies that are being generated."""

from __future__ import annotations

from turnlog.contract.stream_payloads import (
    StreamedPiece,
    StreamedResetPayload,
    StreamedTokenPayload,
)
from turnlog.events.store.ports import TurnTokenEvent
from turnlog.events.tokens import AttemptReset, Token


def build_piece(session: str, item: TurnTokenEvent) -> StreamedPiece | None:
    """Return what a stream of events has of a token event, which is nothing for most."""
    match item.event:
        case Token(call=call, attempt=attempt, offset=offset, text=text):
            return StreamedTokenPayload(
                session=session,
                turn=item.turn,
                call=call,
                attempt=attempt,
                offset=offset,
                text=text,
            )
        case AttemptReset(call=call, attempt=attempt):
            return StreamedResetPayload(session=session, turn=item.turn, call=call, attempt=attempt)
        case _:
            return None
