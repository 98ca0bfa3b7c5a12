"""Tutor sessions built from commands alone, and the prompt at any point of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from tests.parts.windows import fetched
from turnlog.events.content import compute_digest
from turnlog.events.model.prompt_events import PromptFile, PromptsSnapshotted
from turnlog.events.tokens import ToolRequest
from turnlog.projections.blueprint.schema.blueprint_model import compute_history_reach
from turnlog.projections.blueprint.schema.phase_specs import TRANSITION_TOOL, PhaseGraph
from turnlog.projections.blueprint.schema.prompt_overrides import list_prompt_layers
from turnlog.projections.prompt.assemble import assemble, find_prompt_needs
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt, PromptCall
from turnlog.projections.prompt.session_material import SessionMaterial
from turnlog.projections.session.commands import (
    ClaimTurn,
    CompleteTurn,
    FixContext,
    OpenSession,
    RecordChoice,
    SubmitTurn,
    WithheldAnswer,
)
from turnlog.projections.session.state import SessionState
from turnlog.projections.testing import (
    SAMPLE_SPENT,
    SessionScenario,
    get_attempt,
    given,
    open_session,
)
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders

LIBRARY: Final = BlueprintFolders()
MODEL: Final = "openai/test"


def shipped(task: str) -> SessionMaterial:
    """Give the shipped blueprint with one of its cartridges."""
    blueprint = LIBRARY.load_blueprint("trickster")
    return SessionMaterial(blueprint, LIBRARY.read_cartridge(blueprint, {"task": task}) or {})


def shipped_files(task: str) -> dict[str, str]:
    """Give the prompt files of a task, by layer."""
    blueprint = LIBRARY.load_blueprint("trickster")
    layers = list_prompt_layers(blueprint)
    found = LIBRARY.read_prompt_files(blueprint, layers, "openai", {"task": task})
    return {name: text for name, (_, text) in found.items()}


def graph(material: SessionMaterial) -> PhaseGraph:
    """Give the state machine of a task."""
    assert material.phases is not None
    return material.phases


@dataclass(frozen=True, slots=True)
class Lesson:
    """A session so far, with the material and the files its prompts are assembled from."""

    material: SessionMaterial
    files: Mapping[str, str]
    session: SessionScenario

    def later(self, session: SessionScenario) -> Lesson:
        """Go on from another moment."""
        return Lesson(self.material, self.files, session)

    def chosen(self, choice: str) -> Lesson:
        """Make a choice."""
        return self.later(self.session.apply_steps(RecordChoice(choice, graph(self.material))))

    def asked(self, text: str) -> Lesson:
        policies = self.material.blueprint.policies
        return self.later(
            self.session.apply_steps(SubmitTurn(text, policies, graph(self.material)))
        )

    def called(self) -> Lesson:
        """Let a worker claim the open turn and record its prompt."""
        policies = self.material.blueprint.policies
        state = self.session.opened_state
        claimed = self.session.apply_steps(ClaimTurn(get_attempt(state).turn, "w1", policies))
        found = self.later(claimed).assembled
        attempt = get_attempt(claimed.opened_state)
        return self.later(claimed.apply_steps(FixContext(attempt, MODEL, {}, found.manifest)))

    def answered(self, text: str, *, signal: str | None = None, unsafe: bool = False) -> Lesson:
        """Let the model answer, with a signal or with what may not be said."""
        wish = ToolRequest(id="call-1", tool=TRANSITION_TOOL, arguments=f'{{"signal": "{signal}"}}')
        replacement = self.material.blueprint.policies.replacement
        withheld = WithheldAnswer(
            "it matches a pattern", "contact-details", replacement, compute_digest(text)
        )
        called = self.called()
        completed = CompleteTurn(
            get_attempt(called.session.opened_state),
            text,
            "safety" if unsafe else "stop",
            SAMPLE_SPENT,
            graph(self.material),
            (wish,) if signal else (),
            withheld if unsafe else None,
        )
        return self.later(called.session.apply_steps(completed))

    @property
    def assembled(self) -> AssembledPrompt:
        """The prompt of the call that the session makes now."""
        state: SessionState = self.session.opened_state
        call = PromptCall(
            self.material.find_call_kind(state), MODEL, "openai", "2026-01-01T00:00:00Z"
        )
        texts = fetched(
            find_prompt_needs(self.material, state, call), self.session.events, self.files
        )
        return assemble(self.material, state, call, texts)


def opened(material: SessionMaterial, files: Mapping[str, str], **attributes: JsonValue) -> Lesson:
    """Open a session with its prompt files pinned."""
    ref = open_session().blueprint
    values = {"task": "any", "locale": "lt", **attributes}
    command = OpenSession(
        ref, "tutor", compute_history_reach(material.blueprint), values, phases=graph(material)
    )
    layers = {
        name: PromptFile(digest=compute_digest(text), path=f"{name}.md")
        for name, text in files.items()
    }
    pinned = PromptsSnapshotted(provider="openai", layers=layers)
    return Lesson(material, files, given(command, pinned))
