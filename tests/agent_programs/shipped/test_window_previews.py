"""A preview of a turn of the shipped agent platform names all calls of the turn, and shows any."""

from __future__ import annotations

import pytest
from rich.console import Console

from tests.agent_programs.agent_service import AgentService
from turnlog.services.api.prompt_payloads import WindowView
from turnlog.services.cli.views.prompt_view import render_window

pytestmark = pytest.mark.asyncio(loop_scope="module")


def render_text(window: object) -> str:
    console = Console(width=120, no_color=True)
    with console.capture() as captured:
        console.print(render_window(WindowView.model_validate(window)))
    return captured.get()


async def test_preview_lists_every_call_of_the_turn_and_shows_the_requested_one(
    platform: AgentService,
) -> None:
    session = await platform.open_shipped_session("uderia", profile="tool_enabled")

    async def preview(**form: object) -> object:
        path = f"/v1/sessions/{session}/window"
        answer = await platform.http.post(path, json={"text": "Which ship was late?", **form})
        assert answer.status_code == 200, answer.text
        return answer.json()

    first, last = await preview(), await preview(call="synthesise")
    for window, call in ((first, "plan"), (last, "synthesise")):
        assert isinstance(window, dict)
        assert window["call"] == call
        assert window["turn_calls"] == ["plan", "tactic", "synthesise"]
    assert "a turn may also make tactic, synthesise; `--call` shows one of them" in render_text(
        first
    )
    chat = await platform.open_shipped_session("uderia", profile="llm_only")
    alone = await platform.fetch_json(f"/v1/sessions/{chat}/window")
    assert alone["turn_calls"] == ["converse"]
    assert "may also make" not in render_text(alone)
