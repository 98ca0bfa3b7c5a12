"""The requests of a session client, written from `operations` by `make docs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnlog.client import operations
from turnlog.client.async_connection import AsyncServiceConnection
from turnlog.contract.call_payloads import CallProofView, ToolResultView
from turnlog.contract.erasures.erasure_payloads import ErasureList, ErasureProof, ErasureReceipt
from turnlog.contract.memory_payloads import ExclusionPreviewView, ForecastView
from turnlog.contract.session_payloads import SessionView
from turnlog.contract.turn_payloads import (
    ApprovalResult,
    CloseResult,
    CommandResult,
    HistoryView,
    SubmittedTurn,
)
from turnlog.contract.value_names import (
    ApprovalDecision,
    ErasedPart,
    FeedbackVote,
    RedactedPart,
    ShareAccess,
)


@dataclass(frozen=True, slots=True)
class AsyncSessionRequests:
    """Sends the requests on one session that are an operation each."""

    turnlog: AsyncServiceConnection
    session: str
    """The session id."""

    async def submit_turn(
        self,
        text: str | None = None,
        *,
        parts: Sequence[Mapping[str, Any]] | None = None,
        inputs: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        user: str | None = None,
    ) -> SubmittedTurn:
        """Submit a turn and return at once; it is on the log then.

        `parts` are texts, pictures, recordings and files in place of `text`, as the API takes them.
        """
        operation = operations.submit_turn(
            session=self.session, text=text, parts=parts, inputs=inputs, meta=meta, user=user
        )
        return await self.turnlog.send(operation)

    async def share_session(self, user: str, access: ShareAccess = "read") -> CommandResult:
        """Let another user read the session or take part in it."""
        operation = operations.share_session(self.session, user, access)
        return await self.turnlog.send(operation)

    async def end_sharing(self, user: str) -> CommandResult:
        """End what a user may do in the session."""
        operation = operations.end_sharing(self.session, user)
        return await self.turnlog.send(operation)

    async def cancel_turn(self, turn: int | None = None) -> CommandResult:
        """Cancel the open turn, or a queued one."""
        operation = operations.cancel_turn(self.session, turn)
        return await self.turnlog.send(operation)

    async def decide_approval(
        self,
        turn: int,
        approval: int,
        decision: ApprovalDecision,
        *,
        reason: str = "",
        shown: str | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> ApprovalResult:
        """Approve or refuse a tool that waits for it; the model reads the reason of a refusal.

        `shown` is the `digest` of the arguments that the person was shown, and `arguments` what the
        person wrote instead of them.
        """
        operation = operations.decide_approval(
            session=self.session,
            turn=turn,
            approval=approval,
            decision=decision,
            reason=reason,
            shown=shown,
            arguments=arguments,
        )
        return await self.turnlog.send(operation)

    async def record_feedback(
        self,
        turn: int,
        vote: FeedbackVote,
        *,
        comment: str | None = None,
        entry: Mapping[str, Any] | None = None,
    ) -> CommandResult:
        """Judge the reply of a turn, and so what it had retrieved; `none` takes a vote back.

        `entry` is one entry that the turn had retrieved, which is judged alone: its `collection`,
        its id as `entry`, and perhaps its `revision`.
        """
        operation = operations.record_feedback(
            session=self.session, turn=turn, vote=vote, comment=comment, entry=entry
        )
        return await self.turnlog.send(operation)

    async def close_session(self, reason: str | None = None) -> CloseResult:
        """Close the session and its children: they accept no more turns."""
        operation = operations.close_session(self.session, reason)
        return await self.turnlog.send(operation)

    async def describe_session(
        self,
        *,
        title: str | None = None,
        labels: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> CommandResult:
        """Change the title, the labels or the metadata; what is left out stays as it is.

        An empty title or list removes what was there. Of the metadata only the keys given change;
        one whose value is None is removed.
        """
        operation = operations.describe_session(
            self.session, title=title, labels=labels, metadata=metadata
        )
        return await self.turnlog.send(operation)

    async def enter_phase(self, to: str, *, carry: str | None = None) -> CommandResult:
        """Move to a phase; `carry` is what that phase is told of this one."""
        operation = operations.enter_phase(self.session, to, carry=carry)
        return await self.turnlog.send(operation)

    async def record_choice(self, choice: str) -> CommandResult:
        """Make a choice that the current phase offers."""
        operation = operations.record_choice(self.session, choice)
        return await self.turnlog.send(operation)

    async def switch_profile(
        self, profile: str | None = None, *, model: str | None = None
    ) -> CommandResult:
        """Switch to another profile or model, from the next turn on."""
        operation = operations.switch_profile(self.session, profile, model=model)
        return await self.turnlog.send(operation)

    async def request_schemas(self) -> CommandResult:
        """Describe the tools in full again, from the next call on, for one turn."""
        operation = operations.request_schemas(self.session)
        return await self.turnlog.send(operation)

    async def purge_memory(self) -> CommandResult:
        """Exclude all turns so far from later windows; the record keeps them."""
        operation = operations.purge_memory(self.session)
        return await self.turnlog.send(operation)

    async def undo_summary(self, sequence: int) -> CommandResult:
        """Undo the summary of an event: windows include the original turns again."""
        operation = operations.undo_summary(self.session, sequence)
        return await self.turnlog.send(operation)

    async def exclude_turn(self, turn: int) -> CommandResult:
        """Exclude a turn from all later windows; the record keeps it."""
        operation = operations.exclude_turn(self.session, turn)
        return await self.turnlog.send(operation)

    async def restore_turn(self, turn: int) -> CommandResult:
        """Include an excluded turn again."""
        operation = operations.restore_turn(self.session, turn)
        return await self.turnlog.send(operation)

    async def preview_exclusion(self, turn: int) -> ExclusionPreviewView:
        """Return which summaries `exclude_turn` would undo, and what they cost."""
        operation = operations.preview_exclusion(self.session, turn)
        return await self.turnlog.send(operation)

    async def redact_reply(
        self, turn: int, reason: str, *, replacement: str | None = None
    ) -> CommandResult:
        """Redact the reply of a turn, for all readers but an audit."""
        operation = operations.redact_reply(self.session, turn, reason, replacement=replacement)
        return await self.turnlog.send(operation)

    async def redact_turn(
        self,
        turn: int,
        reason: str,
        *,
        of: RedactedPart,
        replacement: str | None = None,
        pattern: str | None = None,
        spans: Sequence[tuple[int, int]] = (),
    ) -> CommandResult:
        """Redact a reply, the text of a turn, or both, for all readers but an audit.

        With a pattern of RE2, or parts by the code points where they begin and end, the rest of the
        text stays. A reply may repeat the words.
        """
        operation = operations.redact_turn(
            session=self.session,
            turn=turn,
            reason=reason,
            of=of,
            replacement=replacement,
            pattern=pattern,
            spans=spans,
        )
        return await self.turnlog.send(operation)

    async def erase_words(
        self,
        reason: str,
        *,
        turn: int | None = None,
        of: ErasedPart = "turn",
        with_replies: bool = False,
        dry_run: bool = False,
    ) -> ErasureReceipt:
        """Erase all words of a sealed session, or something of one turn, for good.

        What was made of the words goes too, and `with_replies` also what came of turns that saw
        them. The receipt names it all. With `dry_run` nothing is erased.
        """
        operation = operations.erase_words(
            session=self.session,
            reason=reason,
            turn=turn,
            of=of,
            with_replies=with_replies,
            dry_run=dry_run,
        )
        return await self.turnlog.send(operation)

    async def list_erasures(self) -> ErasureList:
        """Return the receipts of all erasures of a session, after a checking pass."""
        operation = operations.list_erasures(self.session)
        return await self.turnlog.send(operation)

    async def read_erasure(self, sequence: int) -> ErasureReceipt:
        """Return the receipt of one erasure, after a checking pass."""
        operation = operations.read_erasure(self.session, sequence)
        return await self.turnlog.send(operation)

    async def prove_erasure(self, sequence: int, *, with_keys: bool = False) -> ErasureProof:
        """Return what can be shown of an erasure; `with_keys` with the keys that are left.

        They open what a bundle of these sessions has, and nothing of later turns.
        """
        operation = operations.prove_erasure(self.session, sequence, with_keys=with_keys)
        return await self.turnlog.send(operation)

    async def fetch_state(self, *, at: int | None = None) -> SessionView:
        """Return the state of the session, now or at a sequence."""
        operation = operations.fetch_state(self.session, at=at)
        return await self.turnlog.send(operation)

    async def fetch_history(
        self, *, at: int | None = None, phase: str | None = None, reasoning: bool = False
    ) -> HistoryView:
        """Return the turns of the session, now or at a sequence, or those of a phase.

        With `reasoning` each has what the model reasoned before its reply.
        """
        operation = operations.fetch_history(self.session, at=at, phase=phase, reasoning=reasoning)
        return await self.turnlog.send(operation)

    async def fetch_tool_result(self, call: str, id: str) -> ToolResultView:
        """Return a tool use with its arguments and its whole result.

        An event `tool-returned` names both, as `call` and `id`.
        """
        operation = operations.fetch_tool_result(self.session, call, id)
        return await self.turnlog.send(operation)

    async def fetch_proof(self, call: str, sequence: int | None = None) -> CallProofView:
        """Return the proof that a call is among the first events of its session, by default all."""
        operation = operations.fetch_proof(self.session, call, sequence)
        return await self.turnlog.send(operation)

    async def fetch_forecast(self) -> ForecastView:
        """Return when a prompt is next cut or summarised, by which rule, and how sure that is."""
        operation = operations.fetch_forecast(self.session)
        return await self.turnlog.send(operation)
