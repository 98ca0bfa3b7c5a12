"""Sessions of what is more than text: pictures and files, reasoning in tool rounds, cut replies.

And of long arguments, which prompts of later rounds condense, of tools that a server adds, and of
cuts that last.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode

from tests.agent_programs.agent_harness import build_tool_script
from tests.replay.session_scripts import REFUSED, post_json, submit_turn
from tests.services.gateway.gateway_service import RunningGateway
from tests.services.gateway.test_cut_turns import wait_for_text
from tests.services.media.media_samples import PNG, SAMPLES
from tests.support.sessions.puppet_model import ScriptStep
from turnlog.services.worker.model.model_types import MediaDelta, ReasoningDelta


async def play_contents(stand: RunningGateway) -> tuple[str, ...]:
    """Play every session and return their ids."""
    return (
        await play_parts(stand),
        await play_reasoning(stand),
        await play_cut_replies(stand),
        await play_long_arguments(stand),
        await play_drawn_reply(stand),
        await play_added_tool(stand),
        await play_lasting_cuts(stand),
    )


async def play_parts(stand: RunningGateway) -> str:
    """Play a picture and a document, a picture alone, and a turn that has both in its history."""
    session = await stand.open_session("assistant", session="parts")
    picture = {"type": "image", "data": b64encode(PNG).decode(), "name": "boat.png"}
    document = {"type": "file", "data": b64encode(SAMPLES["application/pdf"]).decode()}
    words = [{"type": "text", "text": each} for each in ("What is", "beside")]
    for parts in ([words[0], picture, words[1], {**document, "name": "list.pdf"}], [picture]):
        stand.model.scripts = [["A boat. "]]
        path = f"/v1/sessions/{session}/turns?wait=60"
        assert (await post_json(stand, path, parts=parts))["status"] == "completed"
    assert await submit_turn(stand, session, "Which of them sails?", "The first.") == "completed"
    return session


def build_thought(text: str) -> ReasoningDelta:
    return ReasoningDelta({"reasoning_content": text}, text)


async def play_reasoning(stand: RunningGateway) -> str:
    """Play two rounds of tools before which the model reasons, and a later turn."""
    session = await stand.open_session("agent", session="reasoning")
    fly = build_tool_script(("harbour_fly", '{"to": "Tallinn"}'))
    rounds: list[list[ScriptStep]] = [[build_thought(f"Try {n}. "), *fly] for n in (1, 2)]
    stand.model.scripts = [*rounds, [build_thought("I give up."), "I cannot fly."]]
    assert await submit_turn(stand, session, "Fly to Tallinn.") == "completed"
    assert await submit_turn(stand, session, "Then sail.", "I cannot sail.") == "completed"
    return session


async def play_cut_replies(stand: RunningGateway) -> str:
    """Play a reply that a person stops and one that breaks off, and a turn that goes on."""
    session = await stand.open_session("assistant", session="cut")
    gate = asyncio.Event()
    stand.model.scripts = [["Half of ", gate]]
    await stand.submit_turn(session, "Say it all.")
    await wait_for_text(stand, session, 1, "Half of ")
    await post_json(stand, f"/v1/sessions/{session}/cancel")
    gate.set()
    assert await submit_turn(stand, session, "Again.", "A third of ", REFUSED) == "failed"
    assert await submit_turn(stand, session, "Go on.", "it all.") == "completed"
    return session


async def play_long_arguments(stand: RunningGateway) -> str:
    """Play rounds of tools whose arguments together are longer than the budget."""
    session = await stand.open_session("agent", session="arguments")
    for number in range(1, 4):
        report = {"name": f"report-{number}.md", "text": "The wind blew. " * 2_000}
        stand.model.scripts.append(build_tool_script(("harbour_write", json.dumps(report))))
    stand.model.scripts.append(["I cannot write."])
    assert await submit_turn(stand, session, "Write three reports.") == "completed"
    return session


async def play_drawn_reply(stand: RunningGateway) -> str:
    """Play a reply with a picture, and a turn that has its line in the history."""
    session = await stand.open_session("assistant", session="drawn")
    picture = MediaDelta((b64encode(PNG).decode(),), "image/png", "boat.png")
    assert await submit_turn(stand, session, "Draw it.", "Here.", picture, "A boat.") == "completed"
    assert await submit_turn(stand, session, "Does it sail?", "It does.") == "completed"
    return session


async def play_added_tool(stand: RunningGateway) -> str:
    """Play a tool that adds another to the list of its server, and a turn that is offered both."""
    session = await stand.open_session("growing", session="growing")
    stand.model.scripts = [build_tool_script(("small_grow", '{"times": "1"}')), ["It has grown."]]
    assert await submit_turn(stand, session, "Grow.") == "completed"
    assert await submit_turn(stand, session, "What is new?", "One tool.") == "completed"
    return session


async def play_lasting_cuts(stand: RunningGateway) -> str:
    """Play turns that fill their window twice, with an excluded and a restored turn between."""
    session = await stand.open_session("cutting", session="lasting")
    exclusion = f"/v1/sessions/{session}/turns/2/exclusion"
    for number in range(1, 17):
        if number == 13:
            assert (await stand.http.put(exclusion)).is_success
        if number == 16:
            assert (await stand.http.delete(exclusion)).is_success
        assert await submit_turn(stand, session, f"{number:010}", "r" * 10) == "completed"
    return session
