"""The sliding window of the shipped `uderia`, with the numbers of its document.

Above 4,000 tokens of history the last 6 messages stand verbatim and one summary replaces all that
is older. Every prompt is read back over HTTP.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent_programs.agent_service import AgentService, answer_with_text

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


async def test_u10_below_4000_tokens_every_message_is_included_verbatim(
    platform: AgentService,
) -> None:
    session = await platform.open_shipped_session("uderia", attributes={})
    await run_topics(platform, session, *TOPICS[:4])
    prompt = await platform.fetch_prompt(session, "4.1")
    (run,) = list_history(prompt)
    assert (run["source"]["first"], run["source"]["last"], run["treatment"]) == (1, 3, "kept")
    assert 3_000 < run["tokens"] < 4_000, "above what its component may have, and the whole fits"
    assert prompt["manifest"].get("steps", []) == []
    assert "summary-begun" not in await platform.list_event_names(session)


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
        assert messages[1] == {"role": "system", "content": f"{SUMMARY} {number}"}
        expected = [text for each in latest for text in (build_question(each), build_reply(each))]
        assert [each["content"] for each in messages[2:]] == [*expected, build_question(topic)]
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
    assert prompt["messages"][1]["content"] == SUMMARY
    assert len(prompt["messages"]) == 1 + 1 + 6 + 1


async def test_u10_oldest_pair_is_recorded_as_dropped_if_the_whole_prompt_does_not_fit(
    platform: AgentService,
) -> None:
    session = await platform.open_shipped_session("uderia", attributes={})
    for topic in TOPICS[:3]:
        platform.provider.queue_behaviours(answer_with_text(build_reply(topic) * 2))
        await platform.complete_turn(session, text=build_question(topic))
    platform.provider.queue_behaviours(answer_with_text(build_reply("x") * 2))
    await platform.complete_turn(session, text="And what else is there?")
    manifest = (await platform.fetch_prompt(session, "4.1"))["manifest"]
    assert manifest["tokens"] < 8_000
    history = [each for each in manifest["parts"] if each["layer"] == "history"]
    assert [each["treatment"] for each in history] == ["kept"], "the last six messages fit"
    platform.provider.queue_behaviours(
        answer_with_text(SUMMARY), answer_with_text(build_reply("y") * 5)
    )
    await platform.complete_turn(session, text="Is that all?")
    platform.provider.queue_behaviours(answer_with_text(SUMMARY), answer_with_text("Yes."))
    await platform.complete_turn(session, text="Really?")
    manifest = (await platform.fetch_prompt(session, "6.2"))["manifest"]
    assert [(each["step"], each.get("component")) for each in manifest["steps"]] == [
        ("drop_oldest_pairs", None)
    ]
    (dropped,) = [each for each in manifest["parts"] if each.get("rule") == "drop_oldest_pairs"]
    assert (dropped["source"]["first"], dropped["source"]["last"]) == (3, 3)


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
