from __future__ import annotations

from io import StringIO

from rich.console import Console

from turnlog.events.model.attempt_figures import (
    AttemptCost,
    AttemptTimings,
    AttemptUsage,
    TokenUsage,
)
from turnlog.events.model.call_events import AttemptFault
from turnlog.projections.session.commands import EndAttempt
from turnlog.projections.session.turn_commands import RedactReply
from turnlog.projections.testing import (
    SessionScenario,
    build_exchange,
    claim_turn,
    complete_turn,
    get_attempt,
    given,
    open_session,
    submit_turn,
)
from turnlog.services.cli.terminal_replay import ReplayScene, ScenePlayer, build_scenes

LOST = AttemptUsage(
    usage=TokenUsage(known="unknown"),
    cost=AttemptCost(price="unknown", table="t"),
    timings=AttemptTimings(total=4_000),
)

FAULT = AttemptFault(code="disconnected", detail="mid-stream", retryable=True)


def list_scenes(session: SessionScenario) -> list[tuple[str, str]]:
    return [(scene.speaker, scene.text) for scene in build_scenes(session.events)]


def test_replay_shows_turns_and_replies_in_their_original_order() -> None:
    session = given(open_session(), *build_exchange("Hi", "Hello."), *build_exchange("And?", "So."))
    assert list_scenes(session)[1:] == [
        ("you", "Hi"),
        ("reply", "Hello."),
        ("you", "And?"),
        ("reply", "So."),
    ]


def test_replay_shows_partial_reply_of_a_failed_attempt_and_its_restart() -> None:
    session = given(open_session(), submit_turn("Hi"), claim_turn()).apply_steps(
        lambda state: EndAttempt(
            attempt=get_attempt(state),
            outcome="failed",
            spent=LOST,
            then="retry",
            fault=FAULT,
            partial="Hel",
        ),
        complete_turn("Hello."),
    )
    assert list_scenes(session)[2:] == [
        ("reply", "Hel"),
        ("note", "attempt 2 begins anew"),
        ("reply", "Hello."),
    ]


def test_replay_shows_a_redacted_reply_before_its_redaction() -> None:
    session = given(open_session(), *build_exchange("Hi", "Secret."))
    session = session.apply_steps(RedactReply(1, "asked for", "operator", "(Withheld.)"))
    assert list_scenes(session)[2:] == [
        ("reply", "Secret."),
        ("note", "the reply of turn 1 is withheld: (Withheld.)"),
    ]


def test_replay_keeps_recorded_reply_durations_and_pauses() -> None:
    session = given(open_session(), *build_exchange("Hi", "Hello."))
    opened, hi, hello = build_scenes(session.events)
    assert (opened.pause_seconds, hi.pause_seconds) == (0.0, 1.0)
    assert hello.duration_seconds == 0.01
    took = session.events[-1].envelope.time, session.events[1].envelope.time
    assert took[0] > took[1]
    assert 0 < hello.pause_seconds < 10


async def test_scene_player_waits_between_turns() -> None:
    console = Console(file=StringIO(), width=60)
    pages: list[int] = []

    async def turned() -> None:
        file = console.file
        assert isinstance(file, StringIO)
        pages.append(file.getvalue().count("you"))

    played = [
        ReplayScene(speaker="you", text=text, turn=turn)
        for turn, text in enumerate(("a", "b", "c"), 1)
    ]
    await ScenePlayer(console, 0.0, turned).play_scenes(played)
    assert pages == [1, 2]
