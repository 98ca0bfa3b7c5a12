from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from tests.parts.turnlog_up import turnlog_up
from tests.services.cli.conftest import Turnlog
from turnlog.events.codec import Draft, write
from turnlog.events.content import Plain, digest_of
from turnlog.events.kinds import KnownEvent
from turnlog.events.log.outcomes import Appended
from turnlog.events.nats.connection import connected
from turnlog.events.nats.jetstream_log import JetStreamLog
from turnlog.events.turn import TurnCompleted, TurnExcluded

ANSWER = TurnCompleted(turn=1, call="1.1", text=Plain(text="Another answer."), finish="stop")


@dataclass(frozen=True)
class Tampered:
    data_dir: Path
    unchained: str
    answered_twice: str


async def append(nats: str, session: str, event: KnownEvent, *, chained: bool) -> None:
    """Write past every rule, as somebody with the server's password could."""
    async with connected(nats, name="tamperer") as connection:
        log = JetStreamLog(connection)
        last = await log.last("default", session, leader=True)
        assert last is not None
        head = last.head if chained else replace(last.head, hash=digest_of("something else"))
        draft = Draft(event, f"id-{session}", datetime.now(UTC), "/tamperer", "nobody")
        assert isinstance(await log.append(write("default", session, head, [draft])), Appended)


@pytest.fixture(scope="module")
def tampered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tampered]:
    data_dir = tmp_path_factory.mktemp("tampered") / "data"
    with turnlog_up(data_dir) as up, httpx.Client(base_url=up.http, timeout=100) as client:
        nats = json.loads((data_dir / "ready.json").read_bytes())["nats"]
        for session in ("sound", "unchained", "answered-twice"):
            asked = {"blueprint": "assistant", "session": session}
            client.post("/v1/sessions", json=asked).raise_for_status()
            turn = {"text": "Hello!"}
            client.post(f"/v1/sessions/{session}/turns?wait=90", json=turn).raise_for_status()
        asyncio.run(append(nats, "unchained", TurnExcluded(turn=1), chained=False))
        asyncio.run(append(nats, "answered-twice", ANSWER, chained=True))
        yield Tampered(data_dir, "unchained", "answered-twice")


def test_a_broken_chain_is_exit_code_five_and_names_the_first_bad_event(
    turnlog: Turnlog, tampered: Tampered
) -> None:
    ran = turnlog("verify", tampered.unchained, "--data-dir", tampered.data_dir)
    assert ran.code == 5
    assert "event 9 of session unchained: does not continue event 8" in ran.out
    assert "✓" not in ran.out, "what could not be looked at is not called good"
    assert "not verified: 1 finding" in ran.out


def test_a_second_answer_is_found(turnlog: Turnlog, tampered: Tampered) -> None:
    ran = turnlog("verify", tampered.answered_twice, "--data-dir", tampered.data_dir)
    assert ran.code == 5
    assert "answered-twice, event 9: turn 1 was settled before, by event 8" in ran.out


def test_all_sessions_are_verified_and_the_sound_ones_are_not_blamed(
    turnlog: Turnlog, tampered: Tampered
) -> None:
    ran = turnlog("verify", "-o", "json", "--data-dir", tampered.data_dir)
    assert ran.code == 5
    verdicts = {each["session"]: each["verified"] for each in ran.json["sessions"]}
    assert verdicts == {"sound": True, "unchained": False, "answered-twice": False}
    assert ran.json["verified"] is False


def test_a_session_that_was_tampered_with_is_verified_even_when_nobody_serves_it(
    turnlog: Turnlog, tampered: Tampered
) -> None:
    """The read models have set it aside, and the log is asked all the same."""
    listed = turnlog("sessions", "-o", "json", "--data-dir", tampered.data_dir).json["sessions"]
    assert {each["session"]: each["sequence"] for each in listed}["unchained"] == 8


def test_a_page_of_sessions_says_how_to_see_more(turnlog: Turnlog, tampered: Tampered) -> None:
    here = ("--data-dir", tampered.data_dir, "--limit", "2")
    page = turnlog("sessions", *here).out
    assert page.index("answered-twice") < page.index("unchained")
    assert "sound" not in page
    older = page.partition("older ones: ")[2].split()
    assert "sound" in turnlog("sessions", *here, *older).out


def test_read_models_are_rebuilt_beside_the_service_that_reads_them(
    turnlog: Turnlog, tampered: Tampered
) -> None:
    listed = ("sessions", "-o", "json", "--data-dir", tampered.data_dir)
    before = turnlog(*listed).json
    ran = turnlog("rebuild", "--data-dir", tampered.data_dir)
    assert (ran.code, ran.out) == (0, "rebuilt up to stream sequence 26\n")
    assert "session=unchained" in ran.err, "what is set aside is said, and not among the answers"
    assert turnlog(*listed).json == before
