"""Prompt assembly in tests: fetches exactly what a call needs from a session's own events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter

from pydantic import JsonValue

from turnlog.events.content import Digest, PlainText, compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.prompt_events import PromptFile, PromptsSnapshotted
from turnlog.projections.blueprint.loading.blueprint_source import load_blueprint_source
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, compute_history_reach
from turnlog.projections.prompt.assemble import assemble, find_missing_turns, plan_prompt
from turnlog.projections.prompt.assembly_inputs import (
    AssembledPrompt,
    EarlierCall,
    PromptCall,
    PromptNeeds,
    PromptTexts,
)
from turnlog.projections.prompt.chat_request import ChatMessage, ChatRequest
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.evolve import fold_unbounded
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.text_refs import TextRef
from turnlog.projections.testing import SessionScenario, given, open_session

REPLY_CALL = PromptCall(kind="reply", model="openai/test", at="2026-01-01T00:00:00Z")


def parse_blueprint(text: str) -> Blueprint:
    """Read a blueprint written in a test."""
    return load_blueprint_source(text).blueprint


def open_with_blueprint(
    blueprint: Blueprint, files: Mapping[str, str], **attributes: JsonValue
) -> SessionScenario:
    """Open a session by a blueprint, with its prompt files pinned."""
    layers = {
        name: PromptFile(digest=compute_digest(text), path=f"{name}.md")
        for name, text in files.items()
    }
    pinned = PromptsSnapshotted(provider="openai", layers=layers)
    return given(open_session(reach=compute_history_reach(blueprint), **attributes), pinned)


def build_blobs(files: Mapping[str, str]) -> dict[Digest, str]:
    """Give prompt files as the blobs they become."""
    return {compute_digest(text): text for text in files.values()}


def assemble_next_prompt(
    session: SessionScenario,
    blueprint: Blueprint,
    files: Mapping[str, str],
    call: PromptCall = REPLY_CALL,
) -> AssembledPrompt:
    """Assemble the next call of a session as a worker does."""
    return assemble_prompt_from(
        state=session.opened_state,
        events=session.events,
        blueprint=blueprint,
        files=files,
        call=call,
    )


def assemble_prompt_from(
    state: SessionState,
    events: Sequence[RecordedEvent],
    blueprint: Blueprint,
    files: Mapping[str, str],
    call: PromptCall = REPLY_CALL,
) -> AssembledPrompt:
    """Assemble a call from a state; when that reaches too little far back, from all events."""
    material = SessionMaterial(blueprint=blueprint)
    if find_missing_turns(material, state, call):
        full_state = fold_unbounded(events)
        assert full_state is not None
        state = full_state
    assert not find_missing_turns(material, state, call)
    plan = plan_prompt(material, state, call)
    return assemble(plan, fetch_prompt_texts(plan.needs, events, files))


def fetch_prompt_texts(
    needs: PromptNeeds, events: Sequence[RecordedEvent], files: Mapping[str, str]
) -> PromptTexts:
    """Fetch what is asked for, and nothing else."""
    blobs = build_blobs(files)
    places = {event.stream_sequence: event for event in events}
    texts = {ref: _read_referenced_text(places[ref.place], ref) for ref in needs.text_refs}
    earlier = (
        None
        if needs.earlier_sequence is None
        else _read_previous_call(places[needs.earlier_sequence])
    )
    return PromptTexts({digest: blobs[digest] for digest in needs.blobs}, texts, earlier)


def _read_previous_call(recorded: RecordedEvent) -> EarlierCall:
    assert isinstance(recorded.event, ContextAssembled)
    return EarlierCall(recorded.event.call, recorded.event.manifest)


def _read_referenced_text(recorded: RecordedEvent, ref: TextRef) -> str:
    content = attrgetter(ref.field)(recorded.event)
    assert isinstance(content, PlainText)
    assert (recorded.sequence, content.digest) == (ref.sequence, ref.digest)
    return content.text


def draw_prompt(request: ChatRequest) -> str:
    """Draw a prompt for people to compare."""
    return "".join(_draw_message(message) for message in request.messages)


def _draw_message(message: ChatMessage) -> str:
    return f"──── {message.role} ────\n{message.content}\n"
