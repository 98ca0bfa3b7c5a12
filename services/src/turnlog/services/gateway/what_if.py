"""The what-if route: recorded calls are assembled again under a hypothetical change.

The files of another blueprint come in the request body, because the gateway cannot read the
client's folder. The response is NDJSON with one line per session, sent when the session is done, so
the lines also show progress. A session that cannot be evaluated gets a line of its own and stops no
other. Nothing is written and no model is called.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import Final

from fastapi import APIRouter
from starlette.responses import Response, StreamingResponse

from turnlog.events.errors import Corrupt, Refused
from turnlog.events.session import BlueprintMoved, BlueprintRef, SessionOpened
from turnlog.projections.audit.whatif.account import Account, account, together
from turnlog.projections.audit.whatif.change import Change
from turnlog.projections.audit.whatif.redone import what_if
from turnlog.projections.blueprint.schema import blueprint_digest
from turnlog.projections.store.listing import Wanted, sessions
from turnlog.projections.store.reach import come_to
from turnlog.services.gateway.desk import AtDesk, Desk, Tenant
from turnlog.services.gateway.few import one_of_few, refuse_more
from turnlog.services.gateway.headers import NDJSON
from turnlog.services.gateway.payloads.closed import Answer
from turnlog.services.gateway.payloads.what_if import (
    Begun,
    Ended,
    Line,
    SessionSupposed,
    SessionUntold,
    SupposedBlueprint,
    WhatIfForm,
)
from turnlog.services.gateway.supposing import call_view, figures
from turnlog.services.runtime.aside import aside
from turnlog.services.runtime.blueprint_files import BlueprintFiles
from turnlog.services.runtime.files import Brought
from turnlog.services.runtime.installed import installed
from turnlog.services.runtime.lag import lag
from turnlog.services.runtime.plugins import check_plugins
from turnlog.services.runtime.prices import PriceTable
from turnlog.services.runtime.records import Record, Records
from turnlog.services.runtime.vocabularies import ready

router = APIRouter()

PATH: Final = "/v1/what-if"
_PAGE: Final = 500


@router.post(
    PATH,
    response_model=Line,
    response_class=Response,
    responses={200: {"content": {NDJSON: {}}}},
    summary="What if the blueprint, the budget or the model were another",
)
async def ask_what_if(tenant: Tenant, desk: AtDesk, form: WhatIfForm) -> StreamingResponse:
    """Assemble recorded calls again under a change; stream one line per session, then the totals.
    """
    refuse_more(desk)
    change = await _change(desk, form)
    behind = 0 if form.sessions else await _behind(desk, tenant)
    named = tuple(dict.fromkeys(form.sessions or await _all(desk, tenant, change)))
    begun = _begun(form, change, len(named), behind)
    lines = _lines(desk, tenant, begun, change, named)
    return StreamingResponse(one_of_few(desk, lines), media_type=NDJSON)


async def _change(desk: Desk, form: WhatIfForm) -> Change:
    """Return the change to evaluate; raises `FaultyBlueprint` with all faults of the blueprint."""
    if form.blueprint is None:
        if form.budget is None and form.model is None:
            fix = "bring a blueprint, or name a budget or a model"
            raise Refused("invalid", "nothing is supposed", field="blueprint", fix=fix)
        return Change(desk.library, None, form.budget, form.model, desk.settings.model)
    files = BlueprintFiles(Brought(form.blueprint.blueprint, form.blueprint.files))
    blueprint = files.blueprint()
    check_plugins(blueprint)
    await ready(blueprint)
    return Change(files, blueprint, form.budget, form.model, desk.settings.model)


async def _behind(desk: Desk, tenant: str) -> int:
    """Return by how many events the read models lag, after giving them time to catch up."""
    end = await desk.log.end(tenant)

    async def look() -> int:
        return end - await lag(desk.log, desk.store, tenant)

    level = await come_to(desk.bell, look, end, within=desk.patience)
    return 0 if level else await lag(desk.log, desk.store, tenant)


async def _all(desk: Desk, tenant: str, change: Change) -> Sequence[str]:
    """Return all session ids, or those of the blueprint in the request."""
    wanted = Wanted(blueprint=change.blueprint.blueprint if change.blueprint else None)
    named: list[str] = []
    before: int | None = None
    while True:
        async with desk.store.reading() as connection:
            page = await sessions(connection, tenant, wanted, limit=_PAGE, before=before)
        named += [row.session for row in page.sessions]
        before = page.before
        if before is None:
            return named


async def _lines(
    desk: Desk, tenant: str, begun: Begun, change: Change, named: Sequence[str]
) -> AsyncGenerator[bytes]:
    yield _line(begun)
    prices, accounts = await desk.prices.table(), list[Account]()
    async with aclosing(_told(desk, tenant, change, named, prices)) as told:
        async for line, found in told:
            accounts += [found] if found else []
            yield _line(line)
    total = figures(together(accounts), prices)
    told_of = len(accounts)
    yield _line(Ended(**total, sessions=told_of, untold=len(named) - told_of))


async def _told(
    desk: Desk, tenant: str, change: Change, named: Iterable[str], prices: PriceTable
) -> AsyncGenerator[tuple[SessionSupposed | SessionUntold, Account | None]]:
    records = Records(desk.sessions)
    for session in named:
        try:
            record = await records.whole(tenant, session)
            blueprint, found = _made_from(record), await _account(record, change)
        except (Corrupt, Refused) as error:
            yield _untold(session, error), None
        else:
            yield _session(record, blueprint, found, prices), found


async def _account(record: Record, change: Change) -> Account:
    """Evaluate a session in a thread, because a long one takes seconds."""
    redone = what_if(record.events, record.blobs, installed(), change)
    try:
        return await aside(lambda: account(redone))
    except (Corrupt, Refused):
        raise
    except Exception as error:  # an altered record may contain anything
        raise Corrupt("the record", f"it cannot be told: {error!r}") from error


def _made_from(record: Record) -> BlueprintRef:
    for said in reversed(record.events):
        if isinstance(said.event, SessionOpened | BlueprintMoved):
            return said.event.blueprint
    raise Corrupt("event 1", "it opens no session that this version knows of")


def _session(
    record: Record, blueprint: BlueprintRef, found: Account, prices: PriceTable
) -> SessionSupposed:
    return SessionSupposed(
        **figures(found, prices),
        session=record.events[-1].session,
        sequence=record.events[-1].sequence,
        blueprint=blueprint.name,
        version=blueprint.version,
        worst=tuple(call_view(each) for each in found.worst),
        badness=found.badness,
    )


def _untold(session: str, error: Corrupt | Refused) -> SessionUntold:
    match error:
        case Refused(code=code, detail=detail):
            return SessionUntold(session=session, code=code, detail=detail)
        case Corrupt():
            return SessionUntold(session=session, code="corrupt", detail=str(error))


def _begun(form: WhatIfForm, change: Change, number: int, behind: int) -> Begun:
    supposed = change.blueprint
    blueprint = supposed and SupposedBlueprint(
        blueprint=supposed.blueprint,
        version=supposed.version,
        digest=blueprint_digest(supposed),
    )
    return Begun(
        sessions=number,
        behind=behind,
        blueprint=blueprint,
        budget=form.budget,
        model=form.model,
    )


def _line(answer: Answer) -> bytes:
    return answer.model_dump_json().encode() + b"\n"
