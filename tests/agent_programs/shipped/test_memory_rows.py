"""What the shipped `uderia` remembers, shortens and keeps apart, row by row, read back over HTTP.

Rows U4 to U8, U18, U21 and U31, with the numbers of their document.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_plan,
    answer_with_text,
    answer_with_tool_calls,
)
from turnlog.events.content import compute_digest
from turnlog.events.model.session_events import PhaseEntered
from turnlog.events.model.tool_events import ToolReturned
from turnlog.projections.tools.tool_catalog import ToolOffer

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROWS = [{"id": n, "name": f"boat {n}", "price": n * 1.5} for n in range(501)]

DRAWERS = tuple(
    ToolOffer(
        tool=f"drawer_{n}",
        description=(
            "Looks into one of the many drawers of the harbour office and says what is in it now."
        ),
        schema={
            "type": "object",
            "properties": {"which": {"type": "string", "description": "Its name."}},
        },
    )
    for n in range(30)
)


async def open_working_session(platform: AgentService) -> str:
    return await platform.open_shipped_session("uderia", attributes={}, profile="tool_enabled")


async def open_talking_session(platform: AgentService) -> str:
    return await platform.open_shipped_session("uderia", attributes={})


async def say(platform: AgentService, session: str, text: str, reply: str) -> None:
    """Run a turn of one call."""
    await platform.complete_turn(session, answer_with_text(reply), text=text)


async def run_short_turn(platform: AgentService, session: str, text: str = "Hello?") -> None:
    """Run a turn whose plan has no steps."""
    await platform.complete_turn(session, answer_with_plan(), answer_with_text("Yes."), text=text)


async def run_result_turn(platform: AgentService, session: str, result: str) -> ToolReturned:
    """Run a turn whose only tool gives this result."""
    platform.shop.results = [result]
    await platform.complete_turn(
        session,
        answer_with_plan(("Look.", ["harbour_look"])),
        answer_with_tool_calls(("harbour_look", {})),
        answer_with_text("Many."),
        text="Which boats?",
    )
    return (await platform.load_events(session, ToolReturned))[-1]


async def read_texts(platform: AgentService, session: str, call: str) -> list[str]:
    """Return the texts of a recorded call after its first message, the system prompt."""
    messages = (await platform.fetch_prompt(session, call))["messages"]
    return [each["content"] for each in messages[1:]]


async def fetch_call_metrics(platform: AgentService, session: str) -> dict[str, dict[str, Any]]:
    """Return the metrics of each call of a session."""
    last = (await platform.load_recorded_events(session))[-1].sequence
    growth = await platform.fetch_json("/v1/growth", session=session, min_sequence=last)
    return {each["call"]: each for each in growth["calls"]}


@pytest.mark.slow("turns of several calls run over HTTP")
async def test_u4_excluded_turn_leaves_next_prompt_until_restored_and_stays_in_the_audit(
    platform: AgentService,
) -> None:
    session = await open_talking_session(platform)
    await say(platform, session, "What is a hammer?", "A tool.")
    await say(platform, session, "And a nail?", "A pin.")
    path = f"/v1/sessions/{session}/turns/1/exclusion"
    assert (await platform.http.put(path)).status_code == 200
    await say(platform, session, "And now?", "Well.")
    assert await read_texts(platform, session, "3.1") == ["And a nail?", "A pin.", "And now?"]
    (turn, *_) = (await platform.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
    assert (turn["text"], turn["reply"], turn["excluded"]) == ("What is a hammer?", "A tool.", True)
    assert await read_texts(platform, session, "2.1") == [
        *("What is a hammer?", "A tool.", "And a nail?")
    ], "what was sent stays as it was sent"
    assert (await platform.http.delete(path)).status_code == 200
    await say(platform, session, "And then?", "So.")
    assert await read_texts(platform, session, "4.1") == [
        *("What is a hammer?", "A tool.", "And a nail?", "A pin.", "And now?", "Well."),
        "And then?",
    ]


async def test_u5_purge_empties_the_history_and_describes_tools_in_full_again(
    platform: AgentService,
) -> None:
    session = await open_working_session(platform)
    await run_result_turn(platform, session, "3 in stock")
    await run_short_turn(platform, session)
    assert (await platform.http.post(f"/v1/sessions/{session}/purge")).status_code == 200
    await run_short_turn(platform, session, "Who are you?")
    first, second, third = [
        await platform.fetch_prompt(session, call) for call in ("1.1", "2.1", "3.1")
    ]
    assert third["messages"][0] == first["messages"][0], "the tools are told in full again"
    assert second["messages"][0] != first["messages"][0]
    assert [each["content"] for each in third["messages"][1:]] == ["Who are you?"]
    turns = (await platform.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
    assert [(each["reply"], each["purged"]) for each in turns] == [
        *(("Many.", True), ("Yes.", True), ("Yes.", False))
    ]
    assert (await platform.fetch_json(f"/v1/sessions/{session}/verify"))["verified"]


async def test_u6_tools_are_described_in_turn_1_and_named_from_turn_2_saving_60_percent(
    platform: AgentService,
) -> None:
    platform.shop.extra_offers = DRAWERS
    session = await open_working_session(platform)
    await run_short_turn(platform, session)
    await run_short_turn(platform, session)
    assert (await platform.http.post(f"/v1/sessions/{session}/schemas")).status_code == 200
    await run_short_turn(platform, session)
    prompts = [await platform.fetch_prompt(session, f"{turn}.1") for turn in (1, 2, 3)]
    systems = [each["messages"][0]["content"] for each in prompts]
    assert ["- harbour_look: Looks for a thing." in each for each in systems] == [True, False, True]
    assert "- harbour_look\n- harbour_pay\n- harbour_drawer_0\n" in systems[1]
    metrics = await fetch_call_metrics(platform, session)
    full, names, again = [
        metrics[f"{turn}.1"]["components"]["tools_context_tokens"] for turn in (1, 2, 3)
    ]
    assert again == full
    assert names <= 0.4 * full
    assert metrics["2.1"]["savings_estimate"] >= full - names


async def test_u8_result_over_500_rows_is_condensed_to_columns_count_and_sample_and_stored_whole(
    platform: AgentService,
) -> None:
    session = await open_working_session(platform)
    returned = await run_result_turn(platform, session, json.dumps(ROWS))
    assert returned.treatment == "condensed"
    (system,) = [
        each["content"]
        for each in (await platform.fetch_prompt(session, "1.3"))["messages"]
        if each["role"] == "system"
    ]
    assert "501 rows" in system
    assert all(column in system for column in ("id", "name", "price"))
    assert '"boat 0"' in system
    assert "boat 400" not in system
    path = f"/v1/sessions/{session}/calls/{returned.call}/tools/{returned.id}"
    found = await platform.fetch_json(path)
    assert json.loads(found["result"]) == ROWS
    assert compute_digest(found["result"]) == found["digest"] == returned.result


@pytest.mark.parametrize(
    ("result", "distilled"),
    [
        *(("x" * 10_000, False), ("x" * 10_001, True)),
        *((json.dumps([1] * 500), False), (json.dumps([1] * 501), True)),
    ],
)
async def test_u8_result_is_distilled_above_500_rows_or_10000_characters(
    platform: AgentService, result: str, *, distilled: bool
) -> None:
    session = await open_working_session(platform)
    returned = await run_result_turn(platform, session, result)
    assert (returned.treatment == "condensed") is distilled
    prompt = await platform.fetch_prompt(session, "1.3")
    assert (result in prompt["messages"][0]["content"]) is not distilled


async def enter_phase(
    platform: AgentService, session: str, to: str, carry: str | None = None
) -> None:
    form = {"to": to} | ({"carry": carry} if carry else {})
    answer = await platform.http.post(f"/v1/sessions/{session}/phase", json=form)
    assert answer.status_code == 200, answer.text


async def test_u18_each_phase_sees_visible_phases_only_and_backward_carry_is_refused(
    platform: AgentService,
) -> None:
    session = await open_talking_session(platform)
    await say(platform, session, "An idea?", "A boat.")
    await enter_phase(platform, session, "focus")
    await say(platform, session, "Which one?", "The small one.")
    await enter_phase(platform, session, "ideate")
    await say(platform, session, "Another idea?", "A raft.")
    assert await read_texts(platform, session, "3.1") == ["An idea?", "A boat.", "Another idea?"]
    await enter_phase(platform, session, "operate")
    await platform.complete_turn(
        session, answer_with_plan(), answer_with_text("Done."), text="Build it."
    )
    assert await read_texts(platform, session, "4.1") == [
        *("Which one?", "The small one.", "Build it.")
    ]
    await enter_phase(platform, session, "complete")
    await platform.complete_turn(
        session, answer_with_plan(), answer_with_text("It floats."), text="Check it."
    )
    assert await read_texts(platform, session, "5.1") == ["Build it.", "Done.", "Check it."]
    refused = await platform.http.post(
        f"/v1/sessions/{session}/phase", json={"to": "ideate", "carry": "It floats."}
    )
    assert refused.json()["code"] == "carry-backward"


async def test_u18_carried_summary_stays_in_its_phase_and_reaches_later_phases_that_see_it(
    platform: AgentService,
) -> None:
    session = await open_talking_session(platform)
    await say(platform, session, "An idea?", "A boat.")
    await enter_phase(platform, session, "focus", "We want a boat.")
    await say(platform, session, "Which one?", "The small one.")
    await enter_phase(platform, session, "operate", "It is the small one.")
    await run_short_turn(platform, session, "Build it.")
    await enter_phase(platform, session, "complete")
    await run_short_turn(platform, session, "Check it.")
    await enter_phase(platform, session, "ideate")
    await run_short_turn(platform, session, "Another idea?")
    from_ideate = "Summary from ideate phase: We want a boat."
    from_focus = "Summary from focus phase: It is the small one."
    focus, operate, complete, ideate = [
        await platform.fetch_prompt(session, call) for call in ("2.1", "3.1", "4.1", "5.1")
    ]
    read = [
        [(each["role"], each["content"]) for each in prompt["messages"][1:]]
        for prompt in (focus, operate, complete, ideate)
    ]
    idea = [("user", "An idea?"), ("assistant", "A boat.")]
    choice = [("user", "Which one?"), ("assistant", "The small one.")]
    built = [("user", "Build it."), ("assistant", "Yes.")]
    assert read[0] == [("system", from_ideate), *idea, ("user", "Which one?")]
    assert read[1] == [("system", f"{from_ideate}\n{from_focus}"), *choice, ("user", "Build it.")]
    assert read[2] == [("system", from_focus), *built, ("user", "Check it.")]
    assert read[3] == [*idea, ("user", "Another idea?")]
    sources = [
        each["source"]["sequence"]
        for each in operate["manifest"]["parts"]
        if each["layer"] == "carried"
    ]
    entered = [
        each.sequence
        for each in await platform.load_recorded_events(session)
        if isinstance(each.event, PhaseEntered) and each.event.carried
    ]
    assert sources == entered, "each with its origin"


async def test_u31_display_form_never_enters_a_prompt(platform: AgentService) -> None:
    session = await open_talking_session(platform)
    await say(platform, session, "How warm is it?", "It is 14 degrees.")
    path = f"/v1/sessions/{session}/turns/1"
    form = {"text": "<i>How warm is it?</i>", "reply": "<p>It is <b>14</b> degrees.</p>"}
    assert (await platform.http.put(f"{path}/display", json=form)).status_code == 200
    await say(platform, session, "Sure?", "Yes.")
    assert await read_texts(platform, session, "2.1") == [
        *("How warm is it?", "It is 14 degrees.", "Sure?")
    ]
    assert (await platform.http.put(f"{path}/exclusion")).status_code == 200
    await say(platform, session, "Really?", "Yes.")
    assert await read_texts(platform, session, "3.1") == ["Sure?", "Yes.", "Really?"]
    (turn, *_) = (await platform.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
    assert (turn["excluded"], turn["display"]) == (True, form)


async def test_u21_each_call_has_the_documented_metrics(platform: AgentService) -> None:
    session = await open_working_session(platform)
    await run_short_turn(platform, session)
    await run_short_turn(platform, session)
    call = (await fetch_call_metrics(platform, session))["2.1"]
    assert call["turn_id"] == 2
    assert set(call["components"]) >= {
        *("system_prompt_tokens", "tools_context_tokens", "history_tokens"),
        *("rag_context_tokens", "query_tokens"),
    }
    assert call["optimizations_applied"] == ["names"]
    manifest = (await platform.fetch_prompt(session, "2.1"))["manifest"]
    assert call["savings_estimate"] == sum(each["saved"] for each in manifest["parts"])
    assert sum(call["components"].values()) == manifest["tokens"]


def estimate_tokens(*texts: str) -> int:
    """Return the tokens of texts that no call reads: one for every four characters."""
    return sum(-(-len(text) // 4) for text in texts)


async def test_u21_savings_include_distilled_results(
    platform: AgentService,
) -> None:
    session = await open_working_session(platform)
    result = json.dumps(ROWS)
    await run_result_turn(platform, session, result)
    manifest = (await platform.fetch_prompt(session, "1.3"))["manifest"]
    (part,) = [each for each in manifest["parts"] if each.get("rule") == "distil"]
    assert abs(part["saved"] + part["tokens"] - estimate_tokens(result)) < 10
    calls = await fetch_call_metrics(platform, session)
    assert calls["1.3"]["saved"] == {"distil": part["saved"]}
    assert calls["1.3"]["savings_estimate"] == part["saved"] > 4_000
    await run_short_turn(platform, session)
    later = (await fetch_call_metrics(platform, session))["2.1"]["saved"]
    assert later["distil"] > 4_000, "its summary is among the results of the turn before"


async def test_u21_savings_include_excluded_and_purged_turns(platform: AgentService) -> None:
    session = await open_talking_session(platform)
    hammer, nail = ("What is a hammer?", "A tool."), ("And a nail?", "A pin.")
    await say(platform, session, *hammer)
    await say(platform, session, *nail)
    path = f"/v1/sessions/{session}/turns/1/exclusion"
    assert (await platform.http.put(path)).status_code == 200
    await say(platform, session, "And now?", "Well.")
    assert (await platform.http.delete(path)).status_code == 200
    await say(platform, session, "And then?", "So.")
    assert (await platform.http.post(f"/v1/sessions/{session}/purge")).status_code == 200
    await say(platform, session, "Who are you?", "A clerk.")
    calls = await fetch_call_metrics(platform, session)
    assert [calls[f"{turn}.1"]["saved"] for turn in range(1, 6)] == [
        {},
        {},
        {"excluded": estimate_tokens(*hammer)},
        {},
        {"purged": estimate_tokens(*hammer, *nail, "And now?", "Well.", "And then?", "So.")},
    ]


async def test_u21_retrieval_hit_rate_is_null_if_no_call_retrieves(
    platform: AgentService,
) -> None:
    session = await open_talking_session(platform)
    await say(platform, session, "What is a hammer?", "A tool.")
    last = (await platform.load_recorded_events(session))[-1].sequence
    growth = await platform.fetch_json("/v1/growth", session=session, min_sequence=last)
    assert [each["retrieval_hit_rate"] for each in growth["groups"]] == [None]
