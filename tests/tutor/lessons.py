"""Tutor sessions built from commands alone, and the prompt at any point of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from tests.parts.windows import fetched
from turnlog.events.content import digest_of
from turnlog.events.prompt import PromptFile, PromptsSnapshotted
from turnlog.events.tokens import ToolRequest
from turnlog.projections.blueprint.overriding import prompt_layers
from turnlog.projections.blueprint.phases import TRANSITION, PhaseGraph
from turnlog.projections.blueprint.schema import reach
from turnlog.projections.session.commands import (
    ClaimTurn,
    CompleteTurn,
    FixContext,
    OpenSession,
    RecordChoice,
    SubmitTurn,
    Withheld,
)
from turnlog.projections.session.state import SessionState
from turnlog.projections.testing import SPENT, Given, attempt_of, given, opening
from turnlog.projections.window.assemble import assemble, needs
from turnlog.projections.window.call import Assembled, Call
from turnlog.projections.window.material import Material
from turnlog.services.runtime.library import Library

LIBRARY: Final = Library()
MODEL: Final = "openai/test"


def shipped(task: str) -> Material:
    """Return the shipped blueprint with the cartridge of one task."""
    blueprint = LIBRARY.get("trickster")
    return Material(blueprint, LIBRARY.cartridge(blueprint, {"task": task}) or {})


def shipped_files(task: str) -> dict[str, str]:
    """Return the prompt files of a task by layer."""
    blueprint = LIBRARY.get("trickster")
    layers = prompt_layers(blueprint)
    found = LIBRARY.prompt_files(blueprint, layers, "openai", {"task": task})
    return {name: text for name, (_, text) in found.items()}


def graph(material: Material) -> PhaseGraph:
    """Return the phase graph of a task."""
    assert material.phases is not None
    return material.phases


@dataclass(frozen=True, slots=True)
class Lesson:
    """A session so far, with the material and the files its prompts are assembled from."""

    material: Material
    files: Mapping[str, str]
    session: Given

    def later(self, session: Given) -> Lesson:
        """Return the same material and files with another session."""
        return Lesson(self.material, self.files, session)

    def chosen(self, choice: str) -> Lesson:
        return self.later(self.session.later(RecordChoice(choice, graph(self.material))))

    def asked(self, text: str) -> Lesson:
        policies = self.material.blueprint.policies
        return self.later(self.session.later(SubmitTurn(text, policies, graph(self.material))))

    def called(self) -> Lesson:
        """Let a worker claim the open turn and record its prompt."""
        policies = self.material.blueprint.policies
        state = self.session.opened
        claimed = self.session.later(ClaimTurn(attempt_of(state).turn, "w1", policies))
        found = self.later(claimed).assembled
        attempt = attempt_of(claimed.opened)
        return self.later(claimed.later(FixContext(attempt, MODEL, {}, found.manifest)))

    def answered(self, text: str, *, signal: str | None = None, unsafe: bool = False) -> Lesson:
        """Let the model answer, with a signal or with a reply that is withheld."""
        wish = ToolRequest(id="call-1", tool=TRANSITION, arguments=f'{{"signal": "{signal}"}}')
        replacement = self.material.blueprint.policies.replacement
        withheld = Withheld("it matches a pattern", "contact-details", replacement, digest_of(text))
        called = self.called()
        completed = CompleteTurn(
            attempt_of(called.session.opened),
            text,
            "safety" if unsafe else "stop",
            SPENT,
            graph(self.material),
            (wish,) if signal else (),
            withheld if unsafe else None,
        )
        return self.later(called.session.later(completed))

    @property
    def assembled(self) -> Assembled:
        """The prompt of the next call."""
        state: SessionState = self.session.opened
        call = Call(self.material.call_kind(state), MODEL, "openai", "2026-01-01T00:00:00Z")
        texts = fetched(needs(self.material, state, call), self.session.events, self.files)
        return assemble(self.material, state, call, texts)


def opened(material: Material, files: Mapping[str, str], **attributes: JsonValue) -> Lesson:
    """Open a session with its prompt files pinned."""
    ref = opening().blueprint
    values = {"task": "any", "locale": "lt", **attributes}
    command = OpenSession(ref, "tutor", reach(material.blueprint), values, phases=graph(material))
    layers = {
        name: PromptFile(digest=digest_of(text), path=f"{name}.md") for name, text in files.items()
    }
    pinned = PromptsSnapshotted(provider="openai", layers=layers)
    return Lesson(material, files, given(command, pinned))
