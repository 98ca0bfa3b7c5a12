"""Memory commands of the command line."""

from __future__ import annotations

import httpx
import pytest

from tests.services.cli.conftest import RecordedSession, RunCommand

ASKED = {"client_id": "cli", "conversation_id": "c", "nickname": "Ada"}

RISK = "How risky is LOGT11?"


@pytest.fixture(scope="module")
def session(played: RecordedSession) -> str:
    """The session of a conversation with one question."""
    with httpx.Client(base_url=played.up.http, timeout=100) as client:
        client.post("/v1/ask", json={**ASKED, "question": RISK}).raise_for_status()
        key = {name: ASKED[name] for name in ("client_id", "conversation_id")}
        found = client.post("/v1/sessions", json={"blueprint": "araquem", "key": key})
        return str(found.raise_for_status().json()["session"])


def test_memory_command_shows_what_the_next_prompt_would_include(
    turnlog: RunCommand, played: RecordedSession, session: str
) -> None:
    assert RISK in turnlog("memory", session, *played.here).out
    memory = turnlog("memory", session, "--reader", "narrator", "--entity", "shares", *played.here)
    assert memory.out.strip() == "nothing would be told"
    known = turnlog("memory", session, "-o", "json", *played.here).json
    assert [message["role"] for message in known["messages"]] == ["user", "assistant"]


def test_references_command_shows_last_reference_and_what_a_turn_would_inherit(
    turnlog: RunCommand, played: RecordedSession, session: str
) -> None:
    assert "LOGT11" in turnlog("references", session, *played.here).out
    options = ("--intent", "fiis_precos", "--entity", "fiis")
    assert "inherited" in turnlog("references", session, *options, *played.here).out
    own = turnlog(
        "references", session, *options, "-i", "ticker=SHOP11", "-o", "json", *played.here
    )
    assert (own.json["identifiers"], own.json["reason"]) == ({"ticker": "SHOP11"}, "in-text")
    assert turnlog("references", session, *options, "-i", "SHOP11", *played.here).code == 2


def test_memory_command_shows_everything_without_a_memory_policy(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    assert "Hello!" in turnlog("memory", played.session, *played.here).out
    references = turnlog("references", played.session, *played.here)
    assert references.out.strip() == "nothing was spoken of yet"
