"""Supposing a turn: the session as it would be if something were put to it now.

The same rules decide and the same fold follows them, so what is supposed is what would happen. A
turn that is open, or waits, is left aside: what it will be answered is not known. Nothing is
recorded, and the place of the supposed event in the stream is nobody's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from turnlog.events import codec
from turnlog.events.content import Plain
from turnlog.events.errors import Refused
from turnlog.events.turn import TurnSubmitted
from turnlog.projections.session.commands import SubmitTurn
from turnlog.projections.session.decide import decide
from turnlog.projections.session.evolve import fold
from turnlog.projections.session.state import Said, SessionState
from turnlog.projections.window.call import Texts
from turnlog.projections.window.material import Material


@dataclass(frozen=True, slots=True)
class Supposed:
    """A session in which a turn is open that nobody submitted."""

    state: SessionState
    after: int
    """The session's sequence it was supposed at."""
    said: Said | None
    """Where the turn's text would stand."""
    text: str

    def told(self, texts: Texts) -> Texts:
        """Add the text, which nobody can fetch."""
        if self.said is None:
            return texts
        return replace(texts, said={**texts.said, self.said: self.text})


def supposing(state: SessionState, command: SubmitTurn, at: datetime) -> Supposed:
    """Open a turn in thought; raises `Refused` where the session would not take it."""
    alone = replace(state, open=None, waiting=())
    drafts = [
        codec.Draft(event, f"supposed-{place}", at, "supposed", "supposed")
        for place, event in enumerate(decide(alone, command, at))
    ]
    batch = codec.write(state.tenant, state.session, state.head, drafts)
    place = state.head.stream_sequence
    events = [codec.read(each.payload, place + n) for n, each in enumerate(batch.messages, 1)]
    folded = fold(events, alone) or alone
    text = "".join(
        each.event.text.text
        for each in events
        if isinstance(each.event, TurnSubmitted) and isinstance(each.event.text, Plain)
    )
    said = folded.open.text if folded.open else None
    return Supposed(folded, state.head.sequence, said, text)


def with_budget(material: Material, kind: str, tokens: int) -> Material:
    """Give the call another number of tokens, everything else being the blueprint's."""
    blueprint = material.blueprint
    name = blueprint.calls[kind].budget
    if name is None:
        detail = f"the call {kind} has no budget, so nothing of it is ever cut"
        raise Refused("no-budget", detail, field="budget", fix="leave it out")
    other = blueprint.budget[name].model_copy(update={"tokens": tokens})
    budgets = {**blueprint.budget, name: other}
    return replace(material, blueprint=blueprint.model_copy(update={"budget": budgets}))
