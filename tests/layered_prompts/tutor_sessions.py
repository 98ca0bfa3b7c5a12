"""Tutor sessions built from commands alone, and the prompt at any point of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from tests.support.sessions.prompt_assembly import fetch_prompt_texts
from turnlog.events.content import compute_digest
from turnlog.events.model.prompt_events import PromptFile, PromptsSnapshotted
from turnlog.events.tokens import ToolRequest
from turnlog.projections.blueprint.schema.blueprint_model import compute_history_reach
from turnlog.projections.blueprint.schema.phase_specs import TRANSITION_TOOL, PhaseGraph
from turnlog.projections.blueprint.schema.prompt_overrides import list_prompt_layers
from turnlog.projections.prompt.assemble import assemble, plan_prompt
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt, PromptCall
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import (
    ClaimTurn,
    CompleteTurn,
    FixContext,
    OpenSession,
    RecordChoice,
    SubmitTurn,
)
from turnlog.projections.session.open_turn import WithheldAnswer
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


def load_shipped_material(task: str) -> SessionMaterial:
    """Give the shipped blueprint with one of its cartridges."""
    blueprint = LIBRARY.load_blueprint("trickster")
    return SessionMaterial(
        blueprint=blueprint, cartridge=LIBRARY.read_cartridge(blueprint, {"task": task}) or {}
    )


def read_shipped_files(task: str) -> dict[str, str]:
    """Give the prompt files of a task, by layer."""
    blueprint = LIBRARY.load_blueprint("trickster")
    layers = list_prompt_layers(blueprint)
    found = LIBRARY.read_prompt_files(blueprint, layers, "openai", {"task": task})
    return {name: text for name, (_, text) in found.items()}


def require_phase_graph(material: SessionMaterial) -> PhaseGraph:
    """Give the state machine of a task."""
    assert material.phases is not None
    return material.phases


@dataclass(frozen=True, slots=True)
class TutorSession:
    """A session so far, with the material and the files its prompts are assembled from."""

    material: SessionMaterial
    files: Mapping[str, str]
    session: SessionScenario

    def with_session(self, session: SessionScenario) -> TutorSession:
        """Go on from another moment."""
        return TutorSession(self.material, self.files, session)

    def record_choice(self, choice: str) -> TutorSession:
        """Make a choice."""
        return self.with_session(
            self.session.apply_steps(RecordChoice(choice, require_phase_graph(self.material)))
        )

    def submit_text(self, text: str) -> TutorSession:
        policies = self.material.blueprint.policies
        return self.with_session(
            self.session.apply_steps(
                SubmitTurn(text=text, policies=policies, phases=require_phase_graph(self.material))
            )
        )

    def claim_turn(self) -> TutorSession:
        """Let a worker claim the open turn and record its prompt."""
        policies = self.material.blueprint.policies
        state = self.session.opened_state
        claimed = self.session.apply_steps(ClaimTurn(get_attempt(state).turn, "w1", policies))
        found = self.with_session(claimed).assembled
        attempt = get_attempt(claimed.opened_state)
        return self.with_session(
            claimed.apply_steps(
                FixContext(attempt=attempt, model=MODEL, parameters={}, manifest=found.manifest)
            )
        )

    def answer_turn(
        self, text: str, *, signal: str | None = None, unsafe: bool = False
    ) -> TutorSession:
        """Let the model answer, with a signal or with what may not be said."""
        wish = ToolRequest(id="call-1", tool=TRANSITION_TOOL, arguments=f'{{"signal": "{signal}"}}')
        replacement = self.material.get_replacement(self.session.opened_state)
        withheld = WithheldAnswer(
            "it matches a pattern", "contact-details", replacement, compute_digest(text)
        )
        called = self.claim_turn()
        completed = CompleteTurn(
            attempt=get_attempt(called.session.opened_state),
            text=text,
            finish="safety" if unsafe else "stop",
            spent=SAMPLE_SPENT,
            phases=require_phase_graph(self.material),
            tools=(wish,) if signal else (),
            withheld=withheld if unsafe else None,
        )
        return self.with_session(called.session.apply_steps(completed))

    @property
    def assembled(self) -> AssembledPrompt:
        """The prompt of the call that the session makes now."""
        state: SessionState = self.session.opened_state
        call = PromptCall(
            kind=self.material.find_call_kind(state), model=MODEL, at="2026-01-01T00:00:00Z"
        )
        plan = plan_prompt(self.material, state, call)
        return assemble(plan, fetch_prompt_texts(plan.needs, self.session.events, self.files))


def open_tutor_session(
    material: SessionMaterial, files: Mapping[str, str], **attributes: JsonValue
) -> TutorSession:
    """Open a session with its prompt files pinned."""
    ref = open_session().blueprint
    values = {"task": "any", "locale": "lt", **attributes}
    command = OpenSession(
        blueprint=ref,
        profile="tutor",
        reach=compute_history_reach(material.blueprint),
        attributes=values,
        phases=require_phase_graph(material),
    )
    layers = {
        name: PromptFile(digest=compute_digest(text), path=f"{name}.md")
        for name, text in files.items()
    }
    pinned = PromptsSnapshotted(provider="openai", layers=layers)
    return TutorSession(material, files, given(command, pinned))
