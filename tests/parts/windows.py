"""Prompt assembly in tests: fetches exactly what a call needs from a session's own events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from turnlog.events.call import ContextAssembled
from turnlog.events.content import Digest, Plain, digest_of
from turnlog.events.envelope import Recorded
from turnlog.events.prompt import PromptFile, PromptsSnapshotted
from turnlog.projections.blueprint.schema import Blueprint, reach
from turnlog.projections.blueprint.source import read_source
from turnlog.projections.session.evolve import fold_whole
from turnlog.projections.session.state import Said, SessionState
from turnlog.projections.testing import Given, given, opening
from turnlog.projections.window.assemble import assemble, needs
from turnlog.projections.window.call import Assembled, Call, Earlier, Needs, Texts
from turnlog.projections.window.material import Material
from turnlog.projections.window.request import ChatMessage, Request

CALL = Call(kind="reply", model="openai/test", provider="openai", at="2026-01-01T00:00:00Z")


def blueprint_of(text: str) -> Blueprint:
    """Parse a blueprint written in a test."""
    return read_source(text).blueprint


def opened_by(blueprint: Blueprint, files: Mapping[str, str], **attributes: JsonValue) -> Given:
    """Open a session with a blueprint, its prompt files pinned."""
    layers = {
        name: PromptFile(digest=digest_of(text), path=f"{name}.md") for name, text in files.items()
    }
    pinned = PromptsSnapshotted(provider="openai", layers=layers)
    return given(opening(reach=reach(blueprint), **attributes), pinned)


def blobs_of(files: Mapping[str, str]) -> dict[Digest, str]:
    """Return prompt files as blobs by digest."""
    return {digest_of(text): text for text in files.values()}


def assembled(session: Given, blueprint: Blueprint, files: Mapping[str, str]) -> Assembled:
    """Assemble the next call of a session as a worker does."""
    return assembled_from(session.opened, session.events, blueprint, files)


def assembled_from(
    state: SessionState, events: Sequence[Recorded], blueprint: Blueprint, files: Mapping[str, str]
) -> Assembled:
    """Assemble a call from a state, or from all events where the state lacks older turns."""
    asked = needs(Material(blueprint), state, CALL)
    if asked.older:
        whole = fold_whole(events)
        assert whole is not None
        state, asked = whole, needs(Material(blueprint), whole, CALL)
    assert not asked.older
    return assemble(Material(blueprint), state, CALL, fetched(asked, events, files))


def fetched(asked: Needs, events: Sequence[Recorded], files: Mapping[str, str]) -> Texts:
    """Fetch the texts a call needs, and no others."""
    blobs = blobs_of(files)
    places = {event.stream_sequence: event for event in events}
    said = {said: _said(places[said.place], said) for said in asked.said}
    earlier = None if asked.earlier is None else _earlier(places[asked.earlier])
    return Texts({digest: blobs[digest] for digest in asked.blobs}, said, earlier)


def _earlier(recorded: Recorded) -> Earlier:
    assert isinstance(recorded.event, ContextAssembled)
    return Earlier(recorded.event.call, recorded.event.manifest)


def _said(recorded: Recorded, said: Said) -> str:
    content: object = getattr(recorded.event, said.field)
    assert isinstance(content, Plain)
    assert (recorded.sequence, content.digest) == (said.sequence, said.digest)
    return content.text


def drawn(request: Request) -> str:
    """Draw a prompt for people to compare."""
    return "".join(_drawn(message) for message in request.messages)


def _drawn(message: ChatMessage) -> str:
    return f"──── {message.role} ────\n{message.content}\n"
