"""Commands on a session and its turns, such as cancel, close, redact and exclude.

The session's rules decide each command, under its idempotency key. A result has the sequence of the
last event, so that the next read can ask for at least that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from pydantic import JsonValue

from turnlog.contract.session_requests import (
    DescribeSessionRequest,
    DisplayTurnRequest,
    FeedbackRequest,
    PhaseSignalRequest,
    RedactTurnRequest,
)
from turnlog.contract.turn_payloads import CloseResult, CommandResult
from turnlog.contract.value_names import ShareAccess
from turnlog.events.errors import Refused
from turnlog.events.model.redaction_events import OPERATOR_RULE
from turnlog.events.model.retrieval_events import KnowledgeRetrieved, RetrievalCandidate
from turnlog.projections.blueprint.schema.phase_specs import PhaseGraph
from turnlog.projections.blueprint.storable_json import check_text
from turnlog.projections.session.commands import (
    CloseSession,
    Command,
    DescribeSession,
    EnterPhase,
    PurgeMemory,
    RecordChoice,
    RequestSchemas,
    SendSignal,
    SwitchProfile,
    TurnCommand,
    UndoSummary,
)
from turnlog.projections.session.decide import refuse_unknown_session
from turnlog.projections.session.session_description import SessionDescription
from turnlog.projections.session.session_owner import ShareSession
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.turn_commands import (
    DisplayTurn,
    GiveEntryFeedback,
    GiveFeedback,
    RedactReply,
    RedactText,
    RedactTurn,
)
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.guarded_requests import Form, GuardedRequest
from turnlog.services.identity.tenant_service import TenantPolicies, UnlimitedTenants
from turnlog.services.sessions.client_commands import cancel_turn, handle_client_command
from turnlog.services.sessions.command_handler import ChooseCommand, CommandHandler
from turnlog.services.sessions.cut_replies import CutReplyReader
from turnlog.services.sessions.orphaned_children import close_children
from turnlog.services.sessions.request_guard import RequestGuard
from turnlog.services.tenants.model_permits import DEFAULT_NAME, require_switched_model
from turnlog.services.use_cases.sessions.text_redaction import (
    build_text_redaction,
    refuse_parts_of_reply,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSteering:
    """Handles the commands of clients on open sessions."""

    command_handler: CommandHandler
    blueprints: BlueprintStore
    cut_replies: CutReplyReader
    tenants: TenantPolicies = field(default_factory=UnlimitedTenants)
    """What each tenant may use."""
    default_model: str = DEFAULT_NAME
    """The model of profiles that say `default`."""

    async def handle_command(
        self,
        caller: Caller,
        session: str,
        command: TurnCommand | UndoSummary | PurgeMemory | RequestSchemas,
        turn: int | None = None,
    ) -> CommandResult:
        """Handle a command that needs only the caller's values; `turn` is the one it names."""
        return await self._handle(caller, session, command, turn)

    async def cancel_turn(self, caller: Caller, session: str, turn: int | None) -> CommandResult:
        """Cancel the open turn, or one that is queued; the result names it."""
        return await cancel_turn(
            command_handler=self.command_handler,
            cut_replies=self.cut_replies,
            caller=caller,
            session=session,
            turn=turn,
        )

    async def close_session(self, caller: Caller, session: str, reason: str) -> CloseResult:
        """Close a session, then its children; repeated, it closes the children that are left."""

        async def choose(state: SessionState | None) -> CloseSession:
            return CloseSession(reason, await self.cut_replies.read_cut_reply(state))

        done = await self._handle(caller, session, choose)
        state = await self.command_handler.require_state(caller.tenant, session)
        children = await close_children(self.command_handler, caller, state, CloseSession(reason))
        return CloseResult(**done.model_dump(), children=children)

    async def handle_request(
        self,
        caller: Caller,
        session: str,
        form: Form,
        build: Callable[[SessionState, Form], Awaitable[Command]],
        turn: int | None = None,
    ) -> CommandResult:
        """Handle a request in which people write, by the command that `build` returns for it."""
        guard = RequestGuard(self.command_handler, self.blueprints)

        async def handle(as_caller: Caller, guarded: GuardedRequest[Form]) -> CommandResult:
            async def choose(state: SessionState | None) -> Command:
                state = await guard.require_allowed(state, guarded)
                return await build(state, guarded.form)

            return await self._handle(as_caller, session, choose, turn)

        return await guard.run_guarded(caller, session, form, handle)

    async def describe_session(
        self, caller: Caller, session: str, request: DescribeSessionRequest
    ) -> CommandResult:
        """Change the title, the labels or the metadata of a session, closed or not."""

        async def build(state: SessionState, form: DescribeSessionRequest) -> DescribeSession:
            return DescribeSession(_read_description(state, form))

        return await self.handle_request(caller, session, request, build)

    async def share_session(
        self, caller: Caller, session: str, user: str, access: ShareAccess | None
    ) -> CommandResult:
        """Let another user read a session or take part in it, or end that."""
        return await self._handle(caller, session, ShareSession(user, access))

    async def display_turn(
        self, caller: Caller, session: str, turn: int, request: DisplayTurnRequest
    ) -> CommandResult:
        """Record a display form of a turn."""

        async def build(_state: SessionState, form: DisplayTurnRequest) -> DisplayTurn:
            return DisplayTurn(turn, form.text, form.reply)

        return await self.handle_request(
            caller=caller, session=session, form=request, build=build, turn=turn
        )

    async def record_feedback(
        self, caller: Caller, session: str, turn: int, request: FeedbackRequest
    ) -> CommandResult:
        """Judge the reply of a turn, or an entry that it retrieved."""

        async def build(
            state: SessionState, form: FeedbackRequest
        ) -> GiveFeedback | GiveEntryFeedback:
            if form.entry is None:
                return GiveFeedback(turn, form.vote, form.comment)
            return GiveEntryFeedback(
                turn=turn,
                collection=form.entry.collection,
                entry=form.entry.entry,
                revision=form.entry.revision,
                vote=form.vote,
                comment=form.comment,
                taken=await self._load_taken_entries(state, turn),
            )

        return await self.handle_request(
            caller=caller, session=session, form=request, build=build, turn=turn
        )

    async def _load_taken_entries(
        self, state: SessionState, turn: int
    ) -> tuple[RetrievalCandidate, ...]:
        """Return what a turn took from the knowledge."""
        events = await self.command_handler.load_turn_events(state, turn)
        made = (each.event for each in events if isinstance(each.event, KnowledgeRetrieved))
        return tuple(entry for each in made if each.turn == turn for entry in each.taken)

    async def redact_turn(
        self, caller: Caller, session: str, request: RedactTurnRequest
    ) -> CommandResult:
        """Replace the reply of a turn, its text or both wherever they are shown."""

        async def build(
            state: SessionState, form: RedactTurnRequest
        ) -> RedactReply | RedactText | RedactTurn:
            if form.of in {None, "reply"}:
                refuse_parts_of_reply(form)
                return await self._build_reply_redaction(state, form)
            text = await build_text_redaction(self.command_handler, state, form)
            if form.of == "text":
                return text
            return RedactTurn(text, await self._build_reply_redaction(state, form))

        return await self.handle_request(
            caller=caller, session=session, form=request, build=build, turn=request.turn
        )

    async def _build_reply_redaction(
        self, state: SessionState, form: RedactTurnRequest
    ) -> RedactReply:
        material = await self.blueprints.load_material(state)
        words = form.replacement or material.get_replacement(state)
        return RedactReply(form.turn, form.reason, OPERATOR_RULE, words)

    async def record_choice(self, caller: Caller, session: str, choice: str) -> CommandResult:
        """Record a choice that the session's current phase offers."""

        async def choose(state: SessionState | None) -> RecordChoice:
            return RecordChoice(choice, await self._load_phases(state))

        return await self._handle(caller, session, choose)

    async def change_phase(
        self, caller: Caller, session: str, request: PhaseSignalRequest
    ) -> CommandResult:
        """End the current phase by a signal it offers, or move to another phase by its name."""

        async def build(state: SessionState, form: PhaseSignalRequest) -> SendSignal | EnterPhase:
            phases = await self._load_phases(state)
            signal, to, carry = form.signal, form.to, form.carry
            if to is not None and signal is None:
                return EnterPhase(to, phases, carry and check_text(carry, "carry"))
            if signal is not None and to is None and carry is None:
                return SendSignal(signal, phases)
            fix = "send `signal`, or `to` and perhaps `carry`"
            detail = "the request names neither a signal nor a phase, or both"
            raise Refused("bad-phase", detail, field="signal", fix=fix)

        return await self.handle_request(caller, session, request, build)

    async def _load_phases(self, state: SessionState | None) -> PhaseGraph:
        state = _require_state(state)
        material = await self.blueprints.load_material(state)
        if material.phases is None:
            raise Refused("no-phases", f"blueprint {state.blueprint.name} has no phases")
        return material.phases

    async def switch_profile(
        self,
        caller: Caller,
        session: str,
        *,
        profile: str | None = None,
        model: str | None = None,
    ) -> CommandResult:
        """Switch the session to another profile or model, from its next turn on."""

        async def choose(state: SessionState | None) -> SwitchProfile:
            state = _require_state(state)
            if profile is None and model is None:
                fix = "send `profile`, `model` or both"
                detail = "the request names neither a profile nor a model"
                raise Refused("invalid", detail, field="profile", fix=fix)
            blueprint = (await self.blueprints.load_material(state)).blueprint
            require_switched_model(
                settings=await self.tenants.load_settings(caller.tenant),
                blueprint=blueprint,
                profile=profile or state.profile,
                model=model,
                default_model=self.default_model,
            )
            return SwitchProfile(
                profile=profile or state.profile,
                profiles=blueprint.profiles,
                model=model,
                allowed_models=blueprint.allowed_models,
            )

        return await self._handle(caller, session, choose)

    async def _handle(
        self,
        caller: Caller,
        session: str,
        choose: Command | ChooseCommand,
        turn: int | None = None,
    ) -> CommandResult:
        return await handle_client_command(self.command_handler, caller, session, choose, turn=turn)


def _read_description(state: SessionState, form: DescribeSessionRequest) -> SessionDescription:
    """Return what a request states; null stands for the empty value, by which a rule removes it."""
    given = form.model_fields_set
    if not given:
        fix = "send `title`, `labels` or `metadata`"
        raise Refused("invalid", "the request changes nothing", field="title", fix=fix)
    patch = (
        dict[str, JsonValue].fromkeys(state.metadata) if form.metadata is None else form.metadata
    )
    return SessionDescription(
        title=(form.title or "") if "title" in given else None,
        labels=tuple(form.labels or ()) if "labels" in given else None,
        metadata=patch if "metadata" in given else None,
    )


def _require_state(state: SessionState | None) -> SessionState:
    if state is None:
        raise refuse_unknown_session()
    return state
