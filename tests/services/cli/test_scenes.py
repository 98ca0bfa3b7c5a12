from __future__ import annotations

from io import StringIO

from rich.console import Console

from turnlog.events.call import Cost, Fault, Timings, Usage
from turnlog.projections.session.commands import EndAttempt, RedactReply, Spent
from turnlog.projections.testing import (
    Given,
    answering,
    attempt_of,
    claiming,
    exchange,
    given,
    opening,
    saying,
)
from turnlog.services.cli.replay.player import Player
from turnlog.services.cli.replay.scenes import Scene, scenes

LOST = Spent(Usage(known="unknown"), Cost(price="unknown", table="t"), Timings(total=4_000))
FAULT = Fault(code="disconnected", detail="mid-stream", retryable=True)


def shown(session: Given) -> list[tuple[str, str]]:
    return [(scene.who, scene.text) for scene in scenes(session.events)]


def test_turns_and_replies_come_in_the_order_they_were_seen() -> None:
    session = given(opening(), *exchange("Hi", "Hello."), *exchange("And?", "So."))
    assert shown(session)[1:] == [
        ("you", "Hi"),
        ("reply", "Hello."),
        ("you", "And?"),
        ("reply", "So."),
    ]


def test_what_an_attempt_had_said_before_it_was_lost_is_shown_and_taken_back() -> None:
    session = given(opening(), saying("Hi"), claiming()).later(
        lambda state: EndAttempt(attempt_of(state), "failed", LOST, "retry", FAULT, "Hel"),
        answering("Hello."),
    )
    assert shown(session)[2:] == [
        ("reply", "Hel"),
        ("note", "attempt 2 begins anew"),
        ("reply", "Hello."),
    ]


def test_a_withheld_reply_is_seen_before_it_is_withheld() -> None:
    session = given(opening(), *exchange("Hi", "Secret."))
    session = session.later(RedactReply(1, "asked for", "operator", "(Withheld.)"))
    assert shown(session)[2:] == [
        ("reply", "Secret."),
        ("note", "the reply of turn 1 is withheld: (Withheld.)"),
    ]


def test_a_reply_lasts_as_long_as_it_took_and_pauses_make_up_the_rest() -> None:
    session = given(opening(), *exchange("Hi", "Hello."))
    opened, hi, hello = scenes(session.events)
    assert (opened.pause, hi.pause) == (0.0, 1.0)
    assert hello.lasts == 0.01
    took = session.events[-1].envelope.time, session.events[1].envelope.time
    assert took[0] > took[1]
    assert 0 < hello.pause < 10


async def test_a_player_steps_from_turn_to_turn() -> None:
    console = Console(file=StringIO(), width=60)
    pages: list[int] = []

    async def turned() -> None:
        file = console.file
        assert isinstance(file, StringIO)
        pages.append(file.getvalue().count("you"))

    played = [Scene("you", text, turn=turn) for turn, text in enumerate(("a", "b", "c"), 1)]
    await Player(console, 0.0, turned).play(played)
    assert pages == [1, 2]
