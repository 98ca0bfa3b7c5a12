"""Children of a coordinator's turn: opened, given turns, cancelled, and settled in their parent.

Everything here may be carried out again, by this worker or another: ids and numbers follow from
the parent's record, and each log accepts each step once. Two messages do it. That of the parent's
turn stays until the turn is settled, and whoever receives it asks what was not asked. That of the
child's turn is acknowledged once the parent's log has the end of it, which wakes the parent up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from pydantic import JsonValue

from turnlog.events.model.child_events import ChildSettled, ParentInput
from turnlog.events.model.content_parts import MediaPart
from turnlog.events.model.session_events import SessionOrigin
from turnlog.events.model.tool_events import ToolCalled, ToolReturned
from turnlog.events.model.turn_events import TurnCompleted, TurnFailed
from turnlog.events.store.ports import TurnBlobStore
from turnlog.events.tokens import ToolRequest
from turnlog.projections.blueprint.schema.blueprint_model import compute_history_reach
from turnlog.projections.blueprint.schema.policy_specs import ChildPolicy
from turnlog.projections.blueprint.schema.tool_specs import ToolsSpec
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.quotas.turn_bound import compute_turn_bound
from turnlog.projections.session.child_commands import (
    SettleChild,
    SubmitChildTurn,
    WithdrawChildTurn,
)
from turnlog.projections.session.commands import OpenSession
from turnlog.projections.session.open_turn import PendingChild, list_pending_children
from turnlog.projections.session.rules.event_leaves import list_text_leaves, list_work_leaves
from turnlog.projections.session.rules.steps.child_rules import (
    CANCELLING_OUTCOMES,
    ChildEnd,
    compute_child_wait,
    derive_child_session,
    find_child_end,
    find_pending_child,
    find_query,
)
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.text_refs import TextRef
from turnlog.projections.session.tool_uses import ChildTurnRef, ToolUse
from turnlog.projections.tools.result_condensation import build_result_texts
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.caches.text_cache import read_event
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.sessions.prompt_inputs import load_turn_inputs
from turnlog.services.worker.turn_context import TurnContext


@dataclass(frozen=True, slots=True)
class HandedInput:
    """An input of a parent's turn: its text, and the reference that children get."""

    text: str
    reference: ParentInput


@dataclass(frozen=True, slots=True)
class CoordinatorSession:
    """The state and the pinned material of a parent, as its children need them."""

    state: SessionState
    material: SessionMaterial
    handed: Mapping[str, HandedInput] = field(default_factory=dict[str, HandedInput])
    """The inputs of its open turn that its pending children are given, by name."""

    def list_handed_inputs(self, profile: str) -> tuple[HandedInput, ...]:
        """Return the inputs that a child of a profile is given; those that the turn has."""
        names = self.material.blueprint.profiles[profile].parent_inputs
        return tuple(self.handed[name] for name in names if name in self.handed)

    def list_handed_parts(self, profile: str, at: int) -> tuple[MediaPart, ...]:
        """Return the parts of the open turn that a child of a profile is given, after its text."""
        opened = self.state.open
        if opened is None or not self.material.blueprint.profiles[profile].parent_parts:
            return ()
        parts = (each.part for each in opened.submission.media)
        return tuple(each.model_copy(update={"at": at}) for each in parts)

    @property
    def policy(self) -> ChildPolicy:
        """How it waits for its children."""
        return self.material.blueprint.policies.children


