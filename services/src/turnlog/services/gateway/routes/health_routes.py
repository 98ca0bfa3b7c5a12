"""Health routes: `/healthz` for liveness, `/readyz` for readiness, and quarantine.

The gateway is ready when the log's leader and the database answer, and the read models belong to
this log. A message of the record that is known to be lost is reported in the part `record`: it
stops its own session, and the gateway stays ready for the others. The response also has the
durability level in force, which is what a 2xx of this gateway guarantees, and the lag of the read
models. Quarantine has the sessions whose read models an event stopped; they are released after a
fix.
"""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Response

from turnlog.events.errors import Refused
from turnlog.events.ids import validate_id
from turnlog.projections.store.write.batch_apply import replay_session
from turnlog.projections.store.write.projection_positions import read_active_position
from turnlog.projections.store.write.stopped_sessions import (
    list_quarantined_events,
    list_stopped_sessions,
)
from turnlog.services.api.service_payloads import (
    ComponentHealth,
    LivenessView,
    QuarantinedEventView,
    QuarantineRelease,
    QuarantineView,
    ReadinessView,
    StoppedSessionList,
    StoppedSessionView,
)
from turnlog.services.gateway.dependencies import Dependencies, GatewayDependencies, RequestTenant
from turnlog.services.platform.process_health import PROBE_SESSION, find_failure, is_ready
from turnlog.services.platform.projection_lag import measure_projection_lag

router = APIRouter()


@router.get("/healthz", summary="Check liveness")
async def check_liveness() -> LivenessView:
    """Return that the process runs."""
    return LivenessView()


@router.get(
    "/readyz",
    responses={503: {"model": ReadinessView}},
    summary="Check readiness",
)
async def check_readiness(deps: Dependencies, response: Response) -> ReadinessView:
    """Check all components and return their health, the durability level and the lag."""
    tenant = deps.settings.tenant
    behind: list[int] = []

    async def measure() -> None:
        behind.append(await measure_projection_lag(deps.log, deps.store, tenant))

    checks = {
        "nats": deps.log.read_last_event(tenant, PROBE_SESSION, leader=True),
        "database": _check_database(deps),
        "read_models": measure(),
        **{name: check() for name, check in deps.health_checks.items()},
    }
    found = await asyncio.gather(*(find_failure(check) for check in checks.values()))
    failures = dict(zip(checks, found, strict=True))
    ready = is_ready(failures) and not deps.shutdown_event.is_set()
    response.status_code = 200 if ready else 503
    return ReadinessView(
        ready=ready,
        durability=deps.durability.level,
        checked=deps.durability.checked,
        lag=behind[0] if behind else None,
        parts={
            name: ComponentHealth(ready=failure is None, detail=failure)
            for name, failure in failures.items()
        },
    )


async def _check_database(deps: GatewayDependencies) -> None:
    async with deps.store.open_reader() as connection:
        await read_active_position(connection)


@router.get("/v1/quarantine", summary="List sessions whose read models are stopped")
async def list_quarantine(tenant: RequestTenant, deps: Dependencies) -> StoppedSessionList:
    """Return the sessions that an event stopped, with the event and the reason."""
    async with deps.store.open_reader() as connection:
        active = await read_active_position(connection)
        found = await list_stopped_sessions(connection, active.build, tenant) if active else ()
    return StoppedSessionList(
        sessions=tuple(StoppedSessionView.model_validate(each) for each in found)
    )


@router.get("/v1/quarantine/{session}", summary="Show a session's quarantined events")
async def show_quarantine(
    session: str, tenant: RequestTenant, deps: Dependencies
) -> QuarantineView:
    """Return the events of a stopped session that wait, beginning with the one that stopped it."""
    owner = (tenant, validate_id(session, "session"))
    async with deps.store.open_reader() as connection:
        active = await read_active_position(connection)
        found = await list_quarantined_events(connection, active.build, owner) if active else ()
    if not found:
        raise await _explain_not_stopped(deps, tenant, session)
    return QuarantineView(
        session=session, events=tuple(QuarantinedEventView.model_validate(each) for each in found)
    )


@router.post("/v1/quarantine/{session}/release", summary="Fold a stopped session's events again")
async def release_session(
    session: str, tenant: RequestTenant, deps: Dependencies
) -> QuarantineRelease:
    """Fold the events that wait, from where the session's rows end, in one transaction.

    If an event stops the session again, the response is 409 with the new reason, and that event
    and the later ones stay in quarantine.
    """
    validate_id(session, "session")
    async with deps.store.open_writer() as connection:
        replayed = await replay_session(connection, tenant, session)
    if not replayed.events:
        raise await _explain_not_stopped(deps, tenant, session)
    deps.projection_signal.notify_readers()
    if replayed.poison is not None:
        raise Refused(
            "still-stopped",
            f"event {replayed.poison.position} of the stream: {replayed.poison.reason}",
            field="session",
            fix="release it with a version of Turnlog that can fold this event",
        )
    return QuarantineRelease(session=session, events=replayed.events)


async def _explain_not_stopped(deps: GatewayDependencies, tenant: str, session: str) -> Refused:
    """Return the refusal for a session without quarantined events; raise it for an unknown one."""
    await deps.command_handler.require_state(tenant, session)
    return Refused(
        "not-stopped",
        f"the read models of {session} are not stopped",
        field="session",
        fix="see `/v1/quarantine` for those that are",
    )
