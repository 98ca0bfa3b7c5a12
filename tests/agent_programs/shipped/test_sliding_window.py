"""The sliding window of the shipped `uderia`, with the numbers of its document.

Above the 3,000 tokens of the component, and so above 4,000, the last 6 messages stand verbatim and
one summary replaces all that is older. Every prompt is read back over HTTP.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent_programs.agent_service import AgentService, answer_with_text
from turnlog.events.model.memory_events import SummaryBegun
from turnlog.events.model.turn_events import TurnFailed

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOPICS = ("tides", "berths", "crews", "fares", "winds", "fogs", "ropes", "gulls", "buoys")

SUMMARY = "They spoke of the harbour."


def build_question(topic: str) -> str:
    """Return a question of about a hundred tokens, different from those on other topics."""
    return f"Say all there is to say of {topic}; " + "and do take your time with it. " * 12


def build_reply(topic: str) -> str:
    """Return a reply that makes a turn of about 1,160 tokens."""
    return f"Of {topic}: " + f"there is much to tell of {topic}. " * 117


async def run_topics(platform: AgentService, session: str, *topics: str) -> None:
    """Run a turn on each topic; a summary is answered before the reply where one is due."""
    for topic in topics:
        platform.provider.queue_behaviours(answer_with_text(build_reply(topic)))
        await platform.complete_turn(session, text=build_question(topic))


def list_history(prompt: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the included history parts of a prompt."""
    parts = prompt["manifest"]["parts"]
    return [each for each in parts if each["layer"] == "history" and each.get("role")]


def build_sized_reply(number: int, words: int) -> str:
    """Return a reply of that many words, each a token, which repeats no other reply."""
    return f"Reply {number}:" + " tide" * words


async def test_u10_up_to_3000_tokens_every_message_is_included_verbatim(
    platform: AgentService,
) -> None:
    session = await platform.open_shipped_session("uderia", attributes={})
    await run_topics(platform, session, *TOPICS[:3])
    prompt = await platform.fetch_prompt(session, "3.1")
    (run,) = list_history(prompt)
    assert (run["source"]["first"], run["source"]["last"], run["treatment"]) == (1, 2, "kept")
    assert 2_000 < run["tokens"] < 3_000
    assert prompt["manifest"].get("steps", []) == []
    assert "summary-begun" not in await platform.list_event_names(session)


async def test_u12_history_of_3264_tokens_is_summarised_as_its_limit_of_3000_says(
    platform: AgentService,
) -> None:
    session = await platform.open_shipped_session("uderia", attributes={})
    for number in range(1, 7):
        platform.provider.queue_behaviours(answer_with_text(build_sized_reply(number, 530)))
        await platform.complete_turn(session, text=f"And what of topic {TOPICS[number]} then?")
        assert "summary-begun" not in await platform.list_event_names(session)
    platform.provider.queue_behaviours(answer_with_text(SUMMARY), answer_with_text("Yes."))
    await platform.complete_turn(session, text="Is that all?")
    (begun,) = await platform.load_events(session, SummaryBegun)
    assert begun.trigger is not None
    assert (begun.trigger.of, begun.trigger.limit) == ("component", 3_000)
    assert abs(begun.trigger.tokens - 3_264) < 30
    prompt = await platform.fetch_prompt(session, "7.2")
    assert prompt["messages"][0]["content"].endswith(f"\n\n{SUMMARY}")
    assert [each["content"] for each in prompt["messages"][2:5:2]] == [
        *(build_sized_reply(4, 530), build_sized_reply(5, 530))
    ]
    summary, kept = list_history(prompt)
    assert (kept["source"]["first"], kept["source"]["last"]) == (4, 6)
    assert summary["tokens"] + kept["tokens"] < 3_000


async def test_u10_above_4000_tokens_window_is_last_six_messages_and_one_summary(
    platform: AgentService,
) -> None:
    session = await platform.open_shipped_session("uderia", attributes={})
    await run_topics(platform, session, *TOPICS[:4])
    for number, topic in enumerate(TOPICS[4:], 5):
        platform.provider.queue_behaviours(answer_with_text(f"{SUMMARY} {number}"))
        await run_topics(platform, session, topic)
        prompt = await platform.fetch_prompt(session, f"{number}.2")
        messages, latest = prompt["messages"], TOPICS[number - 4 : number - 1]
        assert [each["role"] for each in messages[:2]] == ["system", "user"]
        assert messages[0]["content"].endswith(f"\n\n{SUMMARY} {number}")
        expected = [text for each in latest for text in (build_question(each), build_reply(each))]
        assert [each["content"] for each in messages[1:]] == [*expected, build_question(topic)]
        summary_prompt = await platform.fetch_prompt(session, f"{number}.1")
        topic_left_out = TOPICS[number - 5]
        assert build_reply(topic_left_out) in [
            each["content"] for each in summary_prompt["messages"]
        ]
        summaries = await platform.fetch_json(f"/v1/sessions/{session}/summaries")
        assert summaries["summaries"][-1]["turns"] == [{"first": 1, "last": number - 4}]
        assert prompt["manifest"].get("steps", []) == []


