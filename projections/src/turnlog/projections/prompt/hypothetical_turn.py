"""Hypothetical sessions and turns: the state if one were opened or submitted now.

The same `decide` and `evolve` run as for a real turn. A turn that is open or waits is ignored,
since its answer is not known. Nothing is recorded, so the turn carries its own text and inputs:
neither can be read from the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from pydantic import JsonValue

from turnlog.events import codec
from turnlog.events.content import PlainText
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.model.turn_events import TurnSubmitted
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import Command, OpenSession, SubmitTurn
from turnlog.projections.session.decide import decide
from turnlog.projections.session.evolve import fold
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.text_refs import TextRef, build_text_ref

HYPOTHETICAL_SESSION: Final = "supposed"
"""Id of a session that was never opened."""

UNRECORDED_POSITION: Final = 0
"""Stream position of a hypothetical event; recorded events have positions from 1."""


@dataclass(frozen=True, slots=True)
class HypotheticalTurn:
    """A session state with an open turn that was never submitted."""

    state: SessionState
    base_sequence: int
    """The session's sequence that it was derived from."""
    inputs: Mapping[str, JsonValue]
    """The inputs of the turn."""
    texts: Mapping[TextRef, str]
    """The text of the turn, if it has one."""


def open_hypothetical_session(tenant: str, command: OpenSession, at: datetime) -> SessionState:
    """Open a hypothetical session; raises `Refused` if it could not be opened."""
    state = fold(
        _decide_unrecorded(
            tenant=tenant, session=HYPOTHETICAL_SESSION, state=None, command=command, at=at
        )
    )
    if state is None:
        raise Corrupt("opening", "it led to no event")
    return state


def build_hypothetical_turn(
    state: SessionState, command: SubmitTurn, at: datetime
) -> HypotheticalTurn:
    """Open a hypothetical turn; raises `Refused` if the session would refuse it."""
    alone = replace(state, open=None, waiting=())
    events = _decide_unrecorded(
        tenant=state.tenant, session=state.session, state=alone, command=command, at=at
    )
    inputs, texts = dict[str, JsonValue](), dict[TextRef, str]()
    for recorded in events:
        event = recorded.event
        if isinstance(event, TurnSubmitted):
            inputs = dict(event.inputs)
            if isinstance(event.text, PlainText):
                texts[build_text_ref(recorded, "text", event.text)] = event.text.text
    return HypotheticalTurn(fold(events, alone) or alone, state.head.sequence, inputs, texts)


def _decide_unrecorded(
    tenant: str, session: str, state: SessionState | None, command: Command, at: datetime
) -> list[RecordedEvent]:
    """Return the events that a command would lead to, as they would be read from the log."""
    drafts = [
        codec.EventDraft(
            event=event, id=f"supposed-{number}", at=at, source="supposed", actor="supposed"
        )
        for number, event in enumerate(decide(state, command, at))
    ]
    batch = codec.encode_batch(tenant, session, state.head if state else None, drafts)
    return [each.record_at(UNRECORDED_POSITION) for each in batch.messages]


def replace_budget(material: SessionMaterial, kind: str, tokens: int) -> SessionMaterial:
    """Return the material with another token limit for one kind of call."""
    blueprint = material.blueprint
    name = blueprint.calls[kind].budget
    if name is None:
        detail = f"the call {kind} has no budget, so it is never trimmed"
        raise Refused("no-budget", detail, field="budget", fix="leave it out")
    other = blueprint.budget[name].model_copy(update={"tokens": tokens, "overflow": None})
    budgets = {**blueprint.budget, name: other}
    return replace(material, blueprint=blueprint.model_copy(update={"budget": budgets}))
