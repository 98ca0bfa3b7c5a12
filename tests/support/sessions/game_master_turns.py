"""Prompts of the shipped game master, assembled in memory from segments of a test."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from tests.support.sessions.prompt_assembly import REPLY_CALL, fetch_prompt_texts
from turnlog.events.content import compute_digest
from turnlog.events.model.manifest import SegmentSource
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, compute_history_reach
from turnlog.projections.library.segment_selection import CallSegments, SelectedSegment
from turnlog.projections.prompt.assemble import assemble, plan_prompt
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt, PromptCall
from turnlog.projections.prompt.sources.layer_content import ApplyRegisteredStep
from turnlog.projections.prompt.sources.segment_layers import list_segment_requests
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import SubmitTurn
from turnlog.projections.testing import DEFAULT_POLICIES, SessionScenario, given, open_session
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders

GAME_MASTER = BlueprintFolders().load_blueprint("game-master")

STORY_ATTRIBUTES: dict[str, JsonValue] = {"entry_point": "ep.1", "world": "w.1", "ruleset": "r.1"}

SCOPE_REFS = {"ruleset": "r.1", "world": "w.1", "entry": "ep.1", "entry_start": "ep.1"}


def build_segment(
    number: int,
    scope: str,
    text: str,
    ref: str | None = None,
    *,
    tier: int = 0,
    type: str = "",
    priority: str = "normal",
) -> SelectedSegment:
    """Make a segment; what belongs to the place has the place's reference."""
    source = SegmentSource(
        segment=number,
        version=1,
        digest=compute_digest(text),
        scope=scope,
        ref=SCOPE_REFS.get(scope, ref),
        locale="en",
        tier=tier,
        type=type,
        priority=priority,
    )
    return SelectedSegment(source, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class GameMasterTurn:
    """A session with an open turn, and the segments of the library."""

    segments: tuple[SelectedSegment, ...]
    text: str
    inputs: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    blueprint: Blueprint = GAME_MASTER
    registered: Mapping[str, ApplyRegisteredStep] = field(
        default_factory=dict[str, ApplyRegisteredStep]
    )

    @property
    def material(self) -> SessionMaterial:
        """What the session is made from."""
        return SessionMaterial(blueprint=self.blueprint, registered_steps=self.registered)

    @property
    def session(self) -> SessionScenario:
        """The session with its turn submitted."""
        submitted = SubmitTurn(text=self.text, policies=DEFAULT_POLICIES, inputs=dict(self.inputs))
        return given(
            open_session(reach=compute_history_reach(self.blueprint), **STORY_ATTRIBUTES), submitted
        )

    @property
    def call(self) -> PromptCall:
        """The call, given what the library holds."""
        call = replace(REPLY_CALL, kind="narrate", inputs=self.inputs)
        requests = list_segment_requests(self.material, self.session.opened_state, call)
        found = {
            request: tuple(
                each
                for each in self.segments
                if (each.source.scope, each.source.ref) == (request.scope, request.ref)
            )
            for request in requests
        }
        return replace(call, gathered=CallSegments(found))

    def assemble_prompt(self, call: PromptCall | None = None) -> AssembledPrompt:
        """Assemble it; raises `Refused` when it cannot fit."""
        session, call = self.session, call or self.call
        plan = plan_prompt(self.material, session.opened_state, call)
        return assemble(plan, fetch_prompt_texts(plan.needs, session.events, {}))


def replace_budget(**budget: JsonValue) -> Blueprint:
    """Return the game master with another budget."""
    written = GAME_MASTER.model_dump(mode="json", by_alias=True, exclude_unset=True)
    written["budget"] = {"prompt": budget}
    return Blueprint.model_validate_json(json.dumps(written))


def replace_ladder(steps: Iterable[JsonValue], tokens: int) -> Blueprint:
    """Return the game master with these steps for the whole prompt, and no sections."""
    return replace_budget(tokens=tokens, ladder=list(steps))
