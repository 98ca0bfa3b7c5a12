"""The memory of a session: what a turn would remember, references, summaries, and exclusions.

Reading resolves nothing, and resolving records nothing: both report what the policies pinned by the
session would do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import JsonValue

from turnlog.contract.memory_payloads import (
    ExclusionPreviewView,
    ReferencesView,
    ResolvedReferencesView,
    SummariesView,
    SummaryView,
    TurnRangeView,
    UncoveredTurns,
)
from turnlog.contract.session_requests import ResolveReferencesRequest
from turnlog.contract.usage_payloads import CostSum
from turnlog.events.codec import format_rfc3339
from turnlog.events.content import get_plain_text
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.events.model.memory_events import HistorySummarised, TurnRange
from turnlog.projections.blueprint.schema.history_specs import MemoryPolicy, MemoryReaderName
from turnlog.projections.blueprint.storable_json import check_json
from turnlog.projections.prompt.history.memory_access import MemoryAccess
from turnlog.projections.prompt.sources.session_material import find_phase_visibility
from turnlog.projections.session.reference_inheritance import (
    StatedReferences,
    find_last_reference,
    resolve_references,
)
from turnlog.projections.session.rules.exclusion_preview import preview_exclusion
from turnlog.projections.session.state import TurnReference
from turnlog.projections.session_views.cost_totals import (
    CostTotal,
    add_costs,
    is_guessed_price,
    sum_call_cost,
)
from turnlog.services.api.memory_view_payloads import MemoryMessageView, MemoryView
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.sessions.prompt_inputs import load_memory_messages

DEFAULT_MEMORY_POLICY = MemoryPolicy(enabled=True, max_turns=0, ttl_seconds=0, max_chars=0)
"""The policy of sessions whose blueprint has no memory policy: everything is remembered."""


@dataclass(frozen=True, slots=True)
class SessionMemory:
    """Reads what sessions remember."""

    command_handler: CommandHandler
    blueprints: BlueprintStore

    async def load_memory(
        self,
        tenant: str,
        session: str,
        *,
        reader: MemoryReaderName | None = None,
        entity: str | None = None,
    ) -> MemoryView:
        """Return the recent messages that the session's memory policy lets prompts include now."""
        state = await self.command_handler.require_state(tenant, session)
        material = await self.blueprints.load_material(state)
        policy = material.memory or DEFAULT_MEMORY_POLICY
        at = format_rfc3339(self.command_handler.clock())
        # The narrator reads a prompt, which has no empty messages
        recall = MemoryAccess(
            policy=policy,
            reader=reader,
            at=at,
            entity=entity,
            counts_empty_replies=reader != "narrator",
        )
        messages = await load_memory_messages(
            self.command_handler, state, recall, find_phase_visibility(material, state)
        )
        return MemoryView(
            session=session,
            sequence=state.head.sequence,
            enabled=policy.enabled,
            at=at,
            policy=policy,
            warnings=state.warnings,
            messages=tuple(MemoryMessageView.model_validate(each) for each in messages),
        )

    async def load_last_reference(self, tenant: str, session: str) -> ReferencesView:
        """Return what the last answered turn in windows was about, without resolving anything."""
        state = await self.command_handler.require_state(tenant, session)
        last = find_last_reference(state)
        return ReferencesView(
            session=session,
            sequence=state.head.sequence,
            last_reference=_format_reference(last) if last else None,
        )

    async def resolve_references(
        self, tenant: str, session: str, request: ResolveReferencesRequest
    ) -> ResolvedReferencesView:
        """Return what the next turn would inherit, and why; nothing is recorded."""
        check_json(request.identifiers, "identifiers")
        state = await self.command_handler.require_state(tenant, session)
        policy = (await self.blueprints.load_material(state)).references
        stated = StatedReferences(
            state.submitted + 1, request.intent, request.entity, request.identifiers
        )
        resolved = resolve_references(policy, find_last_reference(state), stated)
        return ResolvedReferencesView(
            session=session,
            sequence=state.head.sequence,
            identifiers=resolved.identifiers,
            used=resolved.is_inherited,
            reason=resolved.reason,
        )

    async def list_summaries(self, tenant: str, session: str) -> SummariesView:
        """Return the active summaries of older turns, and the last purged turn."""
        state = await self.command_handler.require_state(tenant, session)
        places = [each.said.place for each in state.summaries]
        events = await self.command_handler.log.read_events_at(tenant, places) if places else ()
        return SummariesView(
            session=session,
            sequence=state.head.sequence,
            summaries=tuple(map(_create_summary_view, events)),
            purged=state.purged,
        )

    async def preview_exclusion(self, tenant: str, session: str, turn: int) -> ExclusionPreviewView:
        """Return which summaries excluding a turn would undo, and what they cost."""
        state = await self.command_handler.require_state(tenant, session)
        preview = preview_exclusion(state, turn)
        places = [each.said.place for each in preview.undone]
        events = await self.command_handler.log.read_events_at(tenant, places) if places else ()
        return ExclusionPreviewView(
            session=session,
            turn=turn,
            sequence=state.head.sequence,
            undone=tuple(map(_create_summary_view, events)),
            uncovered=tuple(
                UncoveredTurns(view=view, turns=_create_range_views(turns))
                for view, turns in preview.uncovered.items()
            ),
            cost=CostSum.model_validate(_sum_summary_costs(events)),
        )


def _format_reference(reference: TurnReference) -> dict[str, JsonValue]:
    return {
        **reference.identifiers,
        "intent": reference.intent,
        "entity": reference.entity,
        "updated_at": reference.at,
        "turn_index": reference.turn,
    }


def _sum_summary_costs(recorded: Iterable[RecordedEvent]) -> CostTotal:
    events = (each.event for each in recorded)
    summaries = (event for event in events if isinstance(event, HistorySummarised))
    return add_costs(sum_call_cost([each.cost]) for each in summaries)


def _create_summary_view(recorded: RecordedEvent) -> SummaryView:
    summary = recorded.event
    if not isinstance(summary, HistorySummarised):
        raise Corrupt(f"event {recorded.sequence}", "it holds no summary")
    return SummaryView(
        sequence=recorded.sequence,
        view=summary.view,
        turns=_create_range_views(summary.turns),
        former=summary.former,
        phases=summary.phases,
        text=get_plain_text(summary.summary),
        call=summary.call,
        inputs=summary.inputs,
        model=summary.model,
        micro_dollars=summary.cost.micro_dollars,
        guessed=is_guessed_price(summary.cost.price),
        at=recorded.envelope.time,
    )


def _create_range_views(turns: Iterable[TurnRange]) -> tuple[TurnRangeView, ...]:
    return tuple(TurnRangeView(first=each.first, last=each.last) for each in turns)
