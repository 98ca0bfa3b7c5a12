"""Routes for the audit: verify a session or the whole log, explain a call, and compare two."""

from __future__ import annotations

from typing import Annotated, Final, get_args

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from starlette.responses import StreamingResponse

from turnlog.contract import api_paths
from turnlog.contract.call_payloads import CallProofView
from turnlog.events.content import SHA256_PATTERN
from turnlog.events.errors import Refused
from turnlog.events.ids import ID_PATTERN
from turnlog.projections.audit.diff.call_diff import CallDiff
from turnlog.projections.audit.explain.turn_explanation import TurnExplanation
from turnlog.projections.audit.verify.checkpoint_consistency import ContinuedCheckpoint
from turnlog.projections.audit.verify.hash_chain import WitnessedHead
from turnlog.projections.audit.verify.signed_checkpoints import AuditCheckpoint
from turnlog.projections.blueprint.storable_json import MAX_INT
from turnlog.services.api.verify_payloads import VerificationView
from turnlog.services.http.component_schemas import describe_lines
from turnlog.services.http.headers import (
    NDJSON_MEDIA_TYPE,
    encode_lines,
    set_etag,
    tag_body,
)
from turnlog.services.http.request_tenant import RequestPrincipal, RequestTenant
from turnlog.services.reads.recorded_looks import record_look
from turnlog.services.use_cases.record.call_explanations import CallExplanations
from turnlog.services.use_cases.record.call_proofs import CallProofs
from turnlog.services.use_cases.record.record_verification import RecordVerification, VerifyLine

router = APIRouter()

_VERIFY_RESPONSES: Final[dict[int | str, dict[str, object]]] = {
    200: {"content": {NDJSON_MEDIA_TYPE: describe_lines("kind", *get_args(VerifyLine))}}
}


async def get_verification(request: Request) -> RecordVerification:
    """Return the use cases of verification."""
    verification: RecordVerification = request.app.state.use_cases.verification
    return verification


async def get_explanations(request: Request) -> CallExplanations:
    """Return the use cases of explanations."""
    explanations: CallExplanations = request.app.state.use_cases.explanations
    return explanations


async def get_proofs(request: Request) -> CallProofs:
    """Return the use cases of proofs."""
    proofs: CallProofs = request.app.state.use_cases.proofs
    return proofs


Verification = Annotated[RecordVerification, Depends(get_verification)]

Explanations = Annotated[CallExplanations, Depends(get_explanations)]


@router.get(api_paths.VERIFY_SESSION, summary="Verify a session")
async def verify_session(
    session: str,
    tenant: RequestTenant,
    verification: Verification,
    response: Response,
    noted: Annotated[
        int | None,
        Query(ge=1, le=MAX_INT, description="A sequence of the session whose head was noted"),
    ] = None,
    head: Annotated[
        str | None,
        Query(pattern=SHA256_PATTERN, description="The `head` that was noted at that sequence"),
    ] = None,
) -> VerificationView:
    """Verify the hash chain, sequences, answers, blobs and totals of a session.

    Every prompt is also reproduced in two ways, and so are those of its child sessions. With a
    noted head, it is also verified that no event was removed or rewritten.
    """
    if (noted is None) != (head is None):
        detail, missing = "`noted` and `head` go together", "noted" if noted is None else "head"
        raise Refused("invalid", detail, field=missing, fix="send both")
    witness = WitnessedHead(noted, head) if noted is not None and head is not None else None
    return tag_body(response, await verification.verify_session(tenant, session, witness))


@router.get(
    api_paths.VERIFY_LOG,
    response_model=VerifyLine,
    response_class=StreamingResponse,
    responses=_VERIFY_RESPONSES,
    summary="Verify the log",
)
async def verify_log(
    tenant: RequestTenant, principal: RequestPrincipal, verification: Verification
) -> StreamingResponse:
    """Verify all sessions and the segment library; stream progress and findings, then a summary.

    With the root key, and where no keys are asked for, the history of the keys is verified too.
    """
    with_installation = principal.is_root
    lines = encode_lines(verification.verify_log(tenant, with_installation=with_installation))
    return StreamingResponse(lines, media_type=NDJSON_MEDIA_TYPE)


