"""A summary as a step of a ladder, in copies of the shipped `uderia` whose ladder says when.

Every prompt is read back over HTTP. A turn on a topic has about 1,160 tokens.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.agent_programs.agent_service import AgentService, answer_with_text
from tests.agent_programs.shipped.test_sliding_window import (
    SUMMARY,
    TOPICS,
    build_question,
    build_reply,
    run_topics,
)
from turnlog.events.model.memory_events import SummaryBegun
from turnlog.projections.blueprint.loading.blueprint_source import BLUEPRINT_FILE
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS

pytestmark = pytest.mark.asyncio(loop_scope="module")

HISTORY = "history: {tokens: 3000, ladder: [summarise: {}]}"
LADDER_END = "chars: [2000, 500]}\n    overflow:"

BY_THE_WHOLE = (
    (HISTORY, "history: {tokens: 3000}"),
    (LADDER_END, LADDER_END.replace("\n", "\n      - summarise: {}\n")),
)
"""Changes by which the ladder of the whole prompt summarises, after what else can be shortened."""


def copy_uderia(blueprints: Path, name: str, *changes: tuple[str, str]) -> None:
    """Copy the shipped `uderia` into a folder of blueprints, with these changes."""
    folder = blueprints / name
    shutil.copytree(SHIPPED_BLUEPRINTS / "uderia", folder)
    file = folder / BLUEPRINT_FILE
    text = file.read_text()
    for before, after in (("blueprint: uderia", f"blueprint: {name}"), *changes):
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    file.write_text(text)


async def open_copied_session(platform: AgentService, name: str, *changes: tuple[str, str]) -> str:
    """Open a session of a copy of the shipped `uderia`."""
    copy_uderia(platform.folder, name, *changes)
    return await platform.open_shipped_session(name, attributes={})


async def run_summarised_topic(platform: AgentService, session: str, topic: str) -> None:
    platform.provider.queue_behaviours(answer_with_text(SUMMARY))
    await run_topics(platform, session, topic)


def list_steps(prompt: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [(each["step"], each.get("component")) for each in prompt["manifest"].get("steps", [])]


async def test_u10_history_ladder_summarises_above_its_own_limit(
    platform: AgentService,
) -> None:
    steps = "condense_repeats: {}, summarise: {}, drop_oldest_pairs: {}"
    ladder = f"history: {{tokens: 4000, ladder: [{steps}]}}"
    session = await open_copied_session(platform, "uderia-history", (HISTORY, ladder))
    await run_topics(platform, session, *TOPICS[:4])
    assert "summary-begun" not in await platform.list_event_names(session)
    await run_summarised_topic(platform, session, TOPICS[4])
    (begun,) = await platform.load_events(session, SummaryBegun)
    assert begun.trigger is not None
    assert (begun.trigger.of, begun.trigger.limit) == ("component", 4_000)
    assert 4_000 < begun.trigger.tokens < 5_000
    prompt = await platform.fetch_prompt(session, "5.2")
    kept = [text for each in TOPICS[1:4] for text in (build_question(each), build_reply(each))]
    assert prompt["messages"][0]["content"].endswith(f"\n\n{SUMMARY}")
    assert [each["content"] for each in prompt["messages"][1:]] == [
        *kept,
        build_question(TOPICS[4]),
    ]
    assert list_steps(prompt) == [], "the steps after the summary have nothing to do"
    shown = await platform.fetch_json("/v1/blueprints/uderia-history")
    (line,) = [each for each in shown["ladders"] if "window, component history" in each]
    assert line == (
        "window, component history above 4,000 tokens: condense repeated questions, then have a "
        "model summarise workflow and chat, then drop the oldest turns, then leave it to the whole"
    )


async def test_u10_ladder_of_the_whole_prompt_trims_before_it_summarises(
    platform: AgentService,
) -> None:
    session = await open_copied_session(
        platform,
        "uderia-whole",
        *BY_THE_WHOLE,
        ("    tokens: 8000\n", "    tokens: 4800\n"),
    )
    carried = "The plan of the harbour is as follows. " * 100
    path = f"/v1/sessions/{session}/phase"
    answer = await platform.http.post(path, json={"to": "focus", "carry": carried})
    assert answer.status_code == 200, answer.text
    await run_topics(platform, session, *TOPICS[:4])
    prompt = await platform.fetch_prompt(session, "4.1")
    assert list_steps(prompt) == [("trim", None)], "the trim suffices, so no model is asked"
    assert "summary-begun" not in await platform.list_event_names(session)
    await run_summarised_topic(platform, session, TOPICS[4])
    (begun,) = await platform.load_events(session, SummaryBegun)
    assert begun.trigger is not None
    assert (begun.trigger.of, begun.trigger.limit) == ("prompt", 4_800)
    assert {(each.step, each.on) for each in begun.trigger.steps} == {("trim", "carried")}
    prompt = await platform.fetch_prompt(session, "5.2")
    (summarised,) = [each for each in prompt["messages"] if SUMMARY in each["content"]]
    assert summarised["role"] == "system"
    assert list_steps(prompt) == [("trim", None)]
    why = await platform.fetch_json(f"/v1/sessions/{session}/turns/5/why")
    (reason,) = [each["what"] for each in why["consequences"] if "summarised" in each["what"]]
    assert reason.startswith("chat was summarised first: after trim (")
    assert reason.endswith(f"the prompt had {begun.trigger.tokens:,} tokens, above 4,800")
    report = await platform.fetch_json(f"/v1/sessions/{session}/verify")
    assert report["verified"], report
