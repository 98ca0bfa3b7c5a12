"""Routes for the segment library: segments are listed from rows, shown and edited on its log.

An edit is an event: under its idempotency key it is applied once, and after a 2xx response the next
call of any session uses it.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from turnlog.events.content import Digest
from turnlog.events.errors import Corrupt, Refused
from turnlog.projections.blueprint.storable_json import MAX_INT, check_text
from turnlog.projections.library.segment_inputs import AddSegment, EditSegment
from turnlog.projections.library.segment_library import SegmentVersion
from turnlog.projections.store.read.segment_queries import SEGMENT_PAGE_SIZE, SegmentRowFilter
from turnlog.projections.store.read.segment_queries import list_segments as list_segment_rows
from turnlog.projections.store.write.segment_projection import read_segments_sequence
from turnlog.services.api.segment_payloads import (
    AddSegmentRequest,
    EditSegmentRequest,
    ImportSegmentsRequest,
    SegmentChangeResult,
    SegmentImportResult,
    SegmentPage,
    SegmentVersionView,
    SegmentView,
)
from turnlog.services.gateway.dependencies import Dependencies, GatewayDependencies, RequestTenant
from turnlog.services.gateway.http.headers import set_etag
from turnlog.services.gateway.http.request_checks import wait_for_rows
from turnlog.services.gateway.http.request_identity import CallerIdentity
from turnlog.services.segments.segment_service import LibraryCommandOutcome

router = APIRouter()

IMPORT_PATH: Final = "/v1/segments/import"
"""The path whose body limit is larger."""

SegmentNumberPath = Annotated[int, Path(ge=1, le=MAX_INT)]


class SegmentFilter(BaseModel):
    """The query parameters of the segment list."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    scope: str | None = None
    """The part of a prompt it is for."""
    ref: str | None = None
    """The reference it belongs to."""
    locale: str | None = None
    """The locale it is written in."""
    type: str | None = None
    """The kind of text."""
    active: bool | None = None
    """Whether calls may use it."""
    q: Annotated[str, Field(max_length=200)] | None = None
    """Text that it contains."""
    limit: Annotated[int, Field(ge=1, le=500)] = SEGMENT_PAGE_SIZE
    """The maximum number of segments in a page."""
    after: Annotated[int, Field(ge=0, le=MAX_INT)] = 0
    """The `next` of the previous page."""
    min_sequence: Annotated[int, Field(ge=1, le=MAX_INT)] | None = None
    """Wait until the read models contain this sequence of the library."""

    def create_query(self) -> SegmentRowFilter:
        """Return the query for the read models; raises `Refused` for invalid text."""
        for name in ("scope", "ref", "locale", "type", "q"):
            check_text(getattr(self, name) or "", name)
        return SegmentRowFilter(self.scope, self.ref, self.locale, self.type, self.active, self.q)


@router.get("/v1/segments", summary="List segments")
async def list_segments(
    tenant: RequestTenant, deps: Dependencies, query: Annotated[SegmentFilter, Query()]
) -> SegmentPage:
    """List segments by number, with one row for each variant."""
    sought = query.create_query()
    if query.min_sequence is not None:
        head = (await deps.segment_service.load_state(tenant)).sequence
        look = partial(read_segments_sequence, deps.store, tenant)
        await wait_for_rows(deps, look, query.min_sequence, head)
    async with deps.store.open_reader() as connection:
        rows, more = await list_segment_rows(
            connection, tenant, sought, after=query.after, limit=query.limit
        )
    return SegmentPage(segments=rows, next=rows[-1].id if more else None)


@router.post("/v1/segments", status_code=201, summary="Add a segment")
async def add_segment(
    caller: CallerIdentity, deps: Dependencies, form: AddSegmentRequest, response: Response
) -> SegmentChangeResult:
    """Add a segment and assign its number."""
    command = AddSegment(form.convert_to_input())
    done = await deps.segment_service.handle(
        caller.tenant, command, caller.author, caller.create_command_key(form)
    )
    (number,) = done.changes.added
    response.headers["Location"] = f"/v1/segments/{number}"
    return _create_change_result(done, number, response)


@router.get("/v1/segments/{segment}", summary="Show a segment")
async def show_segment(
    segment: SegmentNumberPath, tenant: RequestTenant, deps: Dependencies, response: Response
) -> SegmentView:
    """Return a segment with all its versions."""
    library = await deps.segment_service.load_state(tenant)
    found = library.segments.get(segment)
    if found is None:
        raise Refused("unknown-segment", f"there is no segment {segment}", field="segment")
    set_etag(response, library.sequence)
    return SegmentView(
        id=found.id,
        sequence=library.sequence,
        scope=found.scope,
        ref=found.ref,
        locale=found.locale,
        active=found.is_active,
        variants={name: version.version for name, version in found.active_versions.items()},
        versions=tuple([await _create_version_view(deps, tenant, each) for each in found.versions]),
    )


@router.patch("/v1/segments/{segment}", summary="Edit a segment")
async def edit_segment(
    segment: SegmentNumberPath,
    caller: CallerIdentity,
    deps: Dependencies,
    form: EditSegmentRequest,
    response: Response,
) -> SegmentChangeResult:
    """Change a segment's text or properties, or activate or deactivate it."""
    command: EditSegment = form.create_command(segment)
    done = await deps.segment_service.handle(
        caller.tenant, command, caller.author, caller.create_command_key(form)
    )
    return _create_change_result(done, segment, response)


@router.post(IMPORT_PATH, summary="Import segments")
async def import_segments(
    caller: CallerIdentity, deps: Dependencies, form: ImportSegmentsRequest, response: Response
) -> SegmentImportResult:
    """Import all these segments or none of them; a repeated import changes nothing."""
    outcome = await deps.segment_service.handle(
        caller.tenant, form.create_command(), caller.author, caller.create_command_key(form)
    )
    changes = outcome.changes
    set_etag(response, changes.sequence)
    return SegmentImportResult(
        added=changes.added,
        edited=changes.edited,
        rows=len(form.segments),
        sequence=changes.sequence,
    )


def _create_change_result(
    done: LibraryCommandOutcome, number: int, response: Response
) -> SegmentChangeResult:
    set_etag(response, done.changes.sequence)
    sequence = done.changes.sequence
    version = done.library_state.segments[number].get_version_at(sequence)
    return SegmentChangeResult(segment=number, version=version, sequence=sequence)


async def _create_version_view(
    deps: GatewayDependencies, tenant: str, version: SegmentVersion
) -> SegmentVersionView:
    text = version.text
    return SegmentVersionView(
        version=version.version,
        variant=version.variant,
        content=await _load_segment_text(deps, tenant, text.digest),
        digest=text.digest,
        characters=text.characters,
        tier=text.tier,
        type=text.type,
        priority=text.priority,
        edited_at=version.stamp.at,
        edited_by=version.stamp.actor,
    )


async def _load_segment_text(deps: GatewayDependencies, tenant: str, digest: Digest) -> str | None:
    try:
        return (await deps.command_handler.texts.read_blobs(tenant, (digest,)))[digest]
    except Corrupt:
        return None  # The text was erased; the other fields remain available.
