"""Erases: withholds the words, has every session that has them do the same, and removes the keys.

An erasure begins with an event. From it on no writer can add anything that has the words, since two
writers never append behind the same event. Then the sessions that it reaches begin theirs, the keys
are removed, the rows are made again from what can still be read, and an event ends it. Each step
may be repeated, so whoever finds an erasure that has not ended goes on from its beginning.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import structlog

from turnlog.events.errors import Corrupt, KeyringMissing, TurnlogError, Unavailable
from turnlog.events.model.redaction_events import (
    ContentErased,
    ErasureBegun,
    ErasureOrigin,
)
from turnlog.events.seals.key_ports import RemovedKeys, SealingKeys
from turnlog.events.store.ports import RawEvent
from turnlog.events.subjects import SESSION_HISTORY
from turnlog.projections.session.rules.erasure_rules import list_leaves, require_erasable
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.turn_commands import BeginErasure, EndErasure
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.erasure_queries import list_open_erasures
from turnlog.projections.store.read.read_your_writes import ProjectionSignal, wait_until_folded
from turnlog.projections.store.write.batch_apply import rebuild_session
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.erasures.erasing_callers import hide_caller
from turnlog.services.erasures.erasure_guard import ErasureGuard
from turnlog.services.erasures.erasure_rounds import repeat_rounds
from turnlog.services.erasures.erasure_tracing import (
    ErasureTarget,
    ErasureTracing,
    TracedErasure,
    find_last_turn,
)
from turnlog.services.sessions.command_handler import CommandHandler

ERASED_WORDS: Final = "[erased]"
"""What stands in place of each text and reply that is erased."""

FOLD_SECONDS: Final = 30.0
"""Seconds that the read models get to know every fork of a session."""

ROUND_ERASURES: Final = 100
"""Erasures that one look goes on with."""

_log = structlog.get_logger("turnlog.erasure")


@dataclass(frozen=True, slots=True)
class ErasurePart:
    """What is erased of one session, from its beginning on."""

    tenant: str
    session: str
    begun: int
    """Sequence of the event that began it."""
    event: ErasureBegun

    async def remove_keys(self, keys: SealingKeys, last_turn: int) -> RemovedKeys:
        """Remove the keys of the session itself."""
        leaves = list_leaves(self.event.turns) if self.event.turns else None
        return await keys.remove_leaves(self.tenant, self.session, leaves, last_turn)


def rebuild_target(tenant: str, session: str, event: ErasureBegun) -> ErasureTarget:
    """Return the target of an erasure that was begun."""
    _, _, outer = event.leaves.partition(";")  # The first ones are those of the session itself.
    return ErasureTarget(
        tenant=tenant,
        session=session,
        turns=event.turns,
        outer_leaves=outer,
        with_replies=event.with_replies,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureService:
    """Erases words of sealed sessions."""

    command_handler: CommandHandler
    store: ReadModelStore
    projection_signal: ProjectionSignal
    guard: ErasureGuard
    """Refuses what has to stay."""

    @property
    def tracer(self) -> ErasureTracing:
        """Traces what is reached."""
        return ErasureTracing(self.command_handler, self.store)

    async def plan_erasure(self, target: ErasureTarget) -> TracedErasure:
        """Return what an erasure would reach; refuse what cannot be erased."""
        state = await self.command_handler.require_state(target.tenant, target.session)
        require_erasable(state, target.turns)
        traced = await self.tracer.trace(target)

        async def list_sessions() -> list[str]:
            return await self.list_reached(traced)

        await self.guard.require_erasable(target.tenant, list_sessions)
        return traced

    async def list_reached(self, traced: TracedErasure) -> list[str]:
        """Return a session with the forks and children of which its erasure takes something."""
        found = [traced.target.session]
        for reached in traced.reached:
            state = await self.command_handler.load_state(reached.tenant, reached.session)
            if state and state.sealed_under is not None and not state.erased:
                found += await self.list_reached(await self.tracer.trace(reached))
        return found

    async def begin_erasure(self, caller: Caller, target: ErasureTarget, reason: str) -> int:
        """Begin an erasure; return the sequence of its event.

        A request with an idempotency key that was used before has begun it already.
        """

        async def choose_command(state: SessionState | None) -> BeginErasure:
            del state  # What is traced may be of a later one, and then this one is decided again.
            traced = await self.plan_erasure(target)
            self.require_keys(target.session)
            return build_command(traced, reason)

        sealing = self.command_handler.sealing
        hidden = await hide_caller(sealing.keys if sealing else None, caller)
        done = await self.command_handler.handle(
            target.tenant,
            target.session,
            choose_command,
            hidden.metadata,
            command=hidden.command,
        )
        return done.memo.sequence if done.memo else done.events[-1].sequence

    async def finish_erasure(self, tenant: str, session: str, begun: int) -> None:
        """Carry out an erasure that was begun; twice is as good as once.

        Raises `Refused` `turn-open` while a turn of a session that it reaches is open, and `held`
        while a hold covers one; then it goes on by itself once that has ended. A part of another
        session's is carried out with it.
        """
        state = await self.command_handler.require_state(tenant, session)
        event, metadata = await self._load_begun(tenant, session, begun)
        if begun not in state.erasing or event.origin:
            return
        parts = await self._begin_parts(ErasurePart(tenant, session, begun, event), metadata)
        # A hold that was placed since it began: whoever places one finds what has begun.
        await self.guard.require_unheld(tenant, [part.session for part in parts])
        removed = await self._remove_keys(parts)
        # A fork has rows of words that are under the keys of its origin.
        for part in parts:
            await self._rebuild_rows(tenant, part.session)
        await self.store.discard_replaced_pages()
        await self._end_parts(parts, removed, metadata)
        _log.info("content-erased", tenant=tenant, session=session, begun=begun)

    async def _begin_parts(self, part: ErasurePart, metadata: CommandMetadata) -> list[ErasurePart]:
        """Begin the part of every session that is reached; return all parts, this one first."""
        await self._require_folded(part.tenant, part.session, part.begun)
        target = rebuild_target(part.tenant, part.session, part.event)
        traced = await self.tracer.trace(target)
        parts = [part]
        for reached in traced.reached:
            if found := await self._begin_part(reached, part, metadata):
                parts += await self._begin_parts(found, metadata)
        return parts

    async def _begin_part(
        self, reached: ErasureTarget, cause: ErasurePart, metadata: CommandMetadata
    ) -> ErasurePart | None:
        """Begin what is erased of another session; None for one that has nothing to erase."""
        tenant, session = reached.tenant, reached.session
        state = await self.command_handler.load_state(tenant, session)
        if state is None or state.sealed_under is None:
            return None
        origin = ErasureOrigin(session=cause.session, sequence=cause.begun)
        begun = await self._find_begun(reached, origin)
        if begun is None and state.erased:
            return None
        if begun is None:
            traced = await self.tracer.trace(reached)
            command = build_command(traced, cause.event.reason, origin)
            done = await self.command_handler.handle(tenant, session, command, metadata)
            begun = done.events[-1].sequence if done.events else None
        # None again: another process carries out the same erasure, and was faster.
        begun = begun or await self._find_begun(reached, origin)
        if begun is None:
            return None
        event, _ = await self._load_begun(tenant, session, begun)
        return ErasurePart(tenant, session, begun, event)

    async def _remove_keys(self, parts: Sequence[ErasurePart]) -> list[RemovedKeys]:
        removed: list[RemovedKeys] = []
        for part in parts:
            events = await self.command_handler.load_events(part.tenant, part.session)
            last_turn = find_last_turn(events, part.begun)
            removed.append(await part.remove_keys(self.require_keys(part.session), last_turn))
        return removed

    async def _end_parts(
        self,
        parts: Sequence[ErasurePart],
        removed: Sequence[RemovedKeys],
        metadata: CommandMetadata,
    ) -> None:
        """Record the end of every part, that of the session which was asked for at last."""
        for part, gone in reversed([*zip(parts, removed, strict=True)]):
            ended = ContentErased(
                begun=part.begun,
                generation=gone.generation,
                record_before=gone.before,
                record_after=gone.after,
                keys_left=gone.left,
            )
            await self.command_handler.handle(
                part.tenant, part.session, EndErasure(ended), metadata
            )

    async def _load_begun(
        self, tenant: str, session: str, begun: int
    ) -> tuple[ErasureBegun, CommandMetadata]:
        """Return the event that began an erasure, and on whose behalf the rest of it is done."""
        last = await self.command_handler.load_last_event(tenant, session, begun)
        recorded = await self.command_handler.log.find_event(tenant, session, begun, last)
        if not isinstance(recorded.event, ErasureBegun):
            raise Corrupt(f"event {begun} of session {session}", "it begins no erasure")
        return recorded.event, CommandMetadata(recorded.envelope.actor)

    async def _require_folded(self, tenant: str, session: str, begun: int) -> None:
        """Wait until the read models know every fork that was made before an erasure began."""
        is_folded = await wait_until_folded(
            store=self.store,
            signal=self.projection_signal,
            tenant=tenant,
            session=session,
            sequence=begun,
            within=FOLD_SECONDS,
        )
        if not is_folded:
            raise Unavailable("read models", "they are behind, and know not every fork")

    async def _find_begun(self, reached: ErasureTarget, origin: ErasureOrigin) -> int | None:
        """Return the event by which a session began its part of an erasure; None before that."""
        for each in await self.command_handler.load_events(reached.tenant, reached.session):
            if isinstance(each.event, ErasureBegun) and each.event.origin == origin:
                return each.sequence
        return None

    async def _rebuild_rows(self, tenant: str, session: str) -> None:
        """Make the rows of a session again: what was erased is in none of them."""
        events = await self.command_handler.load_events(tenant, session)
        raws = [
            RawEvent(
                SESSION_HISTORY.build_subject(tenant, session, "event"),
                each.stream_sequence,
                each.stored,
            )
            for each in events
        ]
        async with self.store.open_writer() as connection:
            await rebuild_session(connection, tenant, session, raws)
        self.projection_signal.notify_readers()

    def require_keys(self, session: str) -> SealingKeys:
        """Return the keys of sessions; raises `KeyringMissing` without a keyring."""
        sealing = self.command_handler.sealing
        if sealing is None or sealing.keys is None:
            raise KeyringMissing(f"session {session}")
        return sealing.keys

    @asynccontextmanager
    async def run_rounds(self) -> AsyncGenerator[None]:
        """Go on with erasures that have not ended, of any process, while the body runs."""
        after = 0

        async def go_on() -> None:
            nonlocal after
            after = await self.finish_open_erasures(after)

        async with repeat_rounds(go_on):
            yield

    async def finish_open_erasures(self, after: int = 0) -> int:
        """Go on with so many erasures that have not ended; those that cannot go on yet are left.

        `after` is where the last look ended, so that none that waits keeps others waiting. Returns
        where this one has; 0 behind the last erasure.
        """
        try:
            async with self.store.open_reader() as connection:
                found = await list_open_erasures(connection, after, ROUND_ERASURES)
        except TurnlogError:
            return after
        for each in found:
            try:
                await self.finish_erasure(each.tenant, each.session, each.begun)
            except TurnlogError as error:
                place = {"tenant": each.tenant, "session": each.session, "begun": each.begun}
                _log.warning("erasure-waits", detail=str(error), **place)
        return found[-1].opened_position if len(found) == ROUND_ERASURES else 0


def build_command(
    traced: TracedErasure, reason: str, origin: ErasureOrigin | None = None
) -> BeginErasure:
    """Return the command that begins a traced erasure."""
    target = traced.target
    return BeginErasure(
        turns=target.turns,
        reason=reason,
        replacement=ERASED_WORDS,
        leaves=target.outer_leaves,
        origin=origin,
        reached=tuple(each.session for each in traced.reached),
        with_replies=target.with_replies,
    )
