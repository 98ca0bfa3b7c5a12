"""The what-if route: recorded calls are assembled again under a hypothetical change.

The response is NDJSON with one line per session, sent when the session is done, so the lines also
show progress.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response, StreamingResponse

from turnlog.contract import api_paths
from turnlog.contract.prompt_requests import WhatIfRequest
from turnlog.services.api.what_if_payloads import WHAT_IF_LINES, WhatIfLine
from turnlog.services.http.component_schemas import describe_lines
from turnlog.services.http.headers import NDJSON_MEDIA_TYPE, encode_lines
from turnlog.services.http.request_tenant import RequestTenant
from turnlog.services.http.session_filter import ATTRIBUTE_FILTER, SessionFilter
from turnlog.services.reads.recorded_looks import RequestLook
from turnlog.services.use_cases.prompts.what_if_evaluation import WhatIfEvaluation

router = APIRouter()


async def get_what_if(request: Request) -> WhatIfEvaluation:
    """Return the use case of this application."""
    what_if: WhatIfEvaluation = request.app.state.use_cases.what_if
    return what_if


@router.post(
    api_paths.WHAT_IF,
    response_model=WhatIfLine,
    response_class=Response,
    responses={200: {"content": {NDJSON_MEDIA_TYPE: describe_lines("line", *WHAT_IF_LINES)}}},
    summary="Evaluate another blueprint, budget or model",
    openapi_extra={"parameters": [ATTRIBUTE_FILTER]},
)
async def run_what_if(
    tenant: RequestTenant,
    what_if: Annotated[WhatIfEvaluation, Depends(get_what_if)],
    form: WhatIfRequest,
    query: Annotated[SessionFilter, Query()],
    look: RequestLook,
) -> StreamingResponse:
    """Assemble recorded calls again under a change.

    Stream one line per session, then the totals. The sessions are those that the request names, or
    all that the query parameters select.
    """
    look.begin("what-if")
    if form.sessions and len(form.sessions) == 1:
        (look.session,) = form.sessions
    lines = await what_if.evaluate_change(tenant, form, query.create_query())
    return StreamingResponse(encode_lines(lines), media_type=NDJSON_MEDIA_TYPE)
