"""Routes for memory: what a turn would remember, reference resolution, summaries and purge.

Reading resolves nothing, and resolving records nothing: both report what the policies pinned by the
session would do. Undoing a summary and purging change later windows only; the log keeps all turns,
summaries and prompts.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import JsonValue

from turnlog.events.codec import format_rfc3339
from turnlog.projections.blueprint.memory import MemoryPolicy, MemoryReaderName
from turnlog.projections.blueprint.storable import check_json
from turnlog.projections.session.references import StatedReferences, resolve_references
from turnlog.projections.session.state import LastReference
from turnlog.projections.window.memory import MemoryAccess
from turnlog.projections.window.visibility import find_phase_visibility
from turnlog.services.gateway.desk import Dependencies, RequestTenant
from turnlog.services.gateway.headers import set_etag
from turnlog.services.gateway.payloads.asked import ResolveReferencesRequest
from turnlog.services.gateway.payloads.asking import ResolvedReferencesView, MemoryView, ReferencesView
from turnlog.services.runtime.recollecting import load_memory_messages

memory_router = APIRouter()

DEFAULT_MEMORY_POLICY = MemoryPolicy(enabled=True, max_turns=0, ttl_seconds=0, max_chars=0)
"""The policy of sessions whose blueprint has no memory policy: everything is remembered."""
ReaderQuery = Annotated[MemoryReaderName | None, Query(description="Who would be told; anybody without one")]
EntityQuery = Annotated[str | None, Query(max_length=128, description="Of what the turn would be")]


@memory_router.get("/v1/sessions/{session}/memory", summary="What a turn would be told of earlier ones")
async def show_memory(
    session: str,
    tenant: RequestTenant,
    deps: Dependencies,
    response: Response,
    reader: ReaderQuery = None,
    entity: EntityQuery = None,
) -> MemoryView:
    """Return the recent messages that the session's memory policy lets prompts include now."""
    state = await deps.sessions.require_state(tenant, session)
    material = await deps.blueprints.load_material(state)
    policy = material.memory or DEFAULT_MEMORY_POLICY
    at = format_rfc3339(deps.sessions.clock())
    recall = MemoryAccess(policy, reader, at, entity)
    messages = await load_memory_messages(deps.sessions, state, recall, find_phase_visibility(material, state))
    set_etag(response, state.head.sequence)
    return MemoryView(
        session=session,
        sequence=state.head.sequence,
        enabled=policy.enabled,
        at=at,
        policy=policy.model_dump(mode="json"),
        warnings=state.warnings,
        messages=messages,
    )


@memory_router.get("/v1/sessions/{session}/references", summary="What was spoken of last")
async def show_references(
    session: str, tenant: RequestTenant, deps: Dependencies, response: Response
) -> ReferencesView:
    """Return what the latest answered turn was about, without resolving anything."""
    state = await deps.sessions.require_state(tenant, session)
    set_etag(response, state.head.sequence)
    last = _format_reference(state.reference) if state.reference else None
    return ReferencesView(session=session, sequence=state.head.sequence, last_reference=last)


def _format_reference(reference: LastReference) -> dict[str, JsonValue]:
    return {
        **reference.identifiers,
        "intent": reference.intent,
        "entity": reference.entity,
        "updated_at": reference.at,
        "turn_index": reference.turn,
    }


@memory_router.post("/v1/sessions/{session}/references/resolve", summary="What a turn would mean")
async def resolve_references(
    session: str, tenant: RequestTenant, deps: Dependencies, form: ResolveReferencesRequest, response: Response
) -> ResolvedReferencesView:
    """Return what the next turn would inherit, and why; nothing is recorded."""
    check_json(form.identifiers, "identifiers")
    state = await deps.sessions.require_state(tenant, session)
    policy = (await deps.blueprints.load_material(state)).references
    asked = StatedReferences(state.submitted + 1, form.intent, form.entity, form.identifiers)
    means = resolve_references(policy, state.reference, asked)
    set_etag(response, state.head.sequence)
    return ResolvedReferencesView(
        session=session,
        sequence=state.head.sequence,
        identifiers=means.identifiers,
        used=means.is_inherited,
        reason=means.reason,
    )
