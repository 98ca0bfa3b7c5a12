"""T8 and T9 beyond the first call: a debrief that is held again, and a call of another provider."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tests.layered_prompts.tutor_service import (
    DRAW,
    FORBIDDEN,
    TutorService,
    answer_with_signal,
    answer_with_text,
    list_event_names,
    prepare_tutor_host,
    start_tutor_service,
)
from tests.support.processes.process_host import run_turnlog
from tests.support.servers.model_behaviours import ModelAnswer
from tests.support.servers.openai_server import OpenAIServer
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS

pytestmark = pytest.mark.slow("whole sessions run on a service of their own")


async def hold_debrief(room: TutorService, session: str) -> str:
    """Run `turnlog debrief` and return what it prints."""
    place = str(room.up.ready_file.parent)
    code, printed, errors = await run_turnlog("debrief", session, "--data-dir", place)
    assert code == 0, errors
    return printed


@pytest.mark.asyncio(loop_scope="module")
async def test_t8_cancelled_or_withheld_debrief_is_repeated_until_it_is_shown(
    tutor_service: TutorService,
) -> None:
    session = await tutor_service.open_session(DRAW)
    await tutor_service.submit_and_watch(session, "One")
    pause, before = asyncio.Event(), len(tutor_service.provider.exchanges)
    tutor_service.provider.queue_behaviours(
        answer_with_signal("understood", "Well done."), ModelAnswer(gates={1: pause})
    )
    await tutor_service.watch_turn(
        session, await tutor_service.service.submit_turn(session, "It is bait.")
    )
    # A debrief that is cancelled before its request would leave its answer to the next one.
    await tutor_service.provider.wait_for_exchange(before + 2)
    assert (await tutor_service.post_command(session, "cancel")).status_code == 200
    pause.set()
    assert list_event_names(await tutor_service.watch_turn(session, 3))[-1] == "cancelled"
    for turn, answer, end in (
        (4, answer_with_text(FORBIDDEN), "redact"),
        (5, answer_with_text(FORBIDDEN), "redact"),
        (6, answer_with_text("Here is how it went."), "done"),
    ):
        assert (await tutor_service.fetch_session(session))["phase"] == "debrief"
        tutor_service.provider.queue_behaviours(answer)
        assert f"turn {turn} holds the debrief again" in await hold_debrief(tutor_service, session)
        assert list_event_names(await tutor_service.watch_turn(session, turn))[-1] == end
    assert (await tutor_service.fetch_session(session))["phase"] == "end"
    system = await tutor_service.fetch_system_prompt(session, "6.1")
    assert system.endswith(
        "Your previous response was withheld by the safety check. "
        "Go on with the debrief without repeating it."
    )
    assert "Stay in character" not in system
    told = await tutor_service.post_command(session, "turns")
    assert (told.status_code, told.json()["code"]) == (409, "phase-takes-no-turns")


def test_t8_ban_on_naming_a_pattern_applies_only_during_the_dialogue() -> None:
    forbidding = [
        (file.name, sentence)
        for file in (SHIPPED_BLUEPRINTS / "trickster").rglob("*.md")
        for sentence in re.split(r"(?<=[.])\s+", file.read_text().strip())
        if re.search(r"not name|not comment|never break", sentence)
    ]
    assert {name for name, _ in forbidding} >= {"behaviour.md", "persona.md", "openai.md"}
    assert [each for each in forbidding if "while the dialogue lasts" not in each[1].lower()] == []


@pytest.mark.asyncio(loop_scope="module")
async def test_t9_later_call_with_another_provider_uses_the_snapshot_after_a_restart(
    provider: OpenAIServer, tmp_path: Path
) -> None:
    """One session begins with a provider without files of its own, one with a provider that has."""
    vllm = {"TURNLOG_MODEL": "hosted_vllm/test", "HOSTED_VLLM_API_BASE": provider.url}
    async with prepare_tutor_host(tmp_path, provider) as host:
        folder = host.folder / f"blueprints/trickster/tasks/{DRAW}"
        tuning = (folder / "openai.md").read_text().rstrip("\n")
        async with start_tutor_service(host, provider, variables=vllm) as room:
            one = await room.open_session(DRAW)
            await room.submit_and_watch(one, "One")
            without = await room.fetch_system_prompt(one, "1.1")
            assert tuning not in without
        persona, end = (folder / "persona.md").read_text().rstrip("\n"), "\n\n## What to do"
        own = without.replace(end, f"\n\n{tuning}{end}")
        async with start_tutor_service(host, provider) as room:
            two = await room.open_session(DRAW)
            await room.submit_and_watch(two, "One")
            assert await room.fetch_system_prompt(two, "1.1") == own
            (folder / "persona.md").write_text("You are too late.\n")
            (folder / "openai.md").write_text("This is too late as well.\n")
            (folder / "hosted_vllm.md").write_text("And so is this.\n")
            await room.submit_and_watch(one, "Two")
            assert await room.fetch_system_prompt(one, "2.1") == own
            assert room.sent["messages"][0]["content"] == own
        async with start_tutor_service(host, provider, variables=vllm) as room:
            await room.submit_and_watch(two, "Two")
            assert await room.fetch_system_prompt(two, "2.1") == without
            assert room.sent["messages"][0]["content"] == without
            assert persona in without
            new = await room.open_session(DRAW)
            await room.submit_and_watch(new, "One")
            late = await room.fetch_system_prompt(new, "1.1")
            assert late.startswith("You are too late.\n\n")
            assert f"\n\nAnd so is this.{end}" in late
