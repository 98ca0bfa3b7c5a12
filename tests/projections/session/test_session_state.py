from __future__ import annotations

from datetime import timedelta

import pytest

from turnlog.events.codec import format_rfc3339
from turnlog.events.content import PlainText, compute_digest
from turnlog.events.model.override_events import UserOverride
from turnlog.events.model.prompt_events import PromptFile, PromptsSnapshotted
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.session.commands import (
    CancelTurn,
    CloseSession,
    EndAttempt,
    ExcludeTurn,
    RestoreTurn,
    SubmitTurn,
)
from turnlog.projections.session.fold.settled_turns import find_settled_turn
from turnlog.projections.session.open_turn import (
    EndedAttempt,
    OpenTurn,
    RunningAttempt,
    TurnSubmission,
)
from turnlog.projections.session.state import SettledTurnRef, SettledTurnRun
from turnlog.projections.session.text_refs import TextRef
from turnlog.projections.session.turn_commands import RedactReply
from turnlog.projections.testing import (
    SAMPLE_SPENT,
    START,
    SessionScenario,
    build_exchange,
    claim_turn,
    complete_turn,
    get_attempt,
    get_open_turn,
    given,
    open_session,
    submit_turn,
)

TALKED = given(open_session(), *build_exchange("Hi", "Hello"))

REDACT = RedactReply(1, "a secret", "operator", "(Withheld.)")


def build_text_ref(sequence: int, field: str, text: str) -> TextRef:
    at = format_rfc3339(START + timedelta(seconds=sequence - 1))
    return TextRef(
        sequence=sequence,
        place=1_000 + sequence,
        field=field,
        digest=compute_digest(text),
        characters=len(text),
        at=at,
    )


def get_single_turn(session: SessionScenario) -> SettledTurnRef:
    (ref,) = session.opened_state.turns
    return ref


def test_session_has_no_state_before_it_is_opened() -> None:
    assert SessionScenario().state is None
    assert (
        SessionScenario().append_events(*given(open_session()).when(submit_turn("Hi")).events).state
        is None
    )


def test_state_of_an_opened_session_has_its_profile_attributes_and_reach() -> None:
    state = given(open_session(reach=7, language="French")).opened_state
    assert (state.tenant, state.session) == ("acme", "s1")
    assert (state.attributes, state.reach, state.profile) == ({"language": "French"}, 7, "chat")
    assert state.opened == state.head


def test_head_of_the_state_is_the_last_event() -> None:
    assert TALKED.opened_state.head == TALKED.events[-1].head


def test_submitted_turn_is_open_from_its_submission() -> None:
    session = given(open_session(), submit_turn("Hi"))
    submission = TurnSubmission(
        turn=1,
        text=build_text_ref(2, "text", "Hi"),
        event="00000000-0000-4000-8000-000000000002",
    )
    opened = get_open_turn(session.opened_state)
    assert opened == OpenTurn(submission=submission, released_at="2026-01-01T00:00:01.000000Z")
    assert session.opened_state.submitted == 1


def test_queued_turn_keeps_its_user_overrides_from_submission_to_release() -> None:
    own = UserOverride(category="master_system", version=2, digest=compute_digest("Ann's own."))
    asked = SubmitTurn(text="Two", policies=Policies(), user="ann", overrides=(own,))
    session = given(open_session(), submit_turn("One"), asked)
    assert session.state is not None
    assert session.state.waiting[0].overrides == (own,)
    released = session.apply_steps(CancelTurn()).opened_state.open
    assert released is not None
    submission = released.submission
    assert (submission.turn, submission.user, submission.overrides) == (2, "ann", (own,))


def test_released_turn_equals_the_queued_one_and_is_open_from_its_release() -> None:
    session = given(open_session(), submit_turn("One"), submit_turn("Two"), CancelTurn())
    opened = get_open_turn(session.opened_state)
    assert (opened.turn, opened.submission.text) == (2, build_text_ref(3, "text", "Two"))
    assert opened.submission.event == "00000000-0000-4000-8000-000000000003"
    assert opened.released_at == session.events[-1].envelope.time
    assert session.opened_state.waiting == ()


def test_settled_turn_references_its_texts_without_copying_them() -> None:
    assert get_single_turn(TALKED) == SettledTurnRef(
        turn=1,
        status="completed",
        text=build_text_ref(2, "text", "Hi"),
        reply=build_text_ref(4, "text", "Hello"),
        request="00000000-0000-4000-8000-000000000002",
    )
    assert TALKED.opened_state.completed == 1
    assert "Hello" not in repr(TALKED.opened_state)


def test_redacted_turn_references_the_replacement_as_its_reply() -> None:
    session = TALKED.apply_steps(REDACT)
    assert get_single_turn(session).reply == build_text_ref(5, "replacement", "(Withheld.)")
    assert get_single_turn(session).redacted


