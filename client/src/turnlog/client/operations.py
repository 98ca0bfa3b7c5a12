"""The requests of a client as values, and the rule when one is sent again.

Both clients build their requests here. A command carries an idempotency key from the start, so
sending it again after a lost answer has one effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote
from uuid import uuid4

import httpx
from pydantic import BaseModel

from turnlog.client.answers import (
    CommandAnswer,
    ExclusionPreviewAnswer,
    HistoryAnswer,
    SessionAnswer,
    SessionListAnswer,
    SubmitAnswer,
    ToolResultAnswer,
    TurnAnswer,
    UnsettledAnswer,
)

AnswerT = TypeVar("AnswerT", bound=BaseModel)

MAX_TRIES: Final = 8
"""How often one request is sent before its error is raised."""

MAX_DELAY: Final = 10.0
"""Seconds to wait before another try, at most."""

MAX_RETRY_AFTER: Final = 60.0
"""Seconds after which the service may want a request again; a later one is the caller's."""

MAX_WAIT: Final = 300.0
"""Seconds that the service waits for a reply within one request, at most."""

REQUEST_TIMEOUT: Final = httpx.Timeout(30.0, read=MAX_WAIT + 30.0)
"""A read may take as long as the longest wait, and some more."""

STREAM_TIMEOUT: Final = httpx.Timeout(30.0, read=60.0)
"""The service sends a comment every few seconds, so a stream without a byte for long is lost."""

LASTING_STREAM: Final = 10.0
"""Seconds after which a stream has worked, though nothing happened on it."""

_BASE_DELAY: Final = 0.2

SETTLED_STATUS: Final = 200
"""The status of a submit whose turn is settled; with 202 the turn goes on."""

