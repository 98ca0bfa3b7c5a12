"""The requests of a client as values, and the rule when one is sent again.

Both clients build their requests here. A command carries an idempotency key from the start, so
sending it again after a lost answer has one effect. What is on a session, its first parameter, is a
method of both session clients too, with the same parameters and docstring: `make docs` writes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import Annotated, Any, Final, Generic, TypeVar
from urllib.parse import quote
from uuid import uuid4

import httpx
from pydantic import Field, TypeAdapter, ValidationError

from turnlog.client.answer_bounds import LIMIT_EXTENSION, MAX_BODY_BYTES
from turnlog.client.request_errors import create_form_error
from turnlog.client.session_filters import SessionFilters
from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.contract.call_payloads import CallProofView, ToolResultView
from turnlog.contract.erasures.erasure_payloads import ErasureList, ErasureProof, ErasureReceipt
from turnlog.contract.memory_payloads import ExclusionPreviewView, ForecastView
from turnlog.contract.session_payloads import ForkedSession, OpenedSession, SessionPage, SessionView
from turnlog.contract.turn_payloads import (
    ApprovalResult,
    CloseResult,
    CommandResult,
    HistoryView,
    SettledTurnView,
    SubmittedTurn,
    UndecidedTurnView,
)
from turnlog.contract.value_names import (
    ApprovalDecision,
    ErasedPart,
    FeedbackVote,
    RedactedPart,
    SessionOrder,
    ShareAccess,
)

AnswerT = TypeVar("AnswerT")


MAX_WAIT: Final = 300.0
"""Seconds that the service waits for a reply within one request, at most."""

CONNECT_TIMEOUT: Final = 30.0
"""Seconds for a connection, and for sending a piece of a request."""

REQUEST_TIMEOUT: Final = httpx.Timeout(CONNECT_TIMEOUT, read=MAX_WAIT + 30.0)
"""A read may take as long as the longest wait, and some more."""

STREAM_TIMEOUT: Final = httpx.Timeout(CONNECT_TIMEOUT, read=60.0)
"""The service sends a comment every few seconds, so a stream without a byte for long is lost."""


SETTLED_STATUS: Final = 200
"""The status of a submit whose turn is settled; with 202 the turn goes on."""


@dataclass(frozen=True, slots=True)
class ClientOperation(Generic[AnswerT]):
    """One request, and the class of its answer: a pydantic model or a dataclass."""

    method: str
    path: str
    answer: type[AnswerT]
    _: KW_ONLY
    body: Mapping[str, Any] | None = None
    content: bytes | None = None
    """A body that is no JSON."""
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout: float | None = None
    """Seconds that the service may send nothing for; by default as the client has it."""
    most_bytes: int = MAX_BODY_BYTES
    """Most bytes of the answer that are read."""

    def build_request(self, http: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """Return the request, the same for each try."""
        timeout = http.timeout
        if self.timeout is not None:
            timeout = httpx.Timeout(CONNECT_TIMEOUT, read=self.timeout)
        return http.build_request(
            self.method,
            self.path,
            json=self.body,
            content=self.content,
            params=self.query,
            headers=self.headers,
            timeout=timeout,
            extensions={LIMIT_EXTENSION: self.most_bytes},
        )

    def parse_answer(self, response: httpx.Response) -> AnswerT:
        """Return the answer of a successful response, without fields that a later release adds.

        Raises `UnusableAnswer` for another.
        """
        try:
            return TypeAdapter(self.answer).validate_json(response.content, extra="ignore")
        except ValidationError as error:
            raise create_form_error(error) from None


def build_command(
    path: str,
    body: Mapping[str, Any] | None,
    answer: type[AnswerT],
    method: str = "POST",
    query: Mapping[str, object] = {},
) -> ClientOperation[AnswerT]:
    """Return a command with an idempotency key of its own.

    Fields and parameters that are None are left out.
    """
    fields = None if body is None else {k: value for k, value in body.items() if value is not None}
    headers = {"Idempotency-Key": uuid4().hex}
    return ClientOperation(
        method=method,
        path=path,
        answer=answer,
        body=fields,
        query=format_query(query),
        headers=headers,
    )


def build_read(
    path: str, answer: type[AnswerT], query: Mapping[str, object] = {}
) -> ClientOperation[AnswerT]:
    """Return a read; parameters that are None are left out."""
    return ClientOperation(method="GET", path=path, answer=answer, query=format_query(query))


def format_query(query: Mapping[str, object]) -> dict[str, str]:
    """Return query parameters as they are sent; those that are None are left out."""
    return {name: _format_value(value) for name, value in query.items() if value is not None}


def _format_value(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def format_events_path(session: str | None, types: Sequence[str], *, tokens: bool = False) -> str:
    """Return the path of the events of a session or of all, of these types if there are any."""
    path = api_paths.EVENTS
    if session is not None:
        path = format_path(api_paths.SESSION_EVENTS, session=session)
    query = [
        *([f"types={quote(','.join(types), safe=',')}"] if types else []),
        *(["tokens=true"] if tokens else []),
    ]
    return f"{path}?{'&'.join(query)}" if query else path


def format_stream_path(session: str, turn: int, *, reasoning: bool = False) -> str:
    """Return the path of a turn's stream, with what the model reasons if that is asked for."""
    path = format_path(api_paths.TURN_STREAM, session=session, turn=turn)
    return f"{path}?reasoning=true" if reasoning else path


