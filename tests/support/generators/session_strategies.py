"""Random sessions: what clients and workers may request, in any order.

A request that a rule refuses, or that makes no sense in the current state, is skipped. So every
list of requests is a session, and shrinking the list leaves a session.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, get_args

from hypothesis import settings
from hypothesis import strategies as st

from tests.faults.suite_extent import choose_examples
from turnlog.events.errors import Refused
from turnlog.events.model.redaction_events import RedactedSpan
from turnlog.projections.blueprint.schema.policy_specs import CutTurnPolicy, Policies
from turnlog.projections.session.commands import (
    AttemptRef,
    CancelTurn,
    ClaimTurn,
    CloseSession,
    Command,
    CompleteTurn,
    EndAttempt,
    ExcludeTurn,
    RestoreTurn,
    SubmitTurn,
)
from turnlog.projections.session.open_turn import CutReply
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.turn_commands import RedactReply, RedactText
from turnlog.projections.testing import (
    SAMPLE_SPENT,
    KeyedCommand,
    SessionScenario,
    get_attempt,
    given,
    open_session,
)

fewer_examples = settings(max_examples=choose_examples(25))
"""A random session is many random requests, so fewer examples show as much."""

RequestKind = Literal[
    "talk", "submit", "interrupt", "claim", "answer", "retry", "hand back", "fail", "late answer",
    "cancel", "cancel one", "exclude", "restore", "redact", "redact text",
    "close", "system",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """A request to a session; `number` is reduced to a turn that exists."""

    what: RequestKind
    text: str = ""
    number: int = 0


SAMPLE_TEXTS = [
    "", "a", "ok", "Hi", "Hello there", "What is this?\n\nAnd that?", '{"a": 1}', "{language}",
    "žąsis 😀", "x" * 7, "y" * 40, "z" * 150,
]  # fmt: skip

TALK_STEPS: list[RequestKind] = ["submit", "claim", "answer"]

FREQUENT_KINDS: list[RequestKind] = ["talk", "talk", "talk", *TALK_STEPS, "exclude"]

RARE_KINDS: list[RequestKind] = [
    "interrupt", "retry", "hand back", "fail", "late answer", "cancel", "cancel one", "restore",
    "redact", "redact text", "system",
]  # fmt: skip


def draw_requests(
    *, closing: bool = False, most: int = 30
) -> st.SearchStrategy[list[SessionRequest]]:
    """Draw requests to a session, mostly conversation."""
    closes: list[RequestKind] = ["close"] if closing else []
    kinds = [*FREQUENT_KINDS * 4, *RARE_KINDS * 2, *closes]
    requests = st.builds(
        SessionRequest, st.sampled_from(kinds), st.sampled_from(SAMPLE_TEXTS), st.integers(0, 50)
    )
    # Without a minimum length most sessions would end before anything happens in them.
    return st.lists(requests, min_size=most // 3, max_size=most)


def run_requests(requests: Iterable[SessionRequest], *, reach: int = 0) -> SessionScenario:
    """Open a session and ask all of it."""
    return continue_session(given(open_session(reach=reach)), requests)


def continue_session(
    session: SessionScenario, requests: Iterable[SessionRequest]
) -> SessionScenario:
    """Go on with a session."""
    for request in requests:
        session = apply_request(session, request)
    return session


def apply_request(session: SessionScenario, request: SessionRequest) -> SessionScenario:
    """Ask one more thing."""
    if request.what == "talk":
        for what in TALK_STEPS:
            session = apply_request(session, replace(request, what=what))
        return session
    command = _build_command(session.opened_state, request)
    if command is None:
        return session
    try:
        return session.apply_steps(
            KeyedCommand(command, f"key-{len(session.events)}", request.text)
        )
    except Refused:
        return session


def _build_command(state: SessionState, request: SessionRequest) -> Command | None:
    turn = 1 + request.number % max(1, state.submitted)
    match request.what:
        case "submit":
            return SubmitTurn(text=request.text, policies=Policies())
        case "interrupt":
            policies, cut = Policies(second_submit="interrupt"), _build_cut_reply(request)
            return SubmitTurn(text=request.text, policies=policies, cut=cut)
        case "system":
            return SubmitTurn(text=request.text, policies=Policies(), role="system")
        case "cancel":
            return CancelTurn(cut=_build_cut_reply(request))
        case "cancel one":
            return CancelTurn(turn, _build_cut_reply(request))
        case "exclude":
            return ExcludeTurn(turn)
        case "restore":
            return RestoreTurn(turn)
        case "redact":
            return RedactReply(turn, "because", "operator", request.text or "(Withheld.)")
        case "redact text":
            is_partial = request.number % 2 == 1
            return RedactText(
                turn=turn,
                reason="because",
                rule="operator",
                replacement=request.text,
                spans=(RedactedSpan(begin=0, end=1),) if is_partial else (),
            )
        case "close":
            return CloseSession("done", _build_cut_reply(request))
        case "late answer":
            return CompleteTurn(
                attempt=AttemptRef(turn, f"{turn}.1", 0),
                text=request.text,
                finish="stop",
                spent=SAMPLE_SPENT,
            )
        case _:
            return _build_worker_command(state, request) if state.open else None


def _build_cut_reply(request: SessionRequest) -> CutReply:
    return CutReply(_choose_policy(request), request.text)


def _choose_policy(request: SessionRequest) -> CutTurnPolicy:
    policies: tuple[CutTurnPolicy, ...] = get_args(CutTurnPolicy)
    return policies[request.number % len(policies)]


def _build_worker_command(state: SessionState, request: SessionRequest) -> Command:
    attempt = get_attempt(state)
    match request.what:
        case "claim":
            return ClaimTurn(attempt.turn, "w1", Policies())
        case "answer":
            return CompleteTurn(
                attempt=attempt, text=request.text, finish="stop", spent=SAMPLE_SPENT
            )
        case "retry" | "fail":
            return EndAttempt(
                attempt=attempt,
                outcome="failed",
                spent=SAMPLE_SPENT,
                then=request.what,
                partial=request.text,
                failed_policy=_choose_policy(request),
            )
        case "hand back":
            return EndAttempt(
                attempt=attempt,
                outcome="cancelled",
                spent=SAMPLE_SPENT,
                then="release",
                partial=request.text,
            )
        case _:
            raise AssertionError(request.what)
