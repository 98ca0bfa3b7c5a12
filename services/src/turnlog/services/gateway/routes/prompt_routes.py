"""Routes for prompts: previews of a call's window, and the recorded prompts of calls."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from turnlog.contract import api_paths
from turnlog.contract.prompt_requests import AssembleRequest, WindowPreviewRequest
from turnlog.services.api.prompt_payloads import (
    AssembledPromptView,
    PromptAssembly,
    RecordedPromptView,
    WindowView,
)
from turnlog.services.http.headers import set_etag, tag_body
from turnlog.services.http.request_checks import AtSequence, QueryTime, convert_to_utc
from turnlog.services.http.request_identity import ReaderIdentity
from turnlog.services.http.request_tenant import RequestTenant
from turnlog.services.reads.recorded_looks import record_look
from turnlog.services.use_cases.prompts.prompt_reading import PromptReading
from turnlog.services.use_cases.prompts.window_previews import WindowPreviews

router = APIRouter()


async def get_previews(request: Request) -> WindowPreviews:
    """Return the use cases of previews."""
    previews: WindowPreviews = request.app.state.use_cases.previews
    return previews


async def get_prompts(request: Request) -> PromptReading:
    """Return the use cases of recorded prompts."""
    prompts: PromptReading = request.app.state.use_cases.prompts
    return prompts


Previews = Annotated[WindowPreviews, Depends(get_previews)]

Prompts = Annotated[PromptReading, Depends(get_prompts)]

ClockQuery = Annotated[
    QueryTime | None,
    Query(description="The clock reading; by default that of the sequence, or the present"),
]


@router.get(
    api_paths.WINDOW, summary="Preview the window of a call", dependencies=[record_look("window")]
)
async def show_window(
    session: str,
    tenant: RequestTenant,
    previews: Previews,
    response: Response,
    call: Annotated[
        str | None, Query(description="The kind of call; by default that of the profile")
    ] = None,
    at: AtSequence = None,
    clock: ClockQuery = None,
) -> WindowView:
    """Assemble a call without making it, and return its prompt and manifest.

    With `at`, it is the call that would have been made at that sequence: with the clock, the
    segment library and the prompt files of that time, as far as the session has pinned them since.
    """
    reading = convert_to_utc(clock, "clock") if clock else None
    window = await previews.show_window(tenant, session, call=call, at=at, clock=reading)
    return tag_body(response, window)


@router.post(
    api_paths.WINDOW,
    summary="Preview the window of a hypothetical turn",
    dependencies=[record_look("window")],
)
async def preview_window(
    session: str,
    caller: ReaderIdentity,
    previews: Previews,
    response: Response,
    form: WindowPreviewRequest,
) -> WindowView:
    """Assemble a call for a hypothetical turn; nothing is written and no model is called."""
    return tag_body(response, await previews.preview_turn(caller.create_caller(), session, form))


@router.post(
    api_paths.ASSEMBLE,
    summary="Assemble a prompt without a session",
    dependencies=[record_look("assembly")],
    response_model_exclude_none=True,
)
async def assemble_prompt(
    caller: ReaderIdentity, previews: Previews, form: AssembleRequest
) -> AssembledPromptView:
    """Assemble the first call of a session that has one turn; no model is called.

    Nothing is written. The segments are those of the library now, the prompt files as they are now.
    """
    return await previews.assemble_prompt(caller.create_caller(), form)


@router.get(
    api_paths.PROMPT, summary="Show the prompt of a call", dependencies=[record_look("prompt")]
)
async def show_prompt(
    session: str, call: str, tenant: RequestTenant, prompts: Prompts, response: Response
) -> RecordedPromptView:
    """Reproduce the exact prompt of a call in both ways, and compare them with the record."""
    return tag_body(response, await prompts.load_prompt(tenant, session, call))


@router.get(
    api_paths.ASSEMBLY,
    summary="Show how the prompt of a call was assembled",
    dependencies=[record_look("assembly")],
    response_model_exclude_none=True,
)
async def show_assembly(
    session: str, call: str, tenant: RequestTenant, prompts: Prompts, response: Response
) -> PromptAssembly:
    """Return the prompt of a call, its layers and segments, and what was cut to fit.

    The text comes from the manifest's references and the rest from the manifest; nothing is
    assembled again.
    """
    found = await prompts.load_assembly(tenant, session, call)
    set_etag(response, found.sequence)
    return found.answer
