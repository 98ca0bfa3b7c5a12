"""The route for uses: which calls had a source in their prompt."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from turnlog.contract import api_paths
from turnlog.contract.use_payloads import UsePage
from turnlog.projections.store.read.source_uses import USE_PAGE_SIZE
from turnlog.services.http.request_tenant import RequestTenant
from turnlog.services.use_cases.record.use_listing import UseListing

router = APIRouter()


async def get_uses(request: Request) -> UseListing:
    """Return the use cases of this application."""
    uses: UseListing = request.app.state.use_cases.uses
    return uses


class UseListQuery(BaseModel):
    """The query parameters of a list of uses."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # Optional here, so that an absent one is refused with all forms of a name too.
    source: Annotated[str, Field(max_length=1000)] = ""
    """The source: `document:COLLECTION/ENTRY`, `document:COLLECTION/ENTRY@REVISION`,
    `import:COLLECTION/FILE`, `segment:NUMBER`, `segment:NUMBER@VERSION`, `sha256:DIGEST`,
    `turn:SESSION/TURN`, `result:SESSION/CALL/ID`, `event:SESSION/SEQUENCE` or `label:LABEL`."""
    session: str | None = None
    """Only calls of this session."""
    replies: bool = False
    """Whether a reply is taken to repeat what its prompt had, so that it is followed too."""
    limit: Annotated[int, Field(ge=1, le=500)] = USE_PAGE_SIZE
    """The maximum number of calls in a page."""
    after: str | None = None
    """The `next` of the previous page."""


@router.get(api_paths.USES, summary="List the calls that had a source in their prompt")
async def list_source_uses(
    tenant: RequestTenant,
    uses: Annotated[UseListing, Depends(get_uses)],
    query: Annotated[UseListQuery, Query()],
) -> UsePage:
    """List the calls whose prompt had a source: itself, or through a text that stands for it.

    Such a text is a summary, a text carried into a phase, a step of a plan, the request of a parent
    or the reply of a child; each use says through which. The newest session is first.
    """
    return await uses.list_uses(
        tenant,
        query.source,
        session=query.session,
        replies=query.replies,
        limit=query.limit,
        after=query.after,
    )
