"""What a turn that is cut leaves to later prompts: its blueprint's policy, and what was shown.

A reply is shown by its token events, which are kept for some minutes. They are read before the turn
ends, by whoever ends it: a gateway, or the worker that gives a turn up. So the event that ends the
turn has what later prompts include, whatever became of the worker. Where the token events are lost,
nothing was shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from turnlog.events.errors import Corrupt, Refused
from turnlog.events.store.ports import StampedTokenEvent, TokenStream
from turnlog.events.tokens import Token
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.session.open_turn import NOTHING_KEPT, CutReply, OpenTurn
from turnlog.projections.session.state import SessionState
from turnlog.services.blueprints.blueprint_store import BlueprintStore

MAX_SHOWN_CHARACTERS: Final = 100_000
"""Longest text that is read of a cut reply; the event that ends its turn has room for it."""


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


async def read_shown_text(tokens: TokenStream, tenant: str, session: str, opened: OpenTurn) -> str:
    """Return the stored text of the latest attempt at a turn; an earlier attempt's is void."""
    if not opened.attempt:
        return ""
    events = await tokens.read_token_events(tenant, session, opened.turn)
    return join_tokens(events, opened.attempt)[:MAX_SHOWN_CHARACTERS]


@dataclass(frozen=True, slots=True)
class CutReplyReader:
    """Reads the reply of an open turn that a client cuts."""

    blueprints: BlueprintStore
    tokens: TokenStream

    async def read_cut_reply(self, state: SessionState | None, turn: int | None = None) -> CutReply:
        """Return the reply of the open turn; an empty one where another turn is cut, or none."""
        opened = state.open if state else None
        if state is None or opened is None or turn not in {None, opened.turn}:
            return NOTHING_KEPT
        policies = await self._load_policies(state)
        shown = await read_shown_text(self.tokens, state.tenant, state.session, opened)
        return CutReply(policies.cancelled, shown)

    async def _load_policies(self, state: SessionState) -> Policies:
        """Return the policies, or the defaults: a turn ends also if its blueprint is unreadable."""
        try:
            return (await self.blueprints.load_material(state)).blueprint.policies
        except (Corrupt, Refused):
            return Policies()
