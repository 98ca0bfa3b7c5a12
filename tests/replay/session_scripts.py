"""One or two sessions of each shipped blueprint, played over HTTP.

Together they cover everything that changes a prompt: choices, phases, a debrief, withheld and
redacted replies, exclusions, retries, failures, cancelled turns, resolved questions, fallbacks,
segments in locales, variants and tiers, every shipped ladder, plans, tools, summaries and a purge;
and with them ends of one event and of several, a queued turn, an approval and a judged reply.
Retrievals, children and quotas are played by the demo of `uderia`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic import JsonValue

from tests.agent_programs.agent_harness import build_plan_script, build_tool_script
from tests.segment_budgets.game_service import (
    COAST_SEGMENTS,
    ENTRY,
    GUARD,
    build_npc_inputs,
    build_row,
)
from tests.services.gateway.gateway_service import RunningGateway
from tests.support.sessions.puppet_model import ScriptStep, build_finish
from turnlog.events.model.call_events import ContextOverflow
from turnlog.events.model.tool_events import ApprovalRequested
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.projections.blueprint.schema.phase_specs import TRANSITION_TOOL
from turnlog.services.worker.model.model_types import ModelFailure, ModelToolCall, ModelUsage

SECRET = "Write to me at trick@example.org. "

DOWN = ModelFailure("server_error", "down", retry_after=0.001)

REFUSED = ModelFailure("unauthorised", "no key")

VARIED: Sequence[dict[str, JsonValue]] = (
    *COAST_SEGMENTS,
    build_row("world", "An der Küste ist immer Nebel.", "world.coast", locale="de"),
    build_row("npc", "The guard yawns.", "npc.twin", id=99),
    build_row("npc", "The guard whistles.", "npc.twin", id=99, variant="b"),
)


async def play_sessions(stand: RunningGateway) -> tuple[str, ...]:
    """Play every session and return their ids."""
    sessions = [
        await play_assistant(stand),
        await play_long_counts(stand),
        await play_choice(stand),
        await play_withheld_reply(stand),
    ]
    return (
        *sessions,
        await play_questions(stand),
        await play_segments(stand),
        await play_agent_phases(stand),
        await play_tool_loop(stand),
        await play_approval(stand),
    )


async def post_json(stand: RunningGateway, path: str, **form: Any) -> dict[str, Any]:  # noqa: ANN401
    answer = await stand.http.post(path, json=form)
    assert answer.is_success, answer.text
    return dict(answer.json())


async def submit_turn(
    stand: RunningGateway,
    session: str,
    text: str | None,
    *script: ScriptStep,
    **inputs: Any,  # noqa: ANN401
) -> str:
    """Submit a turn and return the status it settles with."""
    stand.model.scripts = [list(script)] if script else stand.model.scripts
    form = {"text": text, "inputs": inputs}
    return str((await post_json(stand, f"/v1/sessions/{session}/turns?wait=60", **form))["status"])


def build_transition_scripts(stand: RunningGateway, signal: str) -> Sequence[Sequence[ScriptStep]]:
    """Give a script whose answer asks for a transition, and one of what is said after it."""
    call = ModelToolCall("call-1", TRANSITION_TOOL, f'{{"signal": "{signal}"}}')
    wish = replace(build_finish(finish="tool_calls"), tool_calls=(call,))
    ended, transition = (
        partial(setattr, stand.model, "end", end) for end in (build_finish(), wish)
    )
    return ("So be it. ", transition), (ended, "So you ", "see.")


async def wait_for_event(
    stand: RunningGateway, session: str, turn: int, kind: type = TurnCompleted
) -> None:
    """Wait for an event of a turn, by default for the end of one that nobody waited for."""
    async with aclosing(stand.backend.log.watch_session(stand.tenant, session)) as events:
        async for recorded in events:
            if isinstance(recorded.event, kind) and getattr(recorded.event, "turn", 0) == turn:
                return


async def play_assistant(stand: RunningGateway) -> str:
    """Play failures, a cancelled turn, exclusions, a redaction and more text than fits."""
    attributes = {"language": "French", "instructions": "Say only what you know."}
    session = await stand.open_session("assistant", session="assistant", attributes=attributes)
    session_path = f"/v1/sessions/{session}"
    assert (
        await submit_turn(stand, session, "Who are you?", "A record. ", "Of turns.") == "completed"
    )
    assert await submit_turn(stand, session, "And now?", REFUSED) == "failed"
    stand.model.scripts = [[DOWN], ["At ", "last."]]
    assert await submit_turn(stand, session, "Are you there?") == "completed"
    gate = asyncio.Event()
    stand.model.scripts = [["Hm", gate]]
    await stand.submit_turn(session, "Never mind.")
    await post_json(stand, f"{session_path}/cancel")
    gate.set()
    assert (await stand.http.put(f"{session_path}/turns/1/exclusion")).is_success
    assert await submit_turn(stand, session, "What was first?", "I forget.") == "completed"
    await post_json(
        stand, f"{session_path}/redactions", turn=5, reason="it is rude", replacement="(Sorry.)"
    )
    assert (await stand.http.delete(f"{session_path}/turns/1/exclusion")).is_success
    for number in range(5):
        assert (
            await submit_turn(stand, session, f"{number} " * 1_800, "I see. " * 800) == "completed"
        )
    await post_json(stand, f"{session_path}/redactions", turn=3, reason="it was wrong")
    for words in ({"pattern": "wa."}, {}):
        form = {"turn": 5, "of": "text", "reason": "they took it back", **words}
        await post_json(stand, f"{session_path}/redactions", **form)
    assert await submit_turn(stand, session, "Naïve — 你好 🙂?", "Oui.") == "completed"
    described = {"title": "What was first", "labels": ["replayed"], "metadata": {"round": 1}}
    assert (await stand.http.patch(session_path, json=described)).is_success
    for access in ("read", "submit"):
        shared = {"access": access}
        assert (await stand.http.put(f"{session_path}/shares/ben", json=shared)).is_success
    await post_json(stand, f"{session_path}/close")
    assert (await stand.http.delete(f"{session_path}/shares/ben")).is_success
    return session


async def play_long_counts(stand: RunningGateway) -> str:
    """Play counts that the provider corrects, and prompts that it refuses as too long."""
    session = await stand.open_session("assistant", session="counted")
    question, reply = "请说明这件事情的来龙去脉。" * 120, "好的我会一步一步地说明。" * 60
    for counted in (1_640, 3_920, 6_200, 6_200):
        end = build_finish(usage=ModelUsage(counted, 720))
        assert await submit_turn(stand, session, question, reply, end) == "completed"
    for overflow in (ContextOverflow(tokens=6_200, limit=5_000), None):
        refused = ModelFailure("context_overflow", "HTTP 400", overflow=overflow)
        stand.model.scripts = [[refused], [reply]]
        assert await submit_turn(stand, session, question) == "completed"
    stand.model.scripts = [[refused], [refused]]
    assert await submit_turn(stand, session, question) == "failed"
    assert await submit_turn(stand, session, "好的。", "不客气。") == "completed"
    return session


async def play_choice(stand: RunningGateway) -> str:
    """Play a choice before the dialogue and a transition that comes too early."""
    attributes = {"task": "share-before-reading", "locale": "en"}
    session = await stand.open_session("trickster", session="choosing", attributes=attributes)
    await post_json(stand, f"/v1/sessions/{session}/choices", choice="share")
    early, reply_script = build_transition_scripts(stand, "partial")
    for text in ("Why share it?", "Who says so?"):
        assert await submit_turn(stand, session, text, reply_script[0], *early) == "completed"
    stand.model.scripts = [["It is funny. ", early[1]], reply_script]
    assert await submit_turn(stand, session, "Is it true?") == "completed"
    await wait_for_event(stand, session, 4)
    return session


async def play_withheld_reply(stand: RunningGateway) -> str:
    """Play a withheld reply, its note, and a debrief forced by the exchange limit."""
    session = await stand.open_session(
        "trickster", session="drawing", attributes={"task": "lucky-draw"}
    )
    assert await submit_turn(stand, session, "Labas!", "You won. ", "Hurry.") == "completed"
    assert (
        await submit_turn(stand, session, "How do I get it?", "Well. ", SECRET, "Soon.")
        == "completed"
    )
    stand.model.scripts = [[DOWN], ["Just say yes."]]
    assert await submit_turn(stand, session, "And then?") == "completed"
    assert await submit_turn(stand, session, "No.", "Are you sure?") == "completed"
    await wait_for_event(stand, session, 5)
    return session


async def play_questions(stand: RunningGateway) -> str:
    """Play questions that are resolved, inherit references, or need the fallback."""
    form = {"conversation_id": "c", "client_id": "web:1", "nickname": "Ada"}
    key = {"client_id": "web:1", "conversation_id": "c"}
    for question, script in (
        ("How risky is LOGT11?", ["Quite ", "calm."]),
        ("And what is its price?", ["101.20."]),
        ("Sing me a song.", ["never asked"]),
        ("What does FARM11 own?", [REFUSED]),
        ("And its price?", ["97.05."]),
    ):
        stand.model.scripts = [script]
        await post_json(stand, "/v1/ask", question=question, **form)
        opened = await post_json(stand, "/v1/sessions", blueprint="araquem", key=key)
        if question.startswith("Sing"):
            notice = {"text": "The market is closed.", "role": "system"}
            await post_json(stand, f"/v1/sessions/{opened['session']}/turns", **notice)
    return str(opened["session"])


async def play_segments(stand: RunningGateway) -> str:
    """Play segments of every tier, locale and variant, with budgets that need every ladder step."""
    await post_json(stand, "/v1/segments/import", segments=VARIED)
    session = await stand.open_session(
        "game-master", session="game", attributes={**ENTRY, "locale": "de"}
    )
    long = "The road goes on. " * 120
    for inputs in (
        {"npcs": build_npc_inputs((GUARD, 2), ("npc.twin", 0)), "rng": "6", "player": "A bard."},
        {
            "npcs": build_npc_inputs((GUARD, 2), ("npc.dog", 1)),
            "npc_token_budget": 30,
            "locale": "en",
        },
        {"npcs": build_npc_inputs((GUARD, 2)), "npc_token_budget": 20, "game_state": long},
        {"npcs": build_npc_inputs((GUARD, 1)), "token_budget": 400, "game_state": long},
        {"npcs": build_npc_inputs((GUARD, 1)), "token_budget": 120, "game_state": long},
    ):
        assert await submit_turn(stand, session, "I look around. " * 70, "You see fog.", **inputs)
    await stand.http.patch("/v1/segments/1", json={"content": "Tell it in the third person."})
    assert await submit_turn(stand, session, "I go in.", "The gate creaks.") == "completed"
    return session


async def play_agent_phases(stand: RunningGateway) -> str:
    """Play isolated phases, plans, tools, prior results, a summary and a purge."""
    attributes = {"charting": True, "instructions": "Name the ship."}
    session = await stand.open_session("uderia", session="agent", attributes=attributes)
    session_path = f"/v1/sessions/{session}"
    assert (
        await submit_turn(stand, session, "Why are we late?", "The wind, ", "or the crew.")
        == "completed"
    )
    for phase, carried in (("focus", "Wind or crew."), ("operate", "Ask for the wind.")):
        await post_json(stand, f"{session_path}/phase", to=phase, carry=carried)
    steps = (("Count what was late.", ["harbour_delays"]), ("List all.", ["harbour_departures"]))
    over, every = ("harbour_delays", '{"over": 15}'), ("harbour_departures", "{}")
    stand.model.scripts = [
        build_plan_script(*steps),
        build_tool_script(over),
        build_tool_script(every),
        ["153 ", "of 1,000."],
    ]
    assert await submit_turn(stand, session, "How many were late?") == "completed"
    known = ['{"steps": [{"goal": "Take the count.", "from": "r1"}]}']
    stand.model.scripts = [known, ["Four ships alike."]]
    assert await submit_turn(stand, session, "Which was worst?") == "completed"
    await post_json(stand, f"{session_path}/profile", profile="llm_only")
    for number in range(3):
        script = ["It blew all day. " * 300]
        stand.model.scripts = [script] if number < 2 else [["Wind."], script]
        assert await submit_turn(stand, session, f"{number}: what then? " * 100) == "completed"
    await post_json(stand, f"{session_path}/profile", profile="tool_enabled")
    await post_json(stand, f"{session_path}/purge")
    wrong = ("harbour_delays", '{"over": "much"}')
    stand.model.scripts = [
        build_plan_script(steps[0]),
        build_tool_script(wrong),
        build_tool_script(over),
        ["Still 153."],
    ]
    assert await submit_turn(stand, session, "Count again.") == "completed"
    return session


async def play_tool_loop(stand: RunningGateway) -> str:
    """A turn whose answer calls a tool that is not offered, and which then replies."""
    session = await stand.open_session("agent", session="loop")
    fly = build_tool_script(("harbour_fly", "{}"))
    stand.model.scripts = [fly, ["I cannot fly."]]
    assert await submit_turn(stand, session, "Fly to Tallinn.") == "completed"
    return session


async def play_approval(stand: RunningGateway) -> str:
    """Play a tool that a person approves, a turn queued meanwhile, and what is said of a reply."""
    session = await stand.open_session("guarded", session="guarded")
    session_path = f"/v1/sessions/{session}"
    look = build_tool_script(("time_get_current_time", '{"timezone": "UTC"}'))
    stand.model.scripts = [look, ["It is ", "noon."], ["You are welcome."]]
    await stand.submit_turn(session, "What time is it?", user="ada")
    await wait_for_event(stand, session, 1, ApprovalRequested)
    await stand.submit_turn(session, "Thanks.", user="ada")
    await post_json(stand, f"{session_path}/turns/1/approvals/1", decision="approve")
    await wait_for_event(stand, session, 2)
    await post_json(stand, f"{session_path}/turns/1/feedback", vote="up")
    display = {"reply": "<p>It is noon.</p>"}
    assert (await stand.http.put(f"{session_path}/turns/1/display", json=display)).is_success
    return session
