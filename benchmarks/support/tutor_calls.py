"""A call in the middle of a lesson of the shipped tutor, as long as most calls are.

Everything needed to assemble the call and to read it back is in memory, as it is in an audit that
reads a log call by call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from benchmarks.support.random_prose import RandomProse
from tests.layered_prompts.tutor_sessions import (
    MODEL,
    TutorSession,
    load_shipped_material,
    open_tutor_session,
    read_shipped_files,
)
from tests.support.sessions.prompt_assembly import build_blobs, fetch_prompt_texts
from turnlog.events.content import Digest
from turnlog.projections.audit.record.prompt_readback import read_parts, read_tools
from turnlog.projections.prompt.assemble import assemble, plan_prompt
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt, PromptCall, PromptTexts
from turnlog.projections.prompt.chat_request import ChatRequest
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.state import SessionState
from turnlog.projections.session_views.session_history import HistoryTurn, build_history

TUTOR_TASK: Final = "share-before-reading"

TURNS: Final = 12

CHARACTERS: Final = 850
"""Of a turn's text and its reply together, at three characters a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TutorCall:
    """A lesson whose next call is to be assembled."""

    lesson: TutorSession
    call: PromptCall
    texts: PromptTexts
    blobs: Mapping[Digest, str]
    turns: Mapping[int, HistoryTurn]

    @property
    def state(self) -> SessionState:
        """The session as it stands."""
        return self.lesson.session.opened_state

    def assemble_call(self) -> AssembledPrompt:
        """Plan the call, list what it needs, and assemble it."""
        plan = plan_prompt(self.lesson.material, self.state, self.call)
        assert plan.needs.text_refs
        return assemble(plan, self.texts)

    def read_back_call(self, assembled: AssembledPrompt) -> ChatRequest:
        """Read the call back by its manifest."""
        request, manifest = assembled.request, assembled.manifest
        messages = read_parts(manifest, self.lesson.session.events, self.turns, self.blobs)
        return ChatRequest(
            request.model, messages, read_tools(manifest, self.blobs), request.parameters
        )


def build_tutor_call() -> TutorCall:
    """Run some turns of a lesson, and submit one more."""
    material, files, prose = (
        _extend_dialogue(load_shipped_material(TUTOR_TASK)),
        read_shipped_files(TUTOR_TASK),
        RandomProse(),
    )
    lesson = open_tutor_session(material, files).record_choice("share")
    for _ in range(TURNS):
        lesson = lesson.submit_text(prose.generate_text(CHARACTERS // 2)).answer_turn(
            prose.generate_text(CHARACTERS // 2)
        )
    lesson = lesson.submit_text(prose.generate_text(CHARACTERS // 2))
    state, blobs = lesson.session.opened_state, build_blobs(files)
    call = PromptCall(kind=material.find_call_kind(state), model=MODEL, at="2026-01-01T00:00:00Z")
    needs = plan_prompt(material, state, call).needs
    texts = fetch_prompt_texts(needs, lesson.session.events, files)
    turns = {turn.turn: turn for turn in build_history(lesson.session.events)}
    return TutorCall(lesson=lesson, call=call, texts=texts, blobs=blobs, turns=turns)


def _extend_dialogue(material: SessionMaterial) -> SessionMaterial:
    """Let a dialogue go on for longer than the shipped task does."""
    phases = material.cartridge["phases"]
    assert isinstance(phases, dict)
    talk = phases["talk"]
    assert isinstance(talk, dict)
    longer = {**phases, "talk": {**talk, "max_exchanges": TURNS * 2}}
    return replace(material, cartridge={**material.cartridge, "phases": longer})
