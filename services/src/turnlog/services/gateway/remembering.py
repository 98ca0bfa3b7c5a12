"""Routes for memory: what a turn would remember, reference resolution, summaries and purge.

Reading resolves nothing, and resolving records nothing: both report what the policies pinned by the
session would do. Undoing a summary and purging change later windows only; the log keeps all turns,
summaries and prompts.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import JsonValue

from turnlog.events.codec import rfc3339
from turnlog.projections.blueprint.memory import MemoryPolicy, ReaderName
from turnlog.projections.blueprint.storable import checked_json
from turnlog.projections.session.references import Asked, meant
from turnlog.projections.session.state import Reference
from turnlog.projections.window.memory import Recall
from turnlog.projections.window.visibility import sight
from turnlog.services.gateway.desk import AtDesk, Tenant
from turnlog.services.gateway.headers import stamp
from turnlog.services.gateway.payloads.asked import ReferenceForm
from turnlog.services.gateway.payloads.asking import MeantView, MemoryView, ReferencesView
from turnlog.services.runtime.recollecting import recollected

router = APIRouter()

REMEMBERS_ALL = MemoryPolicy(enabled=True, max_turns=0, ttl_seconds=0, max_chars=0)
"""The policy of sessions whose blueprint has no memory policy: everything is remembered."""
As = Annotated[ReaderName | None, Query(description="Who would be told; anybody without one")]
Of = Annotated[str | None, Query(max_length=128, description="Of what the turn would be")]


@router.get("/v1/sessions/{session}/memory", summary="What a turn would be told of earlier ones")
async def show_memory(
    session: str,
    tenant: Tenant,
    desk: AtDesk,
    response: Response,
    reader: As = None,
    entity: Of = None,
) -> MemoryView:
    """Return the recent messages that the session's memory policy lets prompts include now."""
    state = await desk.sessions.load_open(tenant, session)
    material = await desk.blueprints.load(state)
    policy = material.memory or REMEMBERS_ALL
    at = rfc3339(desk.sessions.clock())
    recall = Recall(policy, reader, at, entity)
    messages = await recollected(desk.sessions, state, recall, sight(material, state))
    stamp(response, state.head.sequence)
    return MemoryView(
        session=session,
        sequence=state.head.sequence,
        enabled=policy.enabled,
        at=at,
        policy=policy.model_dump(mode="json"),
        warnings=state.warnings,
        messages=messages,
    )


@router.get("/v1/sessions/{session}/references", summary="What was spoken of last")
async def show_references(
    session: str, tenant: Tenant, desk: AtDesk, response: Response
) -> ReferencesView:
    """Return what the latest answered turn was about, without resolving anything."""
    state = await desk.sessions.load_open(tenant, session)
    stamp(response, state.head.sequence)
    last = _spelt(state.reference) if state.reference else None
    return ReferencesView(session=session, sequence=state.head.sequence, last_reference=last)


def _spelt(last: Reference) -> dict[str, JsonValue]:
    return {
        **last.identifiers,
        "intent": last.intent,
        "entity": last.entity,
        "updated_at": last.at,
        "turn_index": last.turn,
    }


@router.post("/v1/sessions/{session}/references/resolve", summary="What a turn would mean")
async def resolve_references(
    session: str, tenant: Tenant, desk: AtDesk, form: ReferenceForm, response: Response
) -> MeantView:
    """Return what the next turn would inherit, and why; nothing is recorded."""
    checked_json(form.identifiers, "identifiers")
    state = await desk.sessions.load_open(tenant, session)
    policy = (await desk.blueprints.load(state)).references
    asked = Asked(state.submitted + 1, form.intent, form.entity, form.identifiers)
    means = meant(policy, state.reference, asked)
    stamp(response, state.head.sequence)
    return MeantView(
        session=session,
        sequence=state.head.sequence,
        identifiers=means.identifiers,
        used=means.used,
        reason=means.reason,
    )
