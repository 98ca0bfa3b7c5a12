"""Prompts over HTTP: the exact prompt of any call ever made, and whether the record holds.

A prompt is read back by the references of its manifest, never assembled again, and compared
with the digest that was recorded. What cannot be read back is said with the part at fault: the
manifest is worth seeing most of all when a text of it is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Response

from turnlog.events.call import ContextAssembled
from turnlog.events.content import Digest
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt, Refused
from turnlog.projections import verify
from turnlog.projections.blueprint.storable import MAX_INT
from turnlog.projections.window.readback import blobs_of
from turnlog.projections.window.request import Request
from turnlog.services.gateway.desk import AtDesk, Desk, Tenant
from turnlog.services.gateway.headers import stamp
from turnlog.services.gateway.payloads.prompts import MessageView, PromptView, Unproven
from turnlog.services.gateway.payloads.verify import FindingView, VerifyView

router = APIRouter()

DIGEST = r"^sha256:[0-9a-f]{64}$"


@router.get("/v1/sessions/{session}/calls/{call}/prompt", summary="The prompt of a call")
async def show_prompt(
    session: str, call: str, tenant: Tenant, desk: AtDesk, response: Response
) -> PromptView:
    """Read the exact prompt of a call back from the log."""
    events = await desk.sessions.events(tenant, session)
    recorded, fixed = verify.call_in(events, call)
    blobs = await _blobs(desk, tenant, blobs_of(fixed.manifest))
    stamp(response, recorded.sequence)
    try:
        return _view(recorded, fixed, verify.proven(fixed, events, blobs), None)
    except Corrupt as error:
        return _view(recorded, fixed, None, Unproven(where=error.where, detail=error.detail))


def _view(
    recorded: Recorded, call: ContextAssembled, request: Request | None, fault: Unproven | None
) -> PromptView:
    said = request.messages if request else ()
    return PromptView(
        session=recorded.session,
        sequence=recorded.sequence,
        call=call.call,
        turn=call.turn,
        model=call.model,
        parameters=call.parameters,
        messages=tuple(MessageView.model_validate(message) for message in said),
        tools=request.tools if request else (),
        manifest=call.manifest,
        digest=call.manifest.digest,
        verified=fault is None,
        fault=fault,
    )


async def _blobs(desk: Desk, tenant: str, digests: Sequence[Digest]) -> Mapping[Digest, str]:
    """Fetch blobs; one that is gone or altered is left out, for whoever misses it to say so."""
    found = await asyncio.gather(*(_blob(desk, tenant, digest) for digest in digests))
    return {digest: text for digest, text in zip(digests, found, strict=True) if text is not None}


async def _blob(desk: Desk, tenant: str, digest: Digest) -> str | None:
    try:
        return (await desk.sessions.texts.read_blobs(tenant, (digest,)))[digest]
    except Corrupt:
        return None


@router.get("/v1/sessions/{session}/verify", summary="Check the record of a session")
async def verify_session(
    session: str,
    tenant: Tenant,
    desk: AtDesk,
    response: Response,
    noted: Annotated[int | None, Query(ge=1, le=MAX_INT, description="A sequence")] = None,
    head: Annotated[
        str | None, Query(pattern=DIGEST, description="The `head` that was noted with it")
    ] = None,
) -> VerifyView:
    """Check chain, gaps, answers and prompts; with a noted head, that nothing was cut or redone."""
    if (noted is None) != (head is None):
        detail = "`noted` and `head` go together"
        raise Refused(
            "invalid", detail, field="noted" if noted is None else "head", fix="send both"
        )
    witness = verify.Noted(noted, head) if noted is not None and head is not None else None
    report = await _report(desk, tenant, session, witness)
    sequence = report.head.sequence if report.head else 0
    stamp(response, sequence)
    return VerifyView(
        session=session,
        sequence=sequence,
        head=report.head.hash if report.head else None,
        verified=report.sound,
        events=report.events,
        prompts=report.prompts,
        findings=tuple(FindingView.model_validate(finding) for finding in report.findings),
    )


async def _report(
    desk: Desk, tenant: str, session: str, noted: verify.Noted | None
) -> verify.Report:
    try:
        events = await desk.sessions.events(tenant, session)
    except Corrupt as error:
        return verify.unreadable(error)
    blobs = await _blobs(desk, tenant, verify.blobs_needed(events))
    # A long session takes seconds, in which others are to be answered
    return await asyncio.to_thread(verify.verify, events, blobs, noted)
