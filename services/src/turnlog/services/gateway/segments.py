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
from turnlog.projections.blueprint.storable import MAX_INT, checked_text
from turnlog.projections.library.commands import AddSegment, EditSegment
from turnlog.projections.library.shelf import Version
from turnlog.projections.store.library import folded
from turnlog.projections.store.reach import come_to
from turnlog.projections.store.segments import PAGE, Sought
from turnlog.projections.store.segments import segments as listed
from turnlog.services.gateway.caller import AskedBy
from turnlog.services.gateway.desk import AtDesk, Desk, Tenant
from turnlog.services.gateway.freshness import FIELD
from turnlog.services.gateway.headers import stamp
from turnlog.services.gateway.payloads.segments import (
    EditForm,
    ImportForm,
    ListedSegment,
    SegmentChanged,
    SegmentForm,
    SegmentPage,
    SegmentsImported,
    SegmentView,
    VersionView,
)
from turnlog.services.runtime.shelves import Shelved

router = APIRouter()

IMPORT: Final = "/v1/segments/import"
"""The path whose body limit is larger."""

NumberInPath = Annotated[int, Path(ge=1, le=MAX_INT)]


class Filter(BaseModel):
    """The query parameters of the segment list."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

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
    limit: Annotated[int, Field(ge=1, le=500)] = PAGE
    """The maximum number of segments in a page."""
    after: Annotated[int, Field(ge=0, le=MAX_INT)] = 0
    """The `next` of the previous page."""
    min_sequence: Annotated[int, Field(ge=1, le=MAX_INT)] | None = None
    """Wait until the read models contain this sequence of the library."""

    def sought(self) -> Sought:
        """Return the query for the read models; raises `Refused` for invalid text."""
        for name in ("scope", "ref", "locale", "type", "q"):
            checked_text(getattr(self, name) or "", name)
        return Sought(self.scope, self.ref, self.locale, self.type, self.active, self.q)


@router.get("/v1/segments", summary="List segments")
async def list_segments(
    tenant: Tenant, desk: AtDesk, asked: Annotated[Filter, Query()]
) -> SegmentPage:
    """List segments by number, with one row for each variant."""
    sought = asked.sought()
    if asked.min_sequence is not None:
        await _read_up_to(desk, tenant, asked.min_sequence)
    async with desk.store.reading() as connection:
        rows, more = await listed(connection, tenant, sought, after=asked.after, limit=asked.limit)
    segments = tuple(ListedSegment.model_validate(row) for row in rows)
    return SegmentPage(segments=segments, next=segments[-1].id if more else None)


async def _read_up_to(desk: Desk, tenant: str, sequence: int) -> None:
    head = (await desk.shelves.load(tenant)).sequence
    if sequence > head:
        detail, fix = f"the library has come to sequence {head}", f"ask for at most {head}"
        raise Refused("not-there-yet", detail, field=FIELD, fix=fix)
    look = partial(folded, desk.store, tenant)
    if not await come_to(desk.bell, look, sequence, within=desk.patience):
        detail = f"the read models have not come to sequence {sequence} yet"
        raise Refused("behind", detail, field=FIELD, fix="ask again")


@router.post("/v1/segments", status_code=201, summary="Add a segment")
async def add_segment(
    asked: AskedBy, desk: AtDesk, form: SegmentForm, response: Response
) -> SegmentChanged:
    """Add a segment and assign its number."""
    command = AddSegment(form.authored())
    done = await desk.shelves.act(asked.tenant, command, asked.by, asked.command(form))
    (number,) = done.carried.added
    response.headers["Location"] = f"/v1/segments/{number}"
    return _changed(done, number, response)


@router.get("/v1/segments/{segment}", summary="Show a segment")
async def show_segment(
    segment: NumberInPath, tenant: Tenant, desk: AtDesk, response: Response
) -> SegmentView:
    """Return a segment with all its versions."""
    shelf = await desk.shelves.load(tenant)
    found = shelf.segments.get(segment)
    if found is None:
        raise Refused("unknown-segment", f"there is no segment {segment}", field="segment")
    stamp(response, shelf.sequence)
    return SegmentView(
        id=found.id,
        sequence=shelf.sequence,
        scope=found.scope,
        ref=found.ref,
        locale=found.locale,
        active=found.active,
        variants={name: version.version for name, version in found.on.items()},
        versions=tuple([await _version(desk, tenant, each) for each in found.versions]),
    )


@router.patch("/v1/segments/{segment}", summary="Edit a segment")
async def edit_segment(
    segment: NumberInPath, asked: AskedBy, desk: AtDesk, form: EditForm, response: Response
) -> SegmentChanged:
    """Change a segment's text or properties, or activate or deactivate it."""
    command: EditSegment = form.command(segment)
    done = await desk.shelves.act(asked.tenant, command, asked.by, asked.command(form))
    return _changed(done, segment, response)


@router.post(IMPORT, summary="Import segments")
async def import_segments(
    asked: AskedBy, desk: AtDesk, form: ImportForm, response: Response
) -> SegmentsImported:
    """Import all these segments or none of them; a repeated import changes nothing."""
    done = await desk.shelves.act(asked.tenant, form.command(), asked.by, asked.command(form))
    carried = done.carried
    stamp(response, carried.sequence)
    return SegmentsImported(
        added=carried.added,
        edited=carried.edited,
        rows=len(form.segments),
        sequence=carried.sequence,
    )


def _changed(done: Shelved, number: int, response: Response) -> SegmentChanged:
    stamp(response, done.carried.sequence)
    sequence = done.carried.sequence
    version = done.shelf.segments[number].version_at(sequence)
    return SegmentChanged(segment=number, version=version, sequence=sequence)


async def _version(desk: Desk, tenant: str, version: Version) -> VersionView:
    text = version.text
    return VersionView(
        version=version.version,
        variant=version.variant,
        content=await _text(desk, tenant, text.digest),
        digest=text.digest,
        characters=text.characters,
        tier=text.tier,
        type=text.type,
        priority=text.priority,
        edited_at=version.stamp.at,
        edited_by=version.stamp.actor,
    )


async def _text(desk: Desk, tenant: str, digest: Digest) -> str | None:
    try:
        return (await desk.sessions.texts.read_blobs(tenant, (digest,)))[digest]
    except Corrupt:
        return None  # The text was erased; the other fields remain available.
