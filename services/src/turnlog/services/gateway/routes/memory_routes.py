"""Routes for memory: what a turn would remember, reference resolution, summaries and purge."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from turnlog.contract import api_paths
from turnlog.contract.memory_payloads import (
    ExclusionPreviewView,
    ReferencesView,
    ResolvedReferencesView,
    SummariesView,
)
from turnlog.contract.session_requests import ResolveReferencesRequest
from turnlog.contract.turn_payloads import CommandResult
from turnlog.projections.blueprint.schema.history_specs import MemoryReaderName
from turnlog.projections.blueprint.storable_json import MAX_INT
from turnlog.projections.session.commands import PurgeMemory, UndoSummary
from turnlog.services.api.memory_view_payloads import MemoryView
from turnlog.services.http.headers import tag_body
from turnlog.services.http.request_checks import TurnPath
from turnlog.services.http.request_identity import CallerIdentity
from turnlog.services.http.request_tenant import RequestTenant
from turnlog.services.use_cases.sessions.session_memory import SessionMemory
from turnlog.services.use_cases.sessions.session_steering import SessionSteering

router = APIRouter()


async def get_memory(request: Request) -> SessionMemory:
    """Return the use cases of memory."""
    memory: SessionMemory = request.app.state.use_cases.memory
    return memory


async def get_memory_steering(request: Request) -> SessionSteering:
    """Return the use cases of commands on a session."""
    steering: SessionSteering = request.app.state.use_cases.steering
    return steering


Memory = Annotated[SessionMemory, Depends(get_memory)]

MemorySteering = Annotated[SessionSteering, Depends(get_memory_steering)]

ReaderQuery = Annotated[
    MemoryReaderName | None, Query(description="The reader of the memory; by default any reader")
]

EntityQuery = Annotated[str | None, Query(max_length=128, description="The entity of the turn")]


@router.get(api_paths.MEMORY, summary="Show the memory of a session")
async def show_memory(
    session: str,
    tenant: RequestTenant,
    memory: Memory,
    response: Response,
    reader: ReaderQuery = None,
    entity: EntityQuery = None,
) -> MemoryView:
    """Return the recent messages that the session's memory policy lets prompts include now."""
    found = await memory.load_memory(tenant, session, reader=reader, entity=entity)
    return tag_body(response, found)


@router.get(api_paths.REFERENCES, summary="Show the last reference")
async def show_references(
    session: str, tenant: RequestTenant, memory: Memory, response: Response
) -> ReferencesView:
    """Return what the latest answered turn was about, without resolving anything."""
    return tag_body(response, await memory.load_last_reference(tenant, session))


@router.post(api_paths.RESOLVE_REFERENCES, summary="Resolve the references of a turn")
async def resolve_turn_references(
    session: str,
    tenant: RequestTenant,
    memory: Memory,
    form: ResolveReferencesRequest,
    response: Response,
) -> ResolvedReferencesView:
    """Return what the next turn would inherit, and why; nothing is recorded."""
    return tag_body(response, await memory.resolve_references(tenant, session, form))


SummarySequencePath = Annotated[int, Path(ge=1, le=MAX_INT)]


@router.get(api_paths.SUMMARIES, summary="List the active summaries")
async def show_summaries(
    session: str, tenant: RequestTenant, memory: Memory, response: Response
) -> SummariesView:
    """Return the active summaries of older turns, and the last purged turn."""
    return tag_body(response, await memory.list_summaries(tenant, session))


@router.get(api_paths.EXCLUSION, summary="Preview the exclusion of a turn")
async def show_exclusion_preview(
    session: str, turn: TurnPath, tenant: RequestTenant, memory: Memory, response: Response
) -> ExclusionPreviewView:
    """Return which summaries excluding a turn would undo, and what they cost; record nothing."""
    return tag_body(response, await memory.preview_exclusion(tenant, session, turn))


@router.post(api_paths.UNDO_SUMMARY, summary="Undo a summary")
async def undo_summary(
    session: str,
    sequence: SummarySequencePath,
    caller: CallerIdentity,
    steering: MemorySteering,
    response: Response,
) -> CommandResult:
    """Undo a summary: later windows show the turns it replaced; the log keeps the summary."""
    done = await steering.handle_command(caller.create_caller(), session, UndoSummary(sequence))
    return tag_body(response, done)


@router.post(api_paths.PURGE, summary="Purge the memory")
async def purge_memory(
    session: str, caller: CallerIdentity, steering: MemorySteering, response: Response
) -> CommandResult:
    """Exclude all turns so far from later windows; the log keeps them."""
    done = await steering.handle_command(caller.create_caller(), session, PurgeMemory())
    return tag_body(response, done)
