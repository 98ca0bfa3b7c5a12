"""The requests and responses of the segment library.

The library's own rules validate the values; these models check only the shape.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from turnlog.contract.payload_models import ADDED_FIELD, RequestModel, ResponseModel
from turnlog.events.content import Digest
from turnlog.projections.blueprint.storable_json import MAX_INT
from turnlog.projections.library.segment_inputs import (
    DEFAULT_VARIANT,
    EditSegment,
    ImportSegments,
    SegmentInput,
)

MAX_IMPORT_ROWS = 20_000
"""The maximum number of segments in one import."""

SegmentNumber = Annotated[int, Field(ge=1, le=MAX_INT)]


class SegmentMetadata(RequestModel):
    """Tier, type and priority in one object, as a row of a segment table has them."""

    tier: int | None = None
    """The same as `tier` beside it."""
    type: str | None = None
    """The same as `type` beside it."""
    priority: str | None = None
    """The same as `priority` beside it."""


class SegmentPropertiesRequest(RequestModel):
    """A request that may have the properties of a text in `metadata`."""

    metadata: Annotated[SegmentMetadata | None, ADDED_FIELD] = None
    """`tier`, `type` and `priority` in one object, instead of the fields of these names."""

    @model_validator(mode="after")
    def _check_given_once(self) -> Self:
        for name in self.metadata.model_fields_set if self.metadata else ():
            if name in self.model_fields_set:
                message = f"`{name}` is given twice, also in `metadata`"
                raise ValueError(message)
        return self

    def merge_metadata(self) -> dict[str, Any]:
        """Return all fields, with those in `metadata` under their own names."""
        inner = self.metadata.model_dump(exclude_none=True) if self.metadata else {}
        return self.model_dump(exclude={"metadata"}) | inner


class AddSegmentRequest(SegmentPropertiesRequest):
    """Adds a segment."""

    scope: str
    """The part of a prompt it is for, such as `npc`."""
    content: str
    """The text."""
    ref: str | None = None
    """The reference within the scope that it belongs to, such as `npc.innkeeper`."""
    ref_id: Annotated[str | None, ADDED_FIELD] = None
    """The same as `ref`, under the name of a segment table's column."""
    locale: str | None = None
    """The locale of the text; without one it is the fallback for all locales."""
    tier: int = 0
    """How much a reader must have discovered to see it; 0 is for everyone."""
    type: str = ""
    """The kind of text, such as `npc_cue`."""
    priority: str = "normal"
    """`low`, `normal` or `high`."""
    variant: str = DEFAULT_VARIANT
    """The variant that the text belongs to."""
    active: bool = True
    """Whether calls may use it."""

    @model_validator(mode="after")
    def _check_one_reference(self) -> Self:
        if self.ref is not None and self.ref_id is not None:
            message = "`ref` is given twice, also as `ref_id`"
            raise ValueError(message)
        return self

    def convert_to_input(self) -> SegmentInput:
        """Return the segment as the library's input type."""
        fields = self.merge_metadata()
        ref_id = fields.pop("ref_id", None)
        fields["ref"] = ref_id if self.ref is None else self.ref
        return SegmentInput(**fields)


class ImportRow(AddSegmentRequest):
    """One segment of an import."""

    id: SegmentNumber | None = None
    """Its present or future number; without one it is identified by its content."""
    version: Annotated[SegmentNumber | None, ADDED_FIELD] = None
    """Its version number elsewhere; kept if it is above every earlier one of the segment."""


class ImportSegmentsRequest(RequestModel):
    """Imports segments; those that already match are left unchanged."""

    segments: Annotated[list[ImportRow], Field(max_length=MAX_IMPORT_ROWS)]
    """The segments; all are imported or none."""

    def create_command(self) -> ImportSegments:
        """Return the command for the library."""
        return ImportSegments(tuple(row.convert_to_input() for row in self.segments))


class EditSegmentRequest(SegmentPropertiesRequest):
    """Edits a segment; omitted fields are unchanged."""

    content: str | None = None
    """The new text."""
    tier: int | None = None
    """The new tier."""
    type: str | None = None
    """The new kind of text."""
    priority: str | None = None
    """The new priority."""
    active: bool | None = None
    """Whether calls may use the variant, or all variants when none is named."""
    variant: str | None = None
    """The variant to edit; a new name adds a variant. By default the text is that of the first."""
    version: SegmentNumber | None = None
    """The latest version that the client has seen; a later one makes the edit fail with 409."""

    def create_command(self, segment: int) -> EditSegment:
        """Return the command for the library."""
        values = self.merge_metadata()
        return EditSegment(id=segment, seen=values.pop("version"), **values)


class SegmentChangeResult(ResponseModel):
    """The result of adding or editing a segment."""

    segment: int
    """The segment number."""
    version: int
    """The latest version of the segment."""
    sequence: int
    """The library's sequence that the response reflects."""


class SegmentImportResult(ResponseModel):
    """The result of an import."""

    added: tuple[int, ...]
    """The numbers of new segments."""
    edited: tuple[int, ...]
    """The numbers of changed segments."""
    rows: int
    """The number of rows in the request, including those that were unchanged."""
    sequence: int
    """The library's sequence that the response reflects."""


class SegmentRow(ResponseModel):
    """The current version of a variant of a segment."""

    id: int
    """The segment number."""
    variant: str
    """The variant."""
    scope: str
    """The part of a prompt it is for."""
    ref: str | None
    """The reference within the scope that it belongs to."""
    locale: str | None
    """The locale of the text."""
    content: str | None
    """The text; None when it was erased."""
    digest: Digest
    """The digest of the text."""
    characters: int
    """The length in code points."""
    tier: int
    """How much a reader must have discovered to see it."""
    type: str
    """The kind of text."""
    priority: str
    """`low`, `normal` or `high`."""
    active: bool
    """Whether calls may use it."""
    version: int
    """The version number within the segment."""
    edited_at: str
    """When it was last edited."""
    edited_by: str
    """The actor of the last edit."""


class SegmentPage(ResponseModel):
    """A page of segments, by number."""

    segments: tuple[SegmentRow, ...]
    """The variants; those of one segment are adjacent."""
    next: int | None
    """The `after` of the next page; null on the last page."""


class SegmentVersionView(ResponseModel):
    """One version of a segment."""

    version: int
    """The version number, counted over all variants of the segment."""
    variant: str
    """The variant."""
    content: str | None
    """The text; null when it was erased."""
    digest: Digest
    """The digest of the text."""
    characters: int
    """The length in code points."""
    tier: int
    """How much a reader must have discovered to see it."""
    type: str
    """The kind of text."""
    priority: str
    """`low`, `normal` or `high`."""
    edited_at: str
    """When it was recorded."""
    edited_by: str
    """The actor of the edit."""


class SegmentView(ResponseModel):
    """A segment with all its versions, from the library's log."""

    id: int
    """The segment number."""
    sequence: int
    """The library's last sequence."""
    scope: str
    """The part of a prompt it is for."""
    ref: str | None
    """The reference within the scope that it belongs to."""
    locale: str | None
    """The locale of the text."""
    active: bool
    """Whether calls may use it."""
    variants: dict[str, int]
    """The active variants, each with its version number."""
    versions: tuple[SegmentVersionView, ...]
    """The versions, oldest first."""