@router.post(
    api_paths.VERIFY_LOG,
    response_model=VerifyLine,
    response_class=StreamingResponse,
    responses=_VERIFY_RESPONSES,
    summary="Verify the log against a checkpoint",
)
async def verify_log_against_checkpoint(
    tenant: RequestTenant,
    principal: RequestPrincipal,
    verification: Verification,
    checkpoint: AuditCheckpoint,
) -> StreamingResponse:
    """Verify the log, and that it still contains every head of a checkpoint.

    The client checks the signature of the checkpoint itself.
    """
    with_installation = principal.is_root
    lines = encode_lines(
        verification.verify_log(tenant, checkpoint, with_installation=with_installation)
    )
    return StreamingResponse(lines, media_type=NDJSON_MEDIA_TYPE)


@router.get(api_paths.CHECKPOINT, summary="Create a checkpoint of all sessions")
async def show_checkpoint(
    tenant: RequestTenant, principal: RequestPrincipal, verification: Verification
) -> AuditCheckpoint:
    """Return a checkpoint of all sessions' heads, to be signed and stored.

    It is refused when a hash chain is broken.
    """
    return await verification.create_checkpoint(tenant, with_installation=principal.is_root)


@router.post(api_paths.CHECKPOINT, summary="Continue a checkpoint")
async def continue_checkpoint(
    tenant: RequestTenant,
    principal: RequestPrincipal,
    verification: Verification,
    checkpoint: AuditCheckpoint,
) -> ContinuedCheckpoint:
    """Return a new checkpoint, and what shows that its log continues that of an older checkpoint.

    It is refused when the log does not. The client checks the signature of the older one itself.
    """
    return await verification.continue_checkpoint(
        tenant, checkpoint, with_installation=principal.is_root
    )


@router.get(api_paths.CALL_PROOF, summary="Prove a call", dependencies=[record_look("proof")])
async def show_proof(
    session: str,
    call: str,
    tenant: RequestTenant,
    proofs: Annotated[CallProofs, Depends(get_proofs)],
    response: Response,
    sequence: Annotated[
        int | None,
        Query(
            ge=1, le=MAX_INT, description="The last event that the root covers; by default the last"
        ),
    ] = None,
) -> CallProofView:
    """Return a call's request and stored events, and the path to the root of the session's events.

    A signed checkpoint has that root; `turnlog prove` joins both into a file for a stranger.
    """
    return tag_body(response, await proofs.prove_call(tenant, session, call, sequence))


WhyTurnPath = Annotated[int, Path(ge=1, le=MAX_INT, description="The turn number")]


@router.get(api_paths.EXPLAINED_CALL, summary="Explain a call", dependencies=[record_look("why")])
async def show_why(
    session: str, call: str, tenant: RequestTenant, explanations: Explanations, response: Response
) -> TurnExplanation:
    """Return each part of a call's prompt with its causing events, and the call's effects."""
    found = await explanations.explain_call(tenant, session, call)
    set_etag(response, found.sequence)
    return found.answer


@router.get(api_paths.EXPLAINED_TURN, summary="Explain a turn", dependencies=[record_look("why")])
async def show_why_of_turn(
    session: str,
    turn: WhyTurnPath,
    tenant: RequestTenant,
    explanations: Explanations,
    response: Response,
) -> TurnExplanation:
    """Return the explanation of the call that answered a turn, or of its last call."""
    found = await explanations.explain_turn(tenant, session, turn)
    set_etag(response, found.sequence)
    return found.answer


OtherSessionQuery = Annotated[
    str | None,
    Query(
        pattern=f"^{ID_PATTERN}$", description="The session of the second call; by default the same"
    ),
]


@router.get(api_paths.CALL_DIFF, summary="Compare two calls", dependencies=[record_look("diff")])
async def show_diff(
    session: str,
    call: str,
    second: str,
    tenant: RequestTenant,
    explanations: Explanations,
    response: Response,
    other: OtherSessionQuery = None,
) -> CallDiff:
    """Return what was added, removed, changed, cut or moved, with the rule and causes of each.

    The calls are of one session or of two sessions of the tenant.
    """
    pair = (session, call), (other or session, second)
    found = await explanations.compare_calls(tenant, *pair)
    set_etag(response, found.sequence)
    return found.answer
