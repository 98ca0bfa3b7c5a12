"""Pictures between a coordinator and its children: of its turn, and of their replies."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.agent_programs.children.child_harness import (
    CHILDREN,
    COORDINATOR,
    build_team_blueprint,
)
from tests.agent_programs.shipped.test_odd_answers import build_frames
from tests.agent_programs.shipped.test_reply_pictures import DIGEST, LINE, PICTURE
from tests.services.gateway.test_turn_parts import build_image, build_text, encode
from tests.services.media.media_samples import PNG, make_png
from turnlog.events.model.tool_events import ToolReturned
from turnlog.projections.blueprint.validation.blueprint_checks import check_blueprint

pytestmark = pytest.mark.asyncio(loop_scope="module")

HEAD = {**COORDINATOR, "children": ["thinker"]}

ASKED = make_png(80)


async def ask_about_picture(platform: AgentService, name: str, *, parent_parts: bool) -> str:
    """Ask a coordinator whose child answers with another picture; return the session."""
    thinker = {**CHILDREN["thinker"], "parent_parts": parent_parts}
    kind = build_team_blueprint(blueprint=name, profiles={"head": HEAD, "thinker": thinker})
    session = await platform.open_session(kind)
    turn = await platform.submit_turn(
        session,
        answer_with_tool_calls(("thinker", {"query": "What is it?"})),
        build_frames({"content": "A heron."}, PICTURE),
        answer_with_text("It is a heron."),
        text=[build_text("And this?"), build_image(ASKED, name="bird.png")],
    )
    assert turn["status"] == "completed", turn
    return session


def list_sent_pictures(body: dict[str, Any]) -> list[str]:
    """Return which of the two pictures a request has."""
    return [name for name, data in (("asked", ASKED), ("drawn", PNG)) if encode(data) in str(body)]


async def test_child_with_parent_parts_is_sent_the_pictures_of_the_turn(
    platform: AgentService,
) -> None:
    session = await ask_about_picture(platform, "seeing", parent_parts=True)
    asked, child, reply = platform.bodies
    description = asked["tools"][0]["function"]["parameters"]["properties"]["query"]["description"]
    assert "the pictures and files of this turn as sent" in description
    assert [list_sent_pictures(each) for each in (asked, child)] == [["asked"], ["asked"]]
    assert child["messages"][-1]["content"][0] == {"type": "text", "text": "What is it?"}
    (returned,) = await platform.load_events(session, ToolReturned)
    assert [each.digest for each in returned.parts] == [DIGEST]
    assert LINE in str(reply["messages"])
    assert list_sent_pictures(reply) == ["asked", "drawn"]
    report = await platform.fetch_json(f"/v1/sessions/{session}/verify")
    assert (report["findings"], report["reproduction"]) == ([], "reproduced")


async def test_child_without_parent_parts_is_sent_the_query_alone(platform: AgentService) -> None:
    await ask_about_picture(platform, "blind", parent_parts=False)
    _, child, _ = platform.bodies
    assert child["messages"][-1]["content"] == "What is it?"


async def test_parent_parts_of_a_profile_that_nobody_asks_are_a_finding() -> None:
    profiles = {"head": HEAD, **CHILDREN, "seeker": {**CHILDREN["seeker"], "parent_parts": True}}
    (finding,) = check_blueprint(build_team_blueprint(profiles=profiles))
    assert finding.path == ("profiles", "seeker", "parent_parts")
    assert "no coordinator asks `seeker`" in finding.what
