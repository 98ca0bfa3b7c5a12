"""Routes for sessions: open one by id or key, show one, list them, and fork one.

A session is opened once under its id. Under a key it is found or opened: two gateways that open the
same key at the same time open one session. Everything that a session is made from is read, checked
and pinned before its first event is appended. The list comes from the read models; everything else
comes from the session's own log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Final

import structlog
from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from turnlog.events.content import SHA256_PATTERN
from turnlog.events.errors import Refused
from turnlog.events.ids import validate_id
from turnlog.events.model.session_events import BlueprintRef, SessionOpened
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, compute_history_reach
from turnlog.projections.blueprint.storable_json import MAX_INT, check_text
from turnlog.projections.blueprint.validation.blueprint_faults import suggest_word
from turnlog.projections.blueprint.validation.input_values import (
    check_session_key,
    check_values,
    compute_session_id,
)
from turnlog.projections.prompt.budget.admission_limits import check_attribute_texts
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import OpenSession
from turnlog.projections.session.open_turn import OpenTurn, list_undecided_tools
from turnlog.projections.session.state import SessionState
from turnlog.projections.store.read.row_types import OriginRow
from turnlog.projections.store.read.session_queries import SESSION_PAGE_SIZE, SessionQuery
from turnlog.projections.store.read.session_queries import list_sessions as list_session_rows
from turnlog.services.api.requests import ForkSessionRequest, OpenSessionRequest
from turnlog.services.api.session_payloads import (
    ForkedSession,
    OpenedSession,
    OpenTurnView,
    PendingApproval,
    SessionPage,
    SessionView,
)
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.extensions.plugins import check_plugins_registered, collect_installed
from turnlog.services.extensions.tokenizers import load_vocabularies
from turnlog.services.gateway.dependencies import Dependencies, GatewayDependencies, RequestTenant
from turnlog.services.gateway.http.headers import set_etag
from turnlog.services.gateway.http.request_checks import (
    AtSequence,
    QueryTime,
    convert_to_utc,
    wait_for_session_rows,
)
from turnlog.services.gateway.http.request_identity import CallerIdentity, RequestIdentity
from turnlog.services.sessions.command_handler import CommandOutcome
from turnlog.services.sessions.session_fork import ForkPoint, ForkService

router = APIRouter()

_log = structlog.get_logger("turnlog.gateway")


@router.post(
    "/v1/sessions",
    status_code=201,
    responses={200: {"model": OpenedSession, "description": "The open session that has this key"}},
    summary="Open a session",
)
async def open_session(
    caller: CallerIdentity, deps: Dependencies, form: OpenSessionRequest, response: Response
) -> OpenedSession:
    """Open a session of a blueprint, or find one by a key that the blueprint declares.

    With an idempotency key and without an id, a retry finds the session of the first request.
    """
    if form.key is not None:
        return await _open_by_key(caller, deps, form, form.key, response)
    default_id = caller.derive_session_id() or deps.command_handler.create_id()
    session = validate_id(default_id if form.session is None else form.session, "session")

    async def choose(state: SessionState | None) -> OpenSession:
        del state
        return await create_open_command(deps, deps.blueprints, caller.tenant, form)

    command = caller.create_command_key(form)
    done = await deps.command_handler.handle(caller.tenant, session, choose, caller.author, command)
    return await _create_opened_response(deps, done.state, response)


async def _open_by_key(
    caller: RequestIdentity,
    deps: GatewayDependencies,
    form: OpenSessionRequest,
    key: dict[str, str],
    response: Response,
) -> OpenedSession:
    if form.session is not None:
        detail = "a session that is found by a key has the id that follows from it"
        raise Refused("bad-id", detail, field="session", fix="leave it out")
    done = await find_or_open_session(deps, caller, form, key)
    response.status_code = HTTPStatus.CREATED if done.events else HTTPStatus.OK
    return await _create_opened_response(deps, done.state, response)


async def _create_opened_response(
    deps: GatewayDependencies, state: SessionState, response: Response
) -> OpenedSession:
    blueprint = await _load_opening_blueprint(deps, state)
    set_etag(response, state.opened.sequence)
    response.headers["Location"] = f"/v1/sessions/{state.session}"
    return OpenedSession(
        session=state.session,
        blueprint=blueprint.name,
        digest=blueprint.digest,
        sequence=state.opened.sequence,
    )


async def _load_opening_blueprint(deps: GatewayDependencies, state: SessionState) -> BlueprintRef:
    """Return the blueprint at opening, so that a repeated request gets the answer of the first."""
    if state.attributes_in == state.opened.sequence:
        return state.blueprint  # The session was never moved to another version
    first = (
        await deps.time_travel.load_event(state.tenant, state.session, state.opened.sequence)
    ).event
    return first.blueprint if isinstance(first, SessionOpened) else state.blueprint


@router.get("/v1/sessions/{session}", summary="Show a session")
async def show_session(
    session: str,
    tenant: RequestTenant,
    deps: Dependencies,
    response: Response,
    at: AtSequence = None,
) -> SessionView:
    """Return the state of a session, now or at a sequence, folded from its own log."""
    state = (
        await deps.command_handler.require_state(tenant, session)
        if at is None
        else await deps.time_travel.load_state(tenant, session, at)
    )
    set_etag(response, state.head.sequence)
    return _create_session_view(state)


def _create_session_view(state: SessionState) -> SessionView:
    opened, origin = state.open, state.origin
    return SessionView(
        session=state.session,
        sequence=state.head.sequence,
        blueprint=state.blueprint.name,
        version=state.blueprint.version,
        digest=state.blueprint.digest,
        profile=state.profile,
        model=state.model,
        attributes=state.attributes,
        closed=state.closed,
        turns=state.submitted,
        completed=state.completed,
        open=_create_open_turn_view(opened) if opened else None,
        waiting=tuple(waiting.turn for waiting in state.waiting),
        phase=state.phase,
        exchanges=state.exchanges,
        warnings=state.warnings,
        origin=OriginRow(origin.kind, origin.session, origin.sequence) if origin else None,
        choices=state.choices,
    )


def _create_open_turn_view(opened: OpenTurn) -> OpenTurnView:
    return OpenTurnView(
        turn=opened.turn,
        attempt=opened.attempt,
        running=opened.is_running,
        released_at=opened.released_at,
        approvals=tuple(
            PendingApproval(
                approval=each.approval.number,
                call=each.use.call,
                id=each.use.id,
                tool=each.use.tool,
                deadline=each.approval.deadline,
            )
            for each in list_undecided_tools(opened)
        ),
    )


async def find_or_open_session(
    deps: GatewayDependencies,
    caller: RequestIdentity,
    form: OpenSessionRequest,
    key: Mapping[str, str],
) -> CommandOutcome:
    """Return the session with this key; open it when there is none."""
    blueprint = deps.blueprint_folders.load_blueprint(form.blueprint)
    checked = check_session_key(blueprint, key)

    async def choose(state: SessionState | None) -> OpenSession | None:
        if state is not None:
            return None
        return await create_open_command(deps, deps.blueprints, caller.tenant, form, checked)

    session = compute_session_id(blueprint, checked)
    return await deps.command_handler.handle(caller.tenant, session, choose, caller.author)


async def create_open_command(
    deps: GatewayDependencies,
    store: BlueprintStore,
    tenant: str,
    form: OpenSessionRequest,
    key: Mapping[str, str] | None = None,
) -> OpenSession:
    """Return the command that opens a session, with all its files read and pinned in the store.

    Raises `Refused` when the request does not fit the blueprint.
    """
    blueprint = deps.blueprint_folders.load_offered_blueprint(form.blueprint)
    check_plugins_registered(blueprint)
    _require_known_profile(blueprint, form.profile)
    attributes = check_values(blueprint.attributes, form.attributes, "attributes")
    await load_vocabularies(blueprint)
    installed = collect_installed()
    check_attribute_texts(blueprint, attributes, installed.vocabularies, deps.settings.model)
    cartridge = deps.blueprint_folders.read_cartridge(blueprint, attributes)
    deps.blueprint_folders.open_files(blueprint.blueprint).check_chosen_files(blueprint, attributes)
    read = deps.blueprint_folders.read_memory_policy(blueprint)
    material = SessionMaterial(blueprint, cartridge or {}, read.policy if read else None)
    warnings = read.warnings if read else ()
    _log_warnings(material, warnings)
    return OpenSession(
        await store.store_blueprint(tenant, blueprint),
        blueprint.default_profile,
        compute_history_reach(blueprint),
        attributes,
        None if cartridge is None else await store.store_cartridge(tenant, cartridge),
        material.phases,
        key=dict(key or {}),
        memory=await store.store_memory_policy(tenant, read.policy) if read else None,
        warnings=warnings,
        requested_profile=form.profile,
    )


def _log_warnings(material: SessionMaterial, warnings: tuple[str, ...]) -> None:
    blueprint = material.blueprint.blueprint
    for level in material.unknown_context_levels:
        _log.warning("context-unknown", context=level, blueprint=blueprint)
    for warning in warnings:
        _log.warning("memory-policy", fault=warning, blueprint=blueprint)


def _require_known_profile(blueprint: Blueprint, name: str | None) -> None:
    if name is not None and name not in blueprint.profiles:
        fix = suggest_word(name, blueprint.profiles)
        raise Refused("unknown-profile", f"there is no {name!r}", field="profile", fix=fix)


ATTRIBUTE_PARAMETER: Final = re.compile(
    r"attribute(?:\.(?P<dotted>.+)|\[(?P<bracketed>.+)\])", re.DOTALL
)
"""A query parameter that filters by an attribute: `attribute.NAME` or `attribute[NAME]`."""

_ATTRIBUTE_SPELLING: Final = "attribute.NAME"

ATTRIBUTE_FILTER: Final = {
    "name": "attribute",
    "in": "query",
    "style": "deepObject",
    "explode": True,
    "schema": {"type": "object", "additionalProperties": {"type": "string"}},
    "example": {"language": "lt"},
    "description": (
        "Values of attributes by name, as `attribute[NAME]=VALUE`; `attribute.NAME=VALUE` is the "
        "same. A session matches if it has all of them."
    ),
}
"""How the OpenAPI document describes the filter: FastAPI has no parameter with such a style."""

MAX_ATTRIBUTE_FILTERS: Final = 32
"""How many attributes one list may filter by; a database has a limit too, some hundreds later."""


class SessionFilter(BaseModel):
    """The query parameters of the session list; unknown parameters are refused.

    A list that ignored an unknown filter would show too much.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    q: Annotated[str, Field(max_length=200)] | None = None
    """Text that the id or the title contains."""
    blueprint: str | None = None
    """The name of the session's blueprint."""
    since: QueryTime | None = None
    """Sessions whose latest event is at or after this time."""
    origin: str | None = None
    """The id of the session they were forked or spawned from."""
    digest: Annotated[str, Field(pattern=SHA256_PATTERN)] | None = None
    """The digest of a blueprint, cartridge, memory policy or prompt file they are pinned to; see
    `/v1/pins`.
    """
    open: bool | None = None
    """Whether the session is not closed."""
    redacted: bool | None = None
    """Whether a reply of the session was redacted."""
    profile: str | None = None
    """The current profile."""
    phase: str | None = None
    """The current phase."""
    failed: bool | None = None
    """Whether a turn of the session failed."""
    limit: Annotated[int, Field(ge=1, le=500)] = SESSION_PAGE_SIZE
    """The maximum number of sessions in a page."""
    before: Annotated[int, Field(ge=1, le=MAX_INT)] | None = None
    """The `next` of the previous page."""
    min_sequence: (
        Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}:[1-9][0-9]{0,14}$")] | None
    ) = None
    """`SESSION:SEQUENCE`: wait until the read models contain this event."""

    def create_query(self) -> SessionQuery:
        """Return the query for the read models.

        Raises `Refused` for text that cannot be stored and for unknown parameters.
        """
        for name in ("q", "blueprint", "origin", "profile", "phase"):
            check_text(getattr(self, name) or "", name)
        extra: dict[str, str] = self.model_extra or {}
        if len(extra) > MAX_ATTRIBUTE_FILTERS:
            detail = f"the request filters by {len(extra)} attributes"
            fix = f"filter by at most {MAX_ATTRIBUTE_FILTERS}"
            raise Refused("too-many-filters", detail, field=_ATTRIBUTE_SPELLING, fix=fix)
        attributes = _parse_attribute_filters(extra)
        since = convert_to_utc(self.since, "since") if self.since else None
        return SessionQuery(
            self.q,
            self.blueprint,
            attributes,
            since,
            self.redacted,
            self.origin,
            self.digest,
            self.open,
            self.profile,
            self.phase,
            self.failed,
        )


