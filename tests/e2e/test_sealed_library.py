"""A sealed library: no file of the store has its words, and prompts with them reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.agent_programs.agent_service import answer_with_text
from tests.e2e.test_sealed_sessions import check_bundle, list_files_with, require_verified
from tests.support.processes.turnlog_up import TurnlogUp
from tests.support.servers.openai_server import OpenAIServer

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("a service starts"),
]

MARKER = "qvxlibrary"
"""What every text of the library has in it, and no text of a session."""

GAME = {"entry_point": "ep.quay", "world": "world.shoals", "ruleset": "ruleset.plain"}


async def send(up: TurnlogUp, method: str, path: str, body: object = None) -> dict[str, Any]:
    answer = await up.service.http.request(method, path, json=body)
    assert answer.is_success, answer.text
    return dict(answer.json())


async def put_entry(up: TurnlogUp, entry: str, words: str) -> dict[str, Any]:
    """Add an entry on the tide tables with these words in all of its texts, or edit it."""
    form = {
        "text": f"The tide table of the harbour is kept by {words}.",
        "title": f"The tide table {words}",
        "source": f"{words}.md",
        "tags": [words],
        "attributes": {words: words},
    }
    path = f"/v1/knowledge/collections/knowledge/entries/{entry}"
    return await send(up, "PUT", path, form)


async def set_override(up: TurnlogUp, user: str, words: str) -> dict[str, Any]:
    path = f"/v1/overrides/uderia/rag_focused_execution/{user}"
    return await send(up, "PUT", path, {"text": f"Answer as {words} would."})


async def ask(
    up: TurnlogUp, provider: OpenAIServer, session: str, text: str, user: str = ""
) -> str:
    """Run a turn and return the prompt that the model got."""
    provider.queue_behaviours(answer_with_text("The harbour master keeps it."))
    form = {"text": text, **({"user": user} if user else {})}
    done = await send(up, "POST", f"/v1/sessions/{session}/turns?wait=30", form)
    assert done["status"] == "completed", done
    return str(provider.exchanges[-1].body["messages"])


async def open_documented(up: TurnlogUp) -> str:
    form = {"blueprint": "uderia", "profile": "rag_focused"}
    return str((await send(up, "POST", "/v1/sessions", form))["session"])


async def add_segment(up: TurnlogUp, scope: str, ref: str | None, words: str) -> dict[str, Any]:
    form = {"scope": scope, "ref": ref, "content": f"A rule by {words}."}
    return await send(up, "POST", "/v1/segments", form)


async def open_game(up: TurnlogUp) -> str:
    """Open a game whose prompts have the segments of `core` and of one set of rules."""
    form = {"blueprint": "game-master", "attributes": GAME}
    return str((await send(up, "POST", "/v1/sessions", form))["session"])


async def test_words_of_a_sealed_library_are_in_no_file_of_the_store_and_prompts_reproduce(
    sealed_up: TurnlogUp, provider: OpenAIServer, tmp_path: Path
) -> None:
    up, data = sealed_up, sealed_up.ready_file.parent
    await put_entry(up, "tides", f"{MARKER}first")
    await put_entry(up, "tides", f"{MARKER}entry")
    await set_override(up, "ann", f"{MARKER}override")
    asked = await open_documented(up)
    prompt = await ask(up, provider, asked, "Who keeps the tide table of the harbour?", "ann")
    assert prompt.count(f"{MARKER}entry") == 2
    assert f"{MARKER}override" in prompt

    await add_segment(up, "core", None, f"{MARKER}core")
    await add_segment(up, "ruleset", GAME["ruleset"], f"{MARKER}rule")
    played = await open_game(up)
    prompt = await ask(up, provider, played, "I look around.")
    assert f"{MARKER}core" in prompt
    assert f"{MARKER}rule" in prompt

    for session in (asked, played):
        await require_verified(up, session)
        exported = await up.service.http.get(f"/v1/sessions/{session}/export?format=bundle")
        check_bundle(exported.content, tmp_path / session, session)
    assert list(list_files_with(data / "jetstream", MARKER.encode())) == []