def test_redaction_of_a_streamed_reply_completes_the_turn() -> None:
    withheld = ReplyRedacted(
        turn=1, reason="r", rule="pattern", replacement=PlainText(text="(Withheld.)")
    )
    session = given(open_session(), submit_turn("Hi"), claim_turn(), withheld)
    assert session.opened_state.open is None
    assert get_single_turn(session) == SettledTurnRef(
        turn=1,
        status="completed",
        text=build_text_ref(2, "text", "Hi"),
        reply=build_text_ref(4, "replacement", "(Withheld.)"),
        redacted=True,
        request="00000000-0000-4000-8000-000000000002",
    )


def test_restoring_an_excluded_turn_leaves_it_unchanged() -> None:
    assert get_single_turn(TALKED.apply_steps(ExcludeTurn(1))).excluded
    assert get_single_turn(TALKED.apply_steps(ExcludeTurn(1), RestoreTurn(1))) == get_single_turn(
        TALKED
    )


@pytest.mark.parametrize("steps", [1, 2])
def test_an_attempt_runs_until_it_ends(steps: int) -> None:
    session = given(open_session(), submit_turn("Hi"), claim_turn("w1"), claim_turn("w2"))
    opened = get_open_turn(session.opened_state)
    assert opened.lease == RunningAttempt(2, "w2")
    handing_back = EndAttempt(
        attempt=get_attempt(session.opened_state),
        outcome="cancelled",
        spent=SAMPLE_SPENT,
        then="release",
    )
    ended = get_open_turn(session.apply_steps(*[handing_back] * steps).opened_state)
    assert ended.lease == EndedAttempt(RunningAttempt(2, "w2"))


def test_the_end_of_an_earlier_attempt_does_not_end_the_latest() -> None:
    first = given(open_session(), submit_turn("Hi"), claim_turn("w1"))
    late = EndAttempt(
        attempt=get_attempt(first.opened_state),
        outcome="cancelled",
        spent=SAMPLE_SPENT,
        then="release",
    )
    assert get_open_turn(first.apply_steps(claim_turn("w2"), late).opened_state).is_running


def test_pinned_prompt_files_are_stored_by_provider() -> None:
    file = PromptFile(digest=compute_digest("Be kind."), path="persona.md")
    session = given(
        open_session(),
        PromptsSnapshotted(provider="openai", layers={"persona": file}),
        PromptsSnapshotted(provider="gemini", layers={}),
    )
    assert session.opened_state.prompts == {"openai": {"persona": file}, "gemini": {}}


def test_closed_session_has_no_open_and_no_queued_turns() -> None:
    state = given(
        open_session(), submit_turn("One"), submit_turn("Two"), CloseSession("done")
    ).opened_state
    assert (state.closed, state.open, state.waiting) == (True, None, ())
    assert [ref.status for ref in state.turns] == ["cancelled", "cancelled"]


def test_turns_beyond_the_reach_of_any_window_are_stored_as_runs() -> None:
    session = given(
        open_session(reach=2), *(step for _ in range(4) for step in build_exchange("a", "b"))
    )
    assert session.opened_state.earlier == (
        SettledTurnRun(first=1, last=3, status="completed", excluded=False, redacted=False),
    )
    assert [ref.turn for ref in session.opened_state.turns] == [4]


def test_run_is_split_at_an_excluded_turn_and_merged_when_it_is_restored() -> None:
    session = given(
        open_session(reach=2), *(step for _ in range(4) for step in build_exchange("a", "b"))
    )
    excluded = session.apply_steps(ExcludeTurn(2))
    assert [(run.first, run.last, run.excluded) for run in excluded.opened_state.earlier] == [
        (1, 1, False),
        (2, 2, True),
        (3, 3, False),
    ]
    assert excluded.apply_steps(RestoreTurn(2)).opened_state.earlier == session.opened_state.earlier


def test_open_turn_can_be_answered_after_a_later_one_is_cancelled() -> None:
    session = given(
        open_session(), submit_turn("One"), submit_turn("Two"), CancelTurn(2), claim_turn()
    )
    answered = session.apply_steps(complete_turn("Hello"))
    assert [(ref.turn, ref.status) for ref in answered.opened_state.turns] == [
        (1, "completed"),
        (2, "cancelled"),
    ]


def test_run_never_includes_an_unsettled_turn() -> None:
    answered = [
        TurnCompleted(turn=turn, call=f"{turn}.1", text=PlainText(text="Hello"), finish="stop")
        for turn in (1, 3, 5)
    ]
    state = given(open_session(reach=1), *answered).opened_state
    assert [(run.first, run.last) for run in state.earlier] == [(1, 1), (3, 3)]
    assert find_settled_turn(state, 2) is None
