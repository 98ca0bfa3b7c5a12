"""A hypothetical turn: the session as it would be if a turn were submitted now.

The same `decide` and `evolve` run as for a real turn. A turn that is open or waits is ignored,
since its answer is not known. Nothing is recorded, and the stream sequence of the hypothetical
event belongs to no event.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from turnlog.events import codec
from turnlog.events.content import PlainText
from turnlog.events.errors import Refused
from turnlog.events.model.turn_events import TurnSubmitted
from turnlog.projections.prompt.assembly_inputs import PromptTexts
from turnlog.projections.prompt.session_material import SessionMaterial
from turnlog.projections.session.commands import SubmitTurn
from turnlog.projections.session.decide import decide
from turnlog.projections.session.evolve import fold
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.text_refs import TextRef


@dataclass(frozen=True, slots=True)
class HypotheticalTurn:
    """A session state with an open turn that was never submitted."""

    state: SessionState
    base_sequence: int
    """The session's sequence that it was derived from."""
    text_ref: TextRef | None
    """The reference of the turn's text."""
    text: str

    def add_text(self, texts: PromptTexts) -> PromptTexts:
        """Return the texts with the turn's own text added, which cannot be fetched."""
        if self.text_ref is None:
            return texts
        return replace(texts, by_ref={**texts.by_ref, self.text_ref: self.text})


def build_hypothetical_turn(
    state: SessionState, command: SubmitTurn, at: datetime
) -> HypotheticalTurn:
    """Open a hypothetical turn; raises `Refused` if the session would refuse it."""
    alone = replace(state, open=None, waiting=())
    drafts = [
        codec.EventDraft(event, f"supposed-{place}", at, "supposed", "supposed")
        for place, event in enumerate(decide(alone, command, at))
    ]
    batch = codec.encode_batch(state.tenant, state.session, state.head, drafts)
    place = state.head.stream_sequence
    events = [
        codec.decode_event(each.payload, place + n) for n, each in enumerate(batch.messages, 1)
    ]
    folded = fold(events, alone) or alone
    text = "".join(
        each.event.text.text
        for each in events
        if isinstance(each.event, TurnSubmitted) and isinstance(each.event.text, PlainText)
    )
    said = folded.open.text if folded.open else None
    return HypotheticalTurn(folded, state.head.sequence, said, text)


def replace_budget(material: SessionMaterial, kind: str, tokens: int) -> SessionMaterial:
    """Return the material with another token limit for one kind of call."""
    blueprint = material.blueprint
    name = blueprint.calls[kind].budget
    if name is None:
        detail = f"the call {kind} has no budget, so nothing of it is ever cut"
        raise Refused("no-budget", detail, field="budget", fix="leave it out")
    other = blueprint.budget[name].model_copy(update={"tokens": tokens})
    budgets = {**blueprint.budget, name: other}
    return replace(material, blueprint=blueprint.model_copy(update={"budget": budgets}))