async def test_u10_all_older_history_becomes_one_summary_regardless_of_its_length(
    platform: AgentService,
) -> None:
    session = await platform.open_shipped_session("uderia", attributes={})
    await run_topics(platform, session, *TOPICS[:4])
    for topic in TOPICS[4:8]:
        platform.provider.queue_behaviours(answer_with_text(""))
        await run_topics(platform, session, topic)
    platform.provider.queue_behaviours(answer_with_text(SUMMARY))
    await run_topics(platform, session, TOPICS[8])
    summary_prompt = await platform.fetch_prompt(session, "9.1")
    texts = [each["content"] for each in summary_prompt["messages"]]
    assert all(build_reply(each) in texts for each in TOPICS[:5])
    prompt = await platform.fetch_prompt(session, "9.2")
    assert prompt["messages"][0]["content"].endswith(f"\n\n{SUMMARY}")
    assert len(prompt["messages"]) == 1 + 6 + 1


async def test_u10_three_answers_of_3000_tokens_stand_verbatim_and_older_ones_in_the_summary(
    platform: AgentService,
) -> None:
    session = await platform.open_shipped_session("uderia", attributes={})
    for number in range(1, 8):
        reply = answer_with_text(build_sized_reply(number, 3_000))
        summary = [answer_with_text(f"{SUMMARY} {number}")] if number > 4 else []
        await platform.complete_turn(
            session, *summary, reply, text=f"And what of topic {TOPICS[number]} then?"
        )
        if number < 5:
            continue
        prompt = await platform.fetch_prompt(session, f"{number}.2")
        latest = range(number - 3, number)
        expected = [
            text
            for each in latest
            for text in (f"And what of topic {TOPICS[each]} then?", build_sized_reply(each, 3_000))
        ]
        assert prompt["messages"][0]["content"].endswith(f"\n\n{SUMMARY} {number}")
        assert [each["content"] for each in prompt["messages"][1:-1]] == expected
        assert 9_000 < prompt["manifest"]["tokens"] < 12_000
        assert prompt["manifest"]["budget"] == 32_000, "the larger budget is recorded"
        assert prompt["manifest"].get("steps", []) == []
        summaries = await platform.fetch_json(f"/v1/sessions/{session}/summaries")
        assert summaries["summaries"][-1]["turns"] == [{"first": 1, "last": number - 4}]


async def test_u10_last_six_messages_above_the_larger_budget_are_refused_until_one_is_excluded(
    platform: AgentService,
) -> None:
    session = await platform.open_shipped_session("uderia", attributes={})
    for number in range(1, 4):
        reply = answer_with_text(build_sized_reply(number, 12_000))
        await platform.complete_turn(session, reply, text=f"What of {TOPICS[number]}?")
    refused = await platform.submit_turn(session, text="Is that all?")
    assert (refused["status"], refused["reason"]) == ("failed", "over-budget")
    failed = (await platform.load_events(session, TurnFailed))[-1]
    assert "do not fit 32000: " in str(failed)
    path = f"/v1/sessions/{session}/turns/1/exclusion"
    assert (await platform.http.put(path)).status_code == 200
    await platform.complete_turn(session, answer_with_text("Yes."), text="Is that all?")
    prompt = await platform.fetch_prompt(session, "5.1")
    assert [each["content"] for each in prompt["messages"][2:-1:2]] == [
        build_sized_reply(2, 12_000), build_sized_reply(3, 12_000)
    ]  # fmt: skip


async def test_u21_savings_include_all_turns_of_a_summary(platform: AgentService) -> None:
    session = await platform.open_shipped_session("uderia", attributes={})
    await run_topics(platform, session, *TOPICS[:4])
    for number, topic in enumerate(TOPICS[4:7], 5):
        platform.provider.queue_behaviours(answer_with_text(f"{SUMMARY} {number}"))
        await run_topics(platform, session, topic)
    last = (await platform.load_recorded_events(session))[-1].sequence
    growth = await platform.fetch_json("/v1/growth", session=session, min_sequence=last)
    saved = {each["call"]: each["saved"] for each in growth["calls"]}
    for number in (5, 6, 7):
        prompt = await platform.fetch_prompt(session, f"{number}.2")
        (summary,) = [
            each for each in prompt["manifest"]["parts"] if each.get("rule") == "summarised"
            and each.get("role")
        ]  # fmt: skip
        covered = TOPICS[: number - 4]
        length = sum(len(build_question(each)) + len(build_reply(each)) for each in covered)
        assert summary["saved"] == -(-length // 4) - summary["tokens"]
        assert saved[f"{number}.2"] == {"summarised": summary["saved"]}
