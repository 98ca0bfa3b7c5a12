"""A call in the middle of a lesson of the shipped tutor, as long as most calls are.

Everything needed to assemble the call and to read it back is in memory, as it is in an audit that
reads a log call by call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from benchmarks.parts.prose import Prose
from tests.parts.windows import blobs_of, fetched
from tests.tutor.lessons import MODEL, Lesson, opened, shipped, shipped_files
from turnlog.events.content import Digest
from turnlog.projections.history import Turn, history
from turnlog.projections.session.state import SessionState
from turnlog.projections.window.assemble import assemble, needs
from turnlog.projections.window.call import Assembled, Call, Texts
from turnlog.projections.window.material import Material
from turnlog.projections.window.readback import read_parts, tools_of
from turnlog.projections.window.request import Request

TASK: Final = "share-before-reading"
TURNS: Final = 12
CHARACTERS: Final = 850
"""Of a turn's text and its reply together, at three characters a token."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A lesson whose next call is to be assembled."""

    lesson: Lesson
    call: Call
    texts: Texts
    blobs: Mapping[Digest, str]
    turns: Mapping[int, Turn]

    @property
    def state(self) -> SessionState:
        """The current state of its session."""
        return self.lesson.session.opened

    def assembled(self) -> Assembled:
        """Find what the call needs, and assemble it."""
        needs(self.lesson.material, self.state, self.call)
        return assemble(self.lesson.material, self.state, self.call, self.texts)

    def told(self, assembled: Assembled) -> Request:
        """Read the call back by its manifest."""
        asked, manifest = assembled.request, assembled.manifest
        messages = read_parts(manifest, self.lesson.session.events, self.turns, self.blobs)
        return Request(asked.model, messages, tools_of(manifest, self.blobs), asked.parameters)


def moment() -> Moment:
    """Run some turns of a lesson, and submit one more."""
    material, files, prose = _patient(shipped(TASK)), shipped_files(TASK), Prose()
    lesson = opened(material, files).chosen("share")
    for _ in range(TURNS):
        lesson = lesson.asked(prose.say(CHARACTERS // 2)).answered(prose.say(CHARACTERS // 2))
    lesson = lesson.asked(prose.say(CHARACTERS // 2))
    state, blobs = lesson.session.opened, blobs_of(files)
    call = Call(material.call_kind(state), MODEL, "openai", "2026-01-01T00:00:00Z")
    texts = fetched(needs(material, state, call), lesson.session.events, files)
    turns = {turn.turn: turn for turn in history(lesson.session.events)}
    return Moment(lesson, call, texts, blobs, turns)


def _patient(material: Material) -> Material:
    """Allow the dialogue to be longer than in the shipped task."""
    phases = material.cartridge["phases"]
    assert isinstance(phases, dict)
    talk = phases["talk"]
    assert isinstance(talk, dict)
    longer = {**phases, "talk": {**talk, "max_exchanges": TURNS * 2}}
    return replace(material, cartridge={**material.cartridge, "phases": longer})