def open_session(
    blueprint: str,
    attributes: Mapping[str, Any] | None = None,
    session: str | None = None,
    profile: str | None = None,
    *,
    title: str | None = None,
    labels: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    user: str | None = None,
) -> ClientOperation[OpenedSession]:
    """Open a session."""
    body = {
        "blueprint": blueprint,
        "attributes": attributes,
        "session": session,
        "profile": profile,
        "title": title,
        "labels": labels,
        "metadata": metadata,
        "user": user,
    }
    return build_command(api_paths.SESSIONS, body, OpenedSession)


def list_sessions(
    filters: SessionFilters, order: SessionOrder, before: str | None
) -> ClientOperation[SessionPage]:
    """List sessions in an order."""
    attributes = filters.get("attributes") or {}
    query: dict[str, object] = {
        **{name: value for name, value in filters.items() if name not in {"text", "attributes"}},
        **{f"attribute.{name}": value for name, value in attributes.items()},
        "q": filters.get("text"),
        "order": order,
        "before": before,
    }
    return build_read(api_paths.SESSIONS, SessionPage, query)


def submit_turn(
    session: str,
    text: str | None = None,
    *,
    parts: Sequence[Mapping[str, Any]] | None = None,
    inputs: Mapping[str, Any] | None = None,
    meta: Mapping[str, Any] | None = None,
    user: str | None = None,
) -> ClientOperation[SubmittedTurn]:
    """Submit a turn and return at once; it is on the log then.

    `parts` are texts, pictures, recordings and files in place of `text`, as the API takes them.
    """
    sent = None if parts is None else [dict(part) for part in parts]
    body = {"text": text, "parts": sent, "inputs": inputs, "meta": meta, "user": user}
    return build_command(format_path(api_paths.TURNS, session=session), body, SubmittedTurn)


def wait_for_turn(
    submitted: ClientOperation[SubmittedTurn], seconds: float
) -> ClientOperation[SettledTurnView]:
    """Submit the same turn, or find the one already submitted, and wait until it is settled.

    The answer is only a `SettledTurnView` where the status is 200; with 202 the turn goes on.
    """
    return ClientOperation(
        method=submitted.method,
        path=submitted.path,
        answer=SettledTurnView,
        body=submitted.body,
        query={"wait": f"{min(max(seconds, 0.001), MAX_WAIT):.3f}"},
        headers=submitted.headers,
    )


def parse_unsettled(response: httpx.Response) -> UndecidedTurnView | SubmittedTurn:
    """Return what a response with 202 says of a turn that goes on, or waits for a person."""
    known: TypeAdapter[UndecidedTurnView | SubmittedTurn] = TypeAdapter(
        Annotated[UndecidedTurnView | SubmittedTurn, Field(union_mode="left_to_right")]
    )
    try:
        return known.validate_json(response.content, extra="ignore")
    except ValidationError as error:
        raise create_form_error(error) from None


def share_session(
    session: str, user: str, access: ShareAccess = "read"
) -> ClientOperation[CommandResult]:
    """Let another user read the session or take part in it."""
    path = format_path(api_paths.SHARE, session=session, user=user)
    return build_command(path, {"access": access}, CommandResult, "PUT")


def end_sharing(session: str, user: str) -> ClientOperation[CommandResult]:
    """End what a user may do in the session."""
    path = format_path(api_paths.SHARE, session=session, user=user)
    return build_command(path, None, CommandResult, "DELETE")


def cancel_turn(session: str, turn: int | None = None) -> ClientOperation[CommandResult]:
    """Cancel the open turn, or a queued one."""
    return build_command(
        format_path(api_paths.CANCEL, session=session), {"turn": turn}, CommandResult
    )


