"""The shipped blueprints, each with what a session needs to use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from tests.support.sessions.game_master_turns import STORY_ATTRIBUTES, build_segment
from tests.support.sessions.prompt_assembly import REPLY_CALL, fetch_prompt_texts
from turnlog.events.content import compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.prompt_events import PromptFile, PromptsSnapshotted
from turnlog.projections.blueprint.schema.blueprint_model import compute_history_reach
from turnlog.projections.blueprint.schema.prompt_overrides import list_prompt_layers
from turnlog.projections.library.segment_selection import (
    CallSegments,
    SegmentRequest,
    SelectedSegment,
)
from turnlog.projections.prompt.assemble import assemble, find_missing_turns, plan_prompt
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt, PromptCall
from turnlog.projections.prompt.sources.segment_layers import list_segment_requests
from turnlog.projections.prompt.sources.session_material import SessionMaterial, list_vocabularies
from turnlog.projections.session.evolve import fold_unbounded
from turnlog.projections.session.state import SessionState
from turnlog.projections.testing import SessionScenario, given, open_session
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders
from turnlog.services.extensions.tokenizers import TiktokenVocabulary

SHIPPED_BLUEPRINTS = BlueprintFolders()

SHIPPED_ATTRIBUTES: dict[str, dict[str, JsonValue]] = {
    "trickster": {"task": "lucky-draw", "locale": "lt"},
    "game-master": STORY_ATTRIBUTES,
}

SHIPPED_SEGMENTS = (
    build_segment(1, "core", "Tell a story."),
    build_segment(2, "ruleset", "A six succeeds."),
    build_segment(3, "world", "It is foggy."),
    build_segment(4, "npc", "She hums.", "npc.a", tier=1),
)


@dataclass(frozen=True, slots=True)
class ShippedSession:
    """A shipped blueprint, with a budget that a test may set."""

    name: str
    tokens: int | None = None
    inputs: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])

    @property
    def attributes(self) -> dict[str, JsonValue]:
        """The attributes its session is opened with."""
        return SHIPPED_ATTRIBUTES.get(self.name, {})

    @property
    def material(self) -> SessionMaterial:
        """What a session is made from."""
        blueprint = SHIPPED_BLUEPRINTS.load_blueprint(self.name)
        if self.tokens is not None:
            tokens = {"tokens": self.tokens}
            budgets = {n: each.model_copy(update=tokens) for n, each in blueprint.budget.items()}
            blueprint = blueprint.model_copy(update={"budget": budgets})
        return SessionMaterial(
            blueprint=blueprint,
            cartridge=SHIPPED_BLUEPRINTS.read_cartridge(blueprint, self.attributes) or {},
            vocabularies={n: TiktokenVocabulary(n) for n in list_vocabularies(blueprint)},
        )

    @property
    def files(self) -> dict[str, str]:
        """Its prompt files, by layer."""
        blueprint = SHIPPED_BLUEPRINTS.load_blueprint(self.name)
        layers = list_prompt_layers(blueprint)
        found = SHIPPED_BLUEPRINTS.read_prompt_files(blueprint, layers, "openai", self.attributes)
        return {name: text for name, (_, text) in found.items()}

    def open_session(self) -> SessionScenario:
        """Open a session, its prompt files pinned."""
        material = self.material
        files = {n: PromptFile(digest=compute_digest(t), path=n) for n, t in self.files.items()}
        command = replace(
            open_session(reach=compute_history_reach(material.blueprint), **self.attributes),
            profile=material.blueprint.default_profile,
            phases=material.phases,
        )
        return given(command, PromptsSnapshotted(provider="openai", layers=files))

    def build_call(self, state: SessionState, kind: str) -> PromptCall:
        """Give a call of a kind what the library holds."""
        call = replace(REPLY_CALL, kind=kind, inputs=self.inputs)
        requests = list_segment_requests(self.material, state, call)
        return replace(
            call,
            gathered=CallSegments({request: _select_segments(request) for request in requests}),
        )

    def assemble_call(
        self, state: SessionState, events: Sequence[RecordedEvent], call: PromptCall
    ) -> AssembledPrompt:
        """Assemble a call from a state, from all events where that does not reach far enough."""
        if find_missing_turns(self.material, state, call):
            full_state = fold_unbounded(events)
            assert full_state is not None
            state = full_state
        plan = plan_prompt(self.material, state, call)
        return assemble(plan, fetch_prompt_texts(plan.needs, events, self.files))


def _select_segments(want: SegmentRequest) -> tuple[SelectedSegment, ...]:
    return tuple(
        each
        for each in SHIPPED_SEGMENTS
        if (each.source.scope, each.source.ref) == (want.scope, want.ref)
    )
