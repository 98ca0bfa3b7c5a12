"""Routes for the segment library: segments are listed from rows, shown and edited on its log."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.projections.blueprint.storable_json import MAX_INT, check_text
from turnlog.projections.store.read.segment_queries import SEGMENT_PAGE_SIZE, SegmentRowFilter
from turnlog.services.api.segment_payloads import (
    AddSegmentRequest,
    EditSegmentRequest,
    ImportSegmentsRequest,
    SegmentChangeResult,
    SegmentImportResult,
    SegmentPage,
    SegmentView,
)
from turnlog.services.http.headers import tag_body
from turnlog.services.http.request_identity import CallerIdentity
from turnlog.services.http.request_tenant import RequestTenant
from turnlog.services.segments.segment_use_cases import SegmentUseCases

router = APIRouter()


async def get_segments(request: Request) -> SegmentUseCases:
    """Return the use cases of this application."""
    segments: SegmentUseCases = request.app.state.use_cases.segments
    return segments


Segments = Annotated[SegmentUseCases, Depends(get_segments)]

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
        return SegmentRowFilter(
            scope=self.scope,
            ref=self.ref,
            locale=self.locale,
            type=self.type,
            active=self.active,
            q=self.q,
        )


@router.get(api_paths.SEGMENTS, summary="List segments")
async def list_segments(
    tenant: RequestTenant, segments: Segments, query: Annotated[SegmentFilter, Query()]
) -> SegmentPage:
    """List segments by number, with one row for each variant."""
    return await segments.list_segments(
        tenant,
        query.create_query(),
        limit=query.limit,
        after=query.after,
        min_sequence=query.min_sequence,
    )


@router.post(api_paths.SEGMENTS, status_code=201, summary="Add a segment")
async def add_segment(
    caller: CallerIdentity, segments: Segments, form: AddSegmentRequest, response: Response
) -> SegmentChangeResult:
    """Add a segment and assign its number."""
    done = await segments.add_segment(caller.create_caller(form), form)
    response.headers["Location"] = format_path(api_paths.SEGMENT, segment=done.segment)
    return tag_body(response, done)


@router.get(api_paths.SEGMENT, summary="Show a segment")
async def show_segment(
    segment: SegmentNumberPath, tenant: RequestTenant, segments: Segments, response: Response
) -> SegmentView:
    """Return a segment with all its versions."""
    return tag_body(response, await segments.load_segment(tenant, segment))


@router.patch(api_paths.SEGMENT, summary="Edit a segment")
async def edit_segment(
    segment: SegmentNumberPath,
    caller: CallerIdentity,
    segments: Segments,
    form: EditSegmentRequest,
    response: Response,
) -> SegmentChangeResult:
    """Change a segment's text or properties, or activate or deactivate it."""
    done = await segments.edit_segment(caller.create_caller(form), segment, form)
    return tag_body(response, done)


@router.post(api_paths.IMPORT_SEGMENTS, summary="Import segments")
async def import_segments(
    caller: CallerIdentity, segments: Segments, form: ImportSegmentsRequest, response: Response
) -> SegmentImportResult:
    """Import all these segments or none of them; a repeated import changes nothing."""
    return tag_body(response, await segments.import_segments(caller.create_caller(form), form))
