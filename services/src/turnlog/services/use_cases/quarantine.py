"""Quarantine: the sessions whose read models an event stopped, and their release after a fix."""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.errors import Refused
from turnlog.events.ids import validate_id
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.read_your_writes import ProjectionSignal
from turnlog.projections.store.write.batch_apply import replay_session
from turnlog.projections.store.write.projection_positions import read_active_position
from turnlog.projections.store.write.stopped_sessions import (
    list_quarantined_events,
    list_session_strays,
    list_stopped_sessions,
)
from turnlog.services.api.service_payloads import (
    QuarantinedEventView,
    QuarantineRelease,
    QuarantineView,
    SessionStraysView,
    StoppedSessionList,
    StoppedSessionView,
)
from turnlog.services.sessions.command_handler import CommandHandler


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Lists stopped sessions and releases them."""

    command_handler: CommandHandler
    store: ReadModelStore
    projection_signal: ProjectionSignal

    async def list_stopped_sessions(self, tenant: str) -> StoppedSessionList:
        """Return the sessions that an event stopped, and those with stray messages."""
        async with self.store.open_reader() as connection:
            active = await read_active_position(connection)
            if active is None:
                return StoppedSessionList(sessions=())
            stopped = await list_stopped_sessions(connection, active.build, tenant)
            strays = await list_session_strays(connection, active.build, tenant)
        return StoppedSessionList(
            sessions=tuple(StoppedSessionView.model_validate(each) for each in stopped),
            strays=tuple(SessionStraysView.model_validate(each) for each in strays),
        )

    async def load_session(self, tenant: str, session: str) -> QuarantineView:
        """Return the events of a stopped session that wait, first the one that stopped it."""
        owner = (tenant, validate_id(session, "session"))
        async with self.store.open_reader() as connection:
            active = await read_active_position(connection)
            found = await list_quarantined_events(connection, active.build, owner) if active else ()
        if not found:
            raise await self._explain_not_stopped(tenant, session)
        return QuarantineView(
            session=session,
            events=tuple(QuarantinedEventView.model_validate(each) for each in found),
        )

    async def release_session(self, tenant: str, session: str) -> QuarantineRelease:
        """Fold the events that wait, from where the session's rows end, in one transaction.

        Raises `Refused` if an event stops the session again; that event and the later ones stay.
        """
        validate_id(session, "session")
        async with self.store.open_writer() as connection:
            attach_keys = self.command_handler.log.attach_keys
            replayed = await replay_session(connection, tenant, session, attach_keys)
        if not replayed.events:
            raise await self._explain_not_stopped(tenant, session)
        self.projection_signal.notify_readers()
        if replayed.poison is not None:
            raise Refused(
                "still-stopped",
                f"event {replayed.poison.position} of the stream: {replayed.poison.reason}",
                field="session",
                fix="release it with a version of Turnlog that can fold this event",
            )
        return QuarantineRelease(session=session, events=replayed.events)

    async def _explain_not_stopped(self, tenant: str, session: str) -> Refused:
        """Return the refusal for a session that is not stopped; raise it for an unknown one."""
        await self.command_handler.require_state(tenant, session)
        return Refused(
            "not-stopped",
            f"the read models of {session} are not stopped",
            field="session",
            fix="see `/v1/quarantine` for those that are",
        )
