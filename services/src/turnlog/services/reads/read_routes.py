"""The route for the log of reads; looking at it is a look too."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from turnlog.contract import api_paths
from turnlog.contract.installation.read_payloads import ReadPage
from turnlog.events.ids import ID_PATTERN
from turnlog.projections.blueprint.storable_json import check_text
from turnlog.services.http.request_checks import QueryTime, convert_to_utc
from turnlog.services.http.request_tenant import RequestTenant
from turnlog.services.reads.read_use_cases import ReadSelection, ReadUseCases
from turnlog.services.reads.recorded_looks import LookKind, record_look

router = APIRouter()


async def get_reads(request: Request) -> ReadUseCases:
    """Return the use cases of this application."""
    reads: ReadUseCases = request.app.state.use_cases.reads
    return reads


class ReadQuery(BaseModel):
    """The query parameters that select looks, and a page of them."""

    model_config = ConfigDict(frozen=True)

    actor: Annotated[str, Field(max_length=200)] | None = None
    """Only looks of this actor: `user:` or `key:` and a name."""
    session: Annotated[str, Field(pattern=f"^{ID_PATTERN}$")] | None = None
    """Only looks at this session."""
    what: LookKind | None = None
    """Only looks of this kind."""
    since: QueryTime | None = None
    """Only looks at or after this time; by default those of 31 days."""
    until: QueryTime | None = None
    """Only looks before this time."""
    before: Annotated[str, Field(max_length=40)] | None = None
    """`next` of the page before this one."""
    limit: Annotated[int, Field(ge=1, le=1_000)] = 100
    """Most looks of a page."""

    def create_selection(self) -> ReadSelection:
        """Return which looks are listed."""
        return ReadSelection(
            actor=check_text(self.actor, "actor") if self.actor is not None else None,
            session=self.session,
            what=self.what,
            since=convert_to_utc(self.since, "since") if self.since else None,
            until=convert_to_utc(self.until, "until") if self.until else None,
        )


@router.get(api_paths.READS, summary="List who looked at what", dependencies=[record_look("reads")])
async def list_reads(
    tenant: RequestTenant,
    reads: Annotated[ReadUseCases, Depends(get_reads)],
    query: Annotated[ReadQuery, Query()],
) -> ReadPage:
    """Return looks at prompts, withheld texts, bundles and exports, the newest first."""
    return await reads.list_reads(
        tenant, query.create_selection(), limit=query.limit, before=query.before
    )