def _parse_attribute_filters(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the value by attribute, of parameters in either spelling."""
    attributes: dict[str, str] = {}
    for parameter, value in parameters.items():
        found = ATTRIBUTE_PARAMETER.fullmatch(parameter)
        if found is None:
            near = suggest_word(parameter[:80], (*SessionFilter.model_fields, _ATTRIBUTE_SPELLING))
            raise Refused("invalid", "no such parameter", field=parameter[:80], fix=near)
        name = check_text(found["dotted"] or found["bracketed"], "query")
        if name in attributes:
            detail = "the attribute is given twice"
            raise Refused("invalid", detail, field=parameter[:80], fix="send it once")
        attributes[name] = check_text(value, parameter[:80])
    return attributes


@router.get(
    "/v1/sessions",
    summary="List sessions",
    openapi_extra={"parameters": [ATTRIBUTE_FILTER]},
)
async def list_sessions(
    tenant: RequestTenant, deps: Dependencies, query: Annotated[SessionFilter, Query()]
) -> SessionPage:
    """Return sessions, newest first."""
    session_query = query.create_query()
    if query.min_sequence is not None:
        session, _, sequence = query.min_sequence.partition(":")
        state = await deps.command_handler.load_state(tenant, session)
        if state is None:
            raise Refused("unknown-session", "there is no such session", field="min_sequence")
        await wait_for_session_rows(deps, state, int(sequence))
    async with deps.store.open_reader() as connection:
        page = await list_session_rows(
            connection, tenant, session_query, limit=query.limit, before=query.before
        )
    after = None if page.before is None else str(page.before)
    return SessionPage(sessions=page.sessions, next=after)


@router.post("/v1/sessions/{session}/fork", status_code=201, summary="Fork a session")
async def fork_session(
    session: str,
    caller: CallerIdentity,
    deps: Dependencies,
    form: ForkSessionRequest,
    response: Response,
) -> ForkedSession:
    """Open a session with the history of this one up to a sequence; this one does not change.

    With an idempotency key and without an id, a retry finds the fork of the first request.
    """
    default_id = caller.derive_session_id() or deps.command_handler.create_id()
    fork = validate_id(default_id if form.session is None else form.session, "session")
    place = ForkPoint(caller.tenant, session, form.at)
    blueprint = await ForkService(deps.time_travel).create_fork(
        place, fork, caller.author, caller.create_command_key(form)
    )
    set_etag(response, form.at)
    response.headers["Location"] = f"/v1/sessions/{fork}"
    return ForkedSession(
        session=fork,
        origin=OriginRow("fork", session, form.at),
        blueprint=blueprint.name,
        digest=blueprint.digest,
        sequence=form.at,
    )