_RETRIED_STATUS: Final = frozenset({429, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class ClientOperation(Generic[AnswerT]):
    """One request, and the class of its answer."""

    method: str
    path: str
    answer: type[AnswerT]
    _: KW_ONLY
    body: Mapping[str, Any] | None = None
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def build_request(self, http: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """Return the request, the same for each try."""
        return http.build_request(
            self.method, self.path, json=self.body, params=self.query, headers=self.headers
        )

    def parse_answer(self, response: httpx.Response) -> AnswerT:
        """Return the answer of a successful response, without fields that a later release adds."""
        return self.answer.model_validate_json(response.content, extra="ignore")


def compute_retry_delay(tries: int, response: httpx.Response | None) -> float | None:
    """Return the seconds until a request is sent again; None if it is not sent again.

    `tries` counts the requests sent so far; `response` is None where none came. The service says
    itself how long to wait (`Retry-After`); where that is long, as it is for a quota that is used
    up, the refusal stands.
    """
    if tries >= MAX_TRIES or (response is not None and response.status_code not in _RETRIED_STATUS):
        return None
    asked = response.headers.get("Retry-After", "") if response is not None else ""
    delay = float(asked) if asked.isdecimal() else _BASE_DELAY * 2.0 ** (tries - 1)
    return min(delay, MAX_DELAY) if delay <= MAX_RETRY_AFTER else None


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
        query=_format_query(query),
        headers=headers,
    )


def build_read(
    path: str, answer: type[AnswerT], query: Mapping[str, object] = {}
) -> ClientOperation[AnswerT]:
    """Return a read; parameters that are None are left out."""
    return ClientOperation(method="GET", path=path, answer=answer, query=_format_query(query))


def _format_query(query: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in query.items() if value is not None}


def format_session_path(session: str) -> str:
    """Return the path of a session."""
    return f"/v1/sessions/{quote(session, safe='')}"


def format_events_path(session: str | None, types: Sequence[str]) -> str:
    """Return the path of the events of a session or of all, of these types if there are any."""
    path = "/v1" if session is None else format_session_path(session)
    query = f"?types={quote(','.join(types), safe=',')}" if types else ""
    return f"{path}/events{query}"


def format_stream_path(session: str, turn: int) -> str:
    """Return the path of a turn's stream."""
    return f"{format_session_path(session)}/turns/{turn}/stream"


def open_session(
    blueprint: str,
    attributes: Mapping[str, Any] | None,
    session: str | None,
    profile: str | None,
) -> ClientOperation[CommandAnswer]:
    """Open a session."""
    body = {
        "blueprint": blueprint,
        "attributes": attributes,
        "session": session,
        "profile": profile,
    }
    return build_command("/v1/sessions", body, CommandAnswer)


def list_sessions(
    filters: Mapping[str, str | bool | None], attributes: Mapping[str, str]
) -> ClientOperation[SessionListAnswer]:
    """List sessions, newest first."""
    query = {**filters, **{f"attribute.{name}": value for name, value in attributes.items()}}
    return build_read("/v1/sessions", SessionListAnswer, query)


def submit_turn(
    session: str,
    text: str | None,
    inputs: Mapping[str, Any] | None,
    meta: Mapping[str, Any] | None,
    user: str | None,
) -> ClientOperation[SubmitAnswer]:
    """Submit a turn."""
    body = {"text": text, "inputs": inputs, "meta": meta, "user": user}
    return build_command(f"{format_session_path(session)}/turns", body, SubmitAnswer)


def wait_for_turn(
    submitted: ClientOperation[SubmitAnswer], seconds: float
) -> ClientOperation[TurnAnswer]:
    """Submit the same turn, or find the one already submitted, and wait until it is settled.

    The answer is only a `TurnAnswer` where the status is 200; with 202 the turn goes on.
    """
    return ClientOperation(
        method=submitted.method,
        path=submitted.path,
        answer=TurnAnswer,
        body=submitted.body,
        query={"wait": f"{min(max(seconds, 0.001), MAX_WAIT):.3f}"},
        headers=submitted.headers,
    )


def parse_unsettled(response: httpx.Response) -> UnsettledAnswer:
    """Return what a response with 202 says of a turn that goes on."""
    return UnsettledAnswer.model_validate_json(response.content)


def cancel_turn(session: str, turn: int | None) -> ClientOperation[CommandAnswer]:
    """Cancel the open turn, or a queued one."""
    return build_command(f"{format_session_path(session)}/cancel", {"turn": turn}, CommandAnswer)


def decide_approval(
    session: str, turn: int, approval: int, decision: str, reason: str
) -> ClientOperation[CommandAnswer]:
    """Approve or refuse a tool that waits for it."""
    path = f"{format_session_path(session)}/turns/{turn}/approvals/{approval}"
    return build_command(path, {"decision": decision, "reason": reason}, CommandAnswer)


def record_feedback(
    session: str, turn: int, vote: str, comment: str | None
) -> ClientOperation[CommandAnswer]:
    """Judge the reply of a turn."""
    path = f"{format_session_path(session)}/turns/{turn}/feedback"
    return build_command(path, {"vote": vote, "comment": comment}, CommandAnswer)


def close_session(session: str, reason: str | None) -> ClientOperation[CommandAnswer]:
    """Close a session."""
    return build_command(f"{format_session_path(session)}/close", {"reason": reason}, CommandAnswer)


def enter_phase(session: str, to: str, carry: str | None) -> ClientOperation[CommandAnswer]:
    """Move a session to a phase."""
    body = {"to": to, "carry": carry}
    return build_command(f"{format_session_path(session)}/phase", body, CommandAnswer)


def record_choice(session: str, choice: str) -> ClientOperation[CommandAnswer]:
    """Make a choice that the current phase offers."""
    path = f"{format_session_path(session)}/choices"
    return build_command(path, {"choice": choice}, CommandAnswer)


def switch_profile(
    session: str, profile: str | None, model: str | None
) -> ClientOperation[CommandAnswer]:
    """Switch a session to another profile or model."""
    body = {"profile": profile, "model": model}
    return build_command(f"{format_session_path(session)}/profile", body, CommandAnswer)


def exclude_turn(session: str, turn: int, *, excluded: bool) -> ClientOperation[CommandAnswer]:
    """Exclude a turn from later windows, or include it again."""
    path = _format_exclusion_path(session, turn)
    return build_command(path, None, CommandAnswer, "PUT" if excluded else "DELETE")


def preview_exclusion(session: str, turn: int) -> ClientOperation[ExclusionPreviewAnswer]:
    """Fetch what excluding a turn would undo."""
    return build_read(_format_exclusion_path(session, turn), ExclusionPreviewAnswer)


def _format_exclusion_path(session: str, turn: int) -> str:
    return f"{format_session_path(session)}/turns/{turn}/exclusion"


def redact_reply(
    session: str, turn: int, reason: str, replacement: str | None
) -> ClientOperation[CommandAnswer]:
    """Redact the reply of a turn."""
    body = {"turn": turn, "reason": reason, "replacement": replacement}
    return build_command(f"{format_session_path(session)}/redactions", body, CommandAnswer)


def fork_session(session: str, at: int, fork: str | None) -> ClientOperation[CommandAnswer]:
    """Fork a session at a sequence."""
    body = {"at": at, "session": fork}
    return build_command(f"{format_session_path(session)}/fork", body, CommandAnswer)


def fetch_state(session: str, at: int | None) -> ClientOperation[SessionAnswer]:
    """Fetch the state of a session, now or at a sequence."""
    return build_read(format_session_path(session), SessionAnswer, {"at": at})


def fetch_history(session: str, at: int | None) -> ClientOperation[HistoryAnswer]:
    """Fetch the turns of a session, now or at a sequence."""
    return build_read(f"{format_session_path(session)}/history", HistoryAnswer, {"at": at})


def fetch_tool_result(session: str, call: str, id: str) -> ClientOperation[ToolResultAnswer]:
    """Fetch a tool use with its whole result."""
    place = f"calls/{quote(call, safe='')}/tools/{quote(id, safe='')}"
    return build_read(f"{format_session_path(session)}/{place}", ToolResultAnswer)
