"""The routes of erasures."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel, ConfigDict

from turnlog.contract import api_paths
from turnlog.contract.erasures.erasure_payloads import (
    ErasureList,
    ErasureProof,
    ErasureReceipt,
    UserErasure,
)
from turnlog.contract.erasures.erasure_requests import (
    EraseRequest,
    EraseSourceRequest,
    EraseUserRequest,
)
from turnlog.contract.erasures.source_erasure_payloads import SourceErasure, SourceErasureList
from turnlog.contract.request_values import CommandReason
from turnlog.contract.value_names import ErasedPart
from turnlog.projections.blueprint.storable_json import MAX_INT
from turnlog.services.erasures.erasure_use_cases import ErasureUseCases
from turnlog.services.erasures.source_erasure_use_cases import SourceErasureUseCases
from turnlog.services.http.request_checks import TurnPath
from turnlog.services.http.request_identity import CallerIdentity
from turnlog.services.http.request_tenant import RequestTenant
from turnlog.services.reads.recorded_looks import record_look

router = APIRouter()


class ErasureQuery(BaseModel):
    """How what is deleted is erased."""

    model_config = ConfigDict(frozen=True)

    reason: CommandReason
    """The reason, recorded for good and never sealed: name no person."""
    with_replies: bool = False
    """Whether what came of later turns whose prompts had the words is erased too."""
    dry_run: bool = False
    """Only says what would be erased."""


async def get_erasures(request: Request) -> ErasureUseCases:
    """Return the use cases of this application."""
    erasures: ErasureUseCases = request.app.state.use_cases.erasures
    return erasures


Erasures = Annotated[ErasureUseCases, Depends(get_erasures)]


async def get_source_erasures(request: Request) -> SourceErasureUseCases:
    """Return the use cases of erasures in the library."""
    erasures: SourceErasureUseCases = request.app.state.use_cases.source_erasures
    return erasures


SourceErasures = Annotated[SourceErasureUseCases, Depends(get_source_erasures)]


@router.post(api_paths.ERASURES, summary="Erase a session, or something of a turn")
async def erase_words(
    session: str,
    caller: CallerIdentity,
    erasures: Erasures,
    form: EraseRequest,
) -> ErasureReceipt:
    """Remove the keys of words for good: of a sealed session, or of what a turn has.

    Everything that was made of them goes too: summaries, prompts, forks, and what children were
    asked. The receipt names all of it. With `dry_run` nothing is erased.
    """
    return await erasures.erase(caller.create_caller(form), session, form)


@router.delete(api_paths.SESSION, summary="Erase a session")
async def delete_session(
    session: str,
    caller: CallerIdentity,
    erasures: Erasures,
    query: Annotated[ErasureQuery, Query()],
) -> ErasureReceipt:
    """Remove the keys of all words of a sealed session for good, and close it.

    What was made of them goes too, in forks and children as well. Its record stays, so it can be
    verified. With `dry_run` nothing is erased.
    """
    form = EraseRequest(**query.model_dump())
    return await erasures.erase(caller.create_caller(form), session, form)


@router.delete(api_paths.TURN, summary="Erase a turn")
async def delete_turn(
    session: str,
    turn: TurnPath,
    caller: CallerIdentity,
    erasures: Erasures,
    query: Annotated[ErasureQuery, Query()],
    of: Annotated[ErasedPart, Query(description="What of the turn is erased")] = "turn",
) -> ErasureReceipt:
    """Remove the keys of what was submitted with a turn, of what came of it, or of both, for good.

    What was made of them goes too. With `dry_run` nothing is erased.
    """
    form = EraseRequest(turn=turn, of=of, **query.model_dump())
    return await erasures.erase(caller.create_caller(form), session, form)


@router.post(api_paths.USER_ERASURES, summary="Erase what a user said")
async def erase_user(
    caller: CallerIdentity, erasures: Erasures, form: EraseUserRequest
) -> UserErasure:
    """Erase all sessions of a user, and the turns that the user asked in sessions of others.

    The answer has a receipt for each, and names the sessions in which it could not be done.
    """
    return await erasures.erase_user(caller.create_caller(form), form)


@router.post(api_paths.SOURCE_ERASURES, summary="Erase texts of the library")
async def erase_source(
    caller: CallerIdentity, erasures: SourceErasures, form: EraseSourceRequest
) -> SourceErasure:
    """Remove the keys of texts for good: of knowledge, of segments, or of users' own prompts.

    Retrievals and prompts that had them are under the same keys. The receipt names their sessions
    and calls. With `dry_run` nothing is erased.
    """
    return await erasures.erase(caller.create_caller(form), form)


@router.get(api_paths.SOURCE_ERASURES, summary="List the erasures in the library")
async def list_source_erasures(
    tenant: RequestTenant, erasures: SourceErasures
) -> SourceErasureList:
    """Read the keys anew, try to open what was erased of the library, and list the receipts."""
    return await erasures.list_erasures(tenant)


@router.get(api_paths.ERASURES, summary="List the erasures of a session")
async def list_erasures(session: str, tenant: RequestTenant, erasures: Erasures) -> ErasureList:
    """List what was erased of a session, with a receipt for each erasure."""
    return await erasures.list_erasures(tenant, session)


ErasureSequence = Annotated[
    int, Path(ge=1, le=MAX_INT, description="The sequence of the event that began it")
]


@router.get(api_paths.ERASURE, summary="Read the receipt of an erasure")
async def read_erasure(
    session: str,
    sequence: ErasureSequence,
    tenant: RequestTenant,
    erasures: Erasures,
) -> ErasureReceipt:
    """Read the keys anew, try to open every event, and say what an erasure has reached."""
    return await erasures.read_erasure(tenant, session, sequence)


@router.get(
    api_paths.ERASURE_PROOF, summary="Prove an erasure", dependencies=[record_look("proof")]
)
async def prove_erasure(
    session: str,
    sequence: ErasureSequence,
    tenant: RequestTenant,
    erasures: Erasures,
    *,
    with_keys: Annotated[
        bool, Query(description="With the keys that are left; they open what a bundle has")
    ] = False,
) -> ErasureProof:
    """Return what `turnlog receipt` signs: the receipt, and what is left of the keys.

    A stranger checks a bundle against it. It is refused until the erasure has ended.
    """
    return await erasures.prove_erasure(tenant, session, sequence, with_keys=with_keys)