def decide_approval(
    session: str,
    turn: int,
    approval: int,
    decision: ApprovalDecision,
    *,
    reason: str = "",
    shown: str | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> ClientOperation[ApprovalResult]:
    """Approve or refuse a tool that waits for it; the model reads the reason of a refusal.

    `shown` is the `digest` of the arguments that the person was shown, and `arguments` what the
    person wrote instead of them.
    """
    path = format_path(api_paths.APPROVAL, session=session, turn=turn, approval=approval)
    body = {"decision": decision, "reason": reason, "shown": shown, "arguments": arguments}
    given = {name: value for name, value in body.items() if value is not None}
    return build_command(path, given, ApprovalResult)


def record_feedback(
    session: str,
    turn: int,
    vote: FeedbackVote,
    *,
    comment: str | None = None,
    entry: Mapping[str, Any] | None = None,
) -> ClientOperation[CommandResult]:
    """Judge the reply of a turn, and so what it had retrieved; `none` takes a vote back.

    `entry` is one entry that the turn had retrieved, which is judged alone: its `collection`,
    its id as `entry`, and perhaps its `revision`.
    """
    path = format_path(api_paths.FEEDBACK, session=session, turn=turn)
    body: dict[str, Any] = {"vote": vote, "comment": comment}
    return build_command(path, body | ({"entry": entry} if entry else {}), CommandResult)


def close_session(session: str, reason: str | None = None) -> ClientOperation[CloseResult]:
    """Close the session and its children: they accept no more turns."""
    return build_command(
        format_path(api_paths.CLOSE, session=session), {"reason": reason}, CloseResult
    )


def describe_session(
    session: str,
    *,
    title: str | None = None,
    labels: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> ClientOperation[CommandResult]:
    """Change the title, the labels or the metadata; what is left out stays as it is.

    An empty title or list removes what was there. Of the metadata only the keys given change;
    one whose value is None is removed.
    """
    path = format_path(api_paths.SESSION, session=session)
    body = {"title": title, "labels": labels, "metadata": metadata}
    return build_command(path, body, CommandResult, "PATCH")


def enter_phase(
    session: str, to: str, *, carry: str | None = None
) -> ClientOperation[CommandResult]:
    """Move to a phase; `carry` is what that phase is told of this one."""
    body = {"to": to, "carry": carry}
    return build_command(format_path(api_paths.PHASE, session=session), body, CommandResult)


def record_choice(session: str, choice: str) -> ClientOperation[CommandResult]:
    """Make a choice that the current phase offers."""
    path = format_path(api_paths.CHOICES, session=session)
    return build_command(path, {"choice": choice}, CommandResult)


def switch_profile(
    session: str, profile: str | None = None, *, model: str | None = None
) -> ClientOperation[CommandResult]:
    """Switch to another profile or model, from the next turn on."""
    body = {"profile": profile, "model": model}
    return build_command(format_path(api_paths.PROFILE, session=session), body, CommandResult)


def request_schemas(session: str) -> ClientOperation[CommandResult]:
    """Describe the tools in full again, from the next call on, for one turn."""
    return build_command(format_path(api_paths.TOOL_SCHEMAS, session=session), {}, CommandResult)


def purge_memory(session: str) -> ClientOperation[CommandResult]:
    """Exclude all turns so far from later windows; the record keeps them."""
    return build_command(format_path(api_paths.PURGE, session=session), {}, CommandResult)


def undo_summary(session: str, sequence: int) -> ClientOperation[CommandResult]:
    """Undo the summary of an event: windows include the original turns again."""
    path = format_path(api_paths.UNDO_SUMMARY, session=session, sequence=sequence)
    return build_command(path, {}, CommandResult)


def exclude_turn(session: str, turn: int) -> ClientOperation[CommandResult]:
    """Exclude a turn from all later windows; the record keeps it."""
    path = format_path(api_paths.EXCLUSION, session=session, turn=turn)
    return build_command(path, None, CommandResult, "PUT")


def restore_turn(session: str, turn: int) -> ClientOperation[CommandResult]:
    """Include an excluded turn again."""
    path = format_path(api_paths.EXCLUSION, session=session, turn=turn)
    return build_command(path, None, CommandResult, "DELETE")


def preview_exclusion(session: str, turn: int) -> ClientOperation[ExclusionPreviewView]:
    """Return which summaries `exclude_turn` would undo, and what they cost."""
    return build_read(
        format_path(api_paths.EXCLUSION, session=session, turn=turn), ExclusionPreviewView
    )


def redact_reply(
    session: str, turn: int, reason: str, *, replacement: str | None = None
) -> ClientOperation[CommandResult]:
    """Redact the reply of a turn, for all readers but an audit."""
    body = {"turn": turn, "reason": reason, "replacement": replacement}
    return build_command(format_path(api_paths.REDACTIONS, session=session), body, CommandResult)


def redact_turn(
    session: str,
    turn: int,
    reason: str,
    *,
    of: RedactedPart,
    replacement: str | None = None,
    pattern: str | None = None,
    spans: Sequence[tuple[int, int]] = (),
) -> ClientOperation[CommandResult]:
    """Redact a reply, the text of a turn, or both, for all readers but an audit.

    With a pattern of RE2, or parts by the code points where they begin and end, the rest of the
    text stays. A reply may repeat the words.
    """
    named = [{"begin": begin, "end": end} for begin, end in spans]
    body = {
        "turn": turn,
        "reason": reason,
        "replacement": replacement,
        "of": of,
        "pattern": pattern,
        "spans": named or None,
    }
    return build_command(format_path(api_paths.REDACTIONS, session=session), body, CommandResult)


def erase_words(
    session: str,
    reason: str,
    *,
    turn: int | None = None,
    of: ErasedPart = "turn",
    with_replies: bool = False,
    dry_run: bool = False,
) -> ClientOperation[ErasureReceipt]:
    """Erase all words of a sealed session, or something of one turn, for good.

    What was made of the words goes too, and `with_replies` also what came of turns that saw
    them. The receipt names it all. With `dry_run` nothing is erased.
    """
    body = {
        "turn": turn,
        "of": of,
        "with_replies": with_replies,
        "reason": reason,
        "dry_run": dry_run,
    }
    return build_command(format_path(api_paths.ERASURES, session=session), body, ErasureReceipt)


def list_erasures(session: str) -> ClientOperation[ErasureList]:
    """Return the receipts of all erasures of a session, after a checking pass."""
    return build_read(format_path(api_paths.ERASURES, session=session), ErasureList)


def read_erasure(session: str, sequence: int) -> ClientOperation[ErasureReceipt]:
    """Return the receipt of one erasure, after a checking pass."""
    path = format_path(api_paths.ERASURE, session=session, sequence=sequence)
    return build_read(path, ErasureReceipt)


def prove_erasure(
    session: str, sequence: int, *, with_keys: bool = False
) -> ClientOperation[ErasureProof]:
    """Return what can be shown of an erasure; `with_keys` with the keys that are left.

    They open what a bundle of these sessions has, and nothing of later turns.
    """
    path = format_path(api_paths.ERASURE_PROOF, session=session, sequence=sequence)
    return build_read(path, ErasureProof, {"with_keys": "true" if with_keys else None})


def fork_session(
    session: str, at: int, *, fork: str | None = None
) -> ClientOperation[ForkedSession]:
    """Fork a session at a sequence."""
    body = {"at": at, "session": fork}
    return build_command(format_path(api_paths.FORK, session=session), body, ForkedSession)


def fetch_state(session: str, *, at: int | None = None) -> ClientOperation[SessionView]:
    """Return the state of the session, now or at a sequence."""
    return build_read(format_path(api_paths.SESSION, session=session), SessionView, {"at": at})


def fetch_history(
    session: str, *, at: int | None = None, phase: str | None = None, reasoning: bool = False
) -> ClientOperation[HistoryView]:
    """Return the turns of the session, now or at a sequence, or those of a phase.

    With `reasoning` each has what the model reasoned before its reply.
    """
    path = format_path(api_paths.HISTORY, session=session)
    query = {"at": at, "phase": phase, "reasoning": "true" if reasoning else None}
    return build_read(path, HistoryView, query)


def fetch_tool_result(session: str, call: str, id: str) -> ClientOperation[ToolResultView]:
    """Return a tool use with its arguments and its whole result.

    An event `tool-returned` names both, as `call` and `id`.
    """
    path = format_path(api_paths.TOOL_RESULT, session=session, call=call, id=id)
    return build_read(path, ToolResultView)


def fetch_proof(
    session: str, call: str, sequence: int | None = None
) -> ClientOperation[CallProofView]:
    """Return the proof that a call is among the first events of its session, by default all."""
    path = format_path(api_paths.CALL_PROOF, session=session, call=call)
    return build_read(path, CallProofView, {"sequence": sequence})


def fetch_forecast(session: str) -> ClientOperation[ForecastView]:
    """Return when a prompt is next cut or summarised, by which rule, and how sure that is."""
    return build_read(format_path(api_paths.FORECAST, session=session), ForecastView)


def build_sign_in(key: str | None) -> dict[str, str]:
    """Return the headers by which a service knows the sender of requests; none without a key."""
    return {} if key is None else {"Authorization": f"Bearer {key}"}