@dataclass(frozen=True, slots=True)
class ChildSessions:
    """The child sessions of the sessions that a worker serves."""

    sessions: CommandHandler
    blueprints: BlueprintStore
    blobs: TurnBlobStore

    async def advance_children(self, context: TurnContext) -> float:
        """Submit the pending child turns of a turn, and settle those that have ended.

        Returns the seconds until the next of them has taken too long. Children in different
        sessions are asked at the same time; those in one session in order.
        """
        pending = list_pending_children(context.state.open)
        asking = await self._create_asking_metadata(context)
        by_session = groupby(
            sorted(pending, key=lambda each: (each.child.session, each.child.turn)),
            key=lambda each: each.child.session,
        )
        parent = CoordinatorSession(context.state, context.material)
        parent = await self._store_handed_inputs(parent, pending)
        asked = (self._submit_in_order(parent, tuple(each), asking) for _, each in by_session)
        await asyncio.gather(*asked)
        waits = [await self._settle_or_wait(parent, each) for each in pending]
        return min(waits, default=0.0)

    async def _store_handed_inputs(
        self, parent: CoordinatorSession, children: Iterable[PendingChild]
    ) -> CoordinatorSession:
        """Store the inputs that children are given as blobs, each once, and return them too.

        An input that the parent was given itself is handed on as its own.
        """
        state, profiles = parent.state, parent.material.blueprint.profiles
        names = {name for each in children for name in profiles[each.use.tool].parent_inputs}
        submission = state.open.submission if state.open else None
        if not names or submission is None or submission.inputs is None:
            return parent
        inputs = await load_turn_inputs(self.sessions, state)
        leaves = list_text_leaves(state, submission.turn)
        handed: dict[str, HandedInput] = {}
        for name in sorted(names & inputs.keys()):
            text = inputs[name]
            if isinstance(text, str) and text:
                reference = ParentInput(
                    name=name,
                    session=state.session,
                    turn=submission.turn,
                    sequence=submission.inputs.sequence,
                    digest=await self.blobs.put_turn_blob(state.tenant, text.encode(), leaves),
                )
                handed[name] = HandedInput(text, reference)
        return replace(parent, handed=handed)

    async def _create_asking_metadata(self, context: TurnContext) -> CommandMetadata:
        """Return the metadata of a child's turn: its actor is that of the parent's turn."""
        opened, by = context.state.open, context.by
        text = opened.submission.text if opened else None
        if text is None:
            return by
        (recorded,) = await self.sessions.log.read_events_at(context.tenant, [text.place])
        return CommandMetadata(recorded.envelope.actor, by.causation, by.traceparent)

    async def _submit_in_order(
        self, parent: CoordinatorSession, children: Sequence[PendingChild], by: CommandMetadata
    ) -> None:
        state, material = parent.state, parent.material
        asked = state.open.submission if state.open else None
        for pending in children:
            use, child = pending.use, pending.child
            handed = parent.list_handed_inputs(use.tool)
            inputs: dict[str, JsonValue] = {each.reference.name: each.text for each in handed}
            await self._open_child(parent, use.tool, child, by)
            called = await read_event(self.sessions.log, state.tenant, use.asked.place, ToolCalled)
            query = find_query(called.arguments) or ""
            asking = SubmitChildTurn(
                turn=child.turn,
                text=query,
                phase=state.phase,
                phases=material.phases,
                meta={"turn": called.turn, "call": called.call, "id": called.id},
                user=asked.user if asked else None,
                bound=compute_turn_bound(material.blueprint, use.tool, inputs),
                overrides=asked.overrides if asked else (),
                parent_inputs=tuple(each.reference for each in handed),
                parts=parent.list_handed_parts(use.tool, len(query)),
            )
            await self.sessions.handle(state.tenant, child.session, asking, by)

    async def _open_child(
        self, parent: CoordinatorSession, profile: str, child: ChildTurnRef, by: CommandMetadata
    ) -> SessionState:
        """Open a child session with everything that its parent is pinned to; return its state."""
        state, material = parent.state, parent.material
        opening = OpenSession(
            blueprint=state.blueprint,
            profile=profile,
            reach=compute_history_reach(material.blueprint),
            attributes=state.attributes,
            cartridge=state.cartridge,
            phases=material.phases,
            origin=SessionOrigin(kind="parent", session=state.session, sequence=child.sequence),
            memory=state.memory,
            warnings=state.warnings,
            requested_profile=profile,
            owner=state.owner,
        )

        async def choose(found: SessionState | None) -> OpenSession | None:
            return opening if found is None else None

        known = self.sessions.state_cache.get_state(state.tenant, child.session)
        if known is not None:
            return known
        done = await self.sessions.handle(state.tenant, child.session, choose, by)
        return done.state

    async def _settle_or_wait(self, parent: CoordinatorSession, pending: PendingChild) -> float:
        """Settle a child whose turn has ended; return how long the parent waits for it."""
        asked = pending.child
        child = await self.sessions.load_state(parent.state.tenant, asked.session)
        if child is None:
            return 0.0
        policy, at = parent.policy, self.sessions.clock()
        if end := find_child_end(child, asked, policy, at):
            await self._settle(parent, pending, child, end)
            return 0.0
        opened = child.open if child.open and child.open.turn == asked.turn else None
        return max(0.0, compute_child_wait(asked, opened, policy, at)) or policy.seconds

    async def report_end(self, tenant: str, session: str, turn: int) -> None:
        """Settle a child's turn in its parent, if it has ended; nothing for any other session."""
        known = self.sessions.state_cache.get_state(tenant, session)
        if known is not None and not known.is_child:
            return
        child = await self.sessions.load_state(tenant, session)
        if child is None or child.origin is None or not child.is_child:
            return
        # A replica may lack the request that led to this turn
        state = await self.sessions.load_state(tenant, child.origin.session, leader=True)
        pending = find_pending_child(state.open, session, turn) if state else None
        if state is None or pending is None:
            return
        parent = CoordinatorSession(state, await self.blueprints.load_material(state))
        if end := find_child_end(child, pending.child, parent.policy, self.sessions.clock()):
            await self._settle(parent, pending, child, end)

    async def _settle(
        self, parent: CoordinatorSession, pending: PendingChild, child: SessionState, end: ChildEnd
    ) -> None:
        state, asked = parent.state, pending.child
        if end.outcome == "failed":
            detail = await self._describe_failure(child, asked.turn)
            end = replace(end, detail=detail or end.detail)
        command = SettleChild(
            session=asked.session,
            child_turn=asked.turn,
            outcome=end.outcome,
            detail=end.detail,
            returned=await self._build_return(parent, pending.use, end),
            fails_turn=parent.policy.failed == "fail" and end.outcome != "answered",
            failed_policy=parent.material.blueprint.policies.failed,
        )
        by = CommandMetadata("worker", state.open.submission.event if state.open else None)
        await self.sessions.handle(state.tenant, state.session, command, by)

    async def _describe_failure(self, child: SessionState, turn: int) -> str:
        events = await self.sessions.load_events(child.tenant, child.session)
        failed = (each.event for each in events if isinstance(each.event, TurnFailed))
        found = next((each for each in failed if each.turn == turn), None)
        return f"its turn failed: {found.code}: {found.detail}" if found else ""

    async def _build_return(
        self, parent: CoordinatorSession, use: ToolUse, end: ChildEnd
    ) -> ToolReturned:
        """Return the result that the parent's model reads, condensed as results of tools are."""
        tenant, reply = parent.state.tenant, end.reply
        called = await read_event(self.sessions.log, tenant, use.asked.place, ToolCalled)
        found = await self.sessions.texts.read_texts(tenant, [reply] if reply else [])
        whole = found[reply] if reply else end.detail
        spec = parent.material.blueprint.tools or ToolsSpec(servers={})
        leaves = list_work_leaves(parent.state, called.turn)
        digest = await self.blobs.put_turn_blob(tenant, whole.encode(), leaves)
        outcome = "answered" if end.outcome == "answered" else "failed"
        request = ToolRequest(id=called.id, tool=called.tool, arguments=called.arguments)
        texts = build_result_texts(
            request=request, result=whole, digest=digest, outcome=outcome, spec=spec.distil
        )
        return ToolReturned(
            turn=called.turn,
            call=called.call,
            id=called.id,
            tool=called.tool,
            outcome=outcome,
            detail=end.detail,
            text=texts.text,
            brief=texts.brief,
            summary=texts.summary,
            result=digest,
            characters=len(whole),
            treatment=texts.treatment,
            parts=await self._list_reply_parts(tenant, reply, at=texts.text.characters),
        )

    async def _list_reply_parts(
        self, tenant: str, reply: TextRef | None, at: int
    ) -> tuple[MediaPart, ...]:
        """Return the pictures, recordings and files of a child's reply, at the end of a text."""
        if reply is None:
            return ()
        (recorded,) = await self.sessions.log.read_events_at(tenant, [reply.place])
        parts = recorded.event.parts if isinstance(recorded.event, TurnCompleted) else ()
        return tuple(each.model_copy(update={"at": at}) for each in parts)

    async def withdraw_turn(self, tenant: str, session: str, settled: ChildSettled) -> None:
        """Cancel the turn of a child that its parent no longer waits for.

        The child is opened for it if it is not open, so that it cannot be asked later.
        """
        if settled.outcome not in CANCELLING_OUTCOMES:
            return
        state = await self.sessions.require_state(tenant, session)
        parent = CoordinatorSession(state, await self.blueprints.load_material(state))
        by = CommandMetadata("worker", None)
        if derive_child_session(state, settled.profile) == settled.session:
            child = ChildTurnRef(settled.session, settled.child_turn, state.head.sequence, "")
            await self._open_child(parent, settled.profile, child, by)
        command = WithdrawChildTurn(settled.child_turn)
        await self.sessions.handle(tenant, settled.session, command, by)
