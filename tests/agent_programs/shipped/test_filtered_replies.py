"""U26: a reply that a filter of the provider cut, on the shipped agent platform."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_plan,
    answer_with_text,
    start_agent_service,
)
from tests.support.servers.model_behaviours import ModelAnswer, RawFrames
from turnlog.events.model.attempt_figures import SafetyRating
from turnlog.events.model.call_events import AttemptEnded

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_u26_filtered_reply_is_recorded_logged_and_excluded_from_next_window(
    platform: AgentService,
) -> None:
    session = await platform.open_shipped_session("uderia", attributes={}, profile="llm_only")
    filtered = ModelAnswer(tokens=("Half of",), finish="content_filter")
    with capture_logs() as lines:
        await platform.complete_turn(session, filtered, text="Quote it.")
    logged = [line for line in lines if line["event"] == "answer-filtered"]
    assert [(line["log_level"], line["finish"]) for line in logged] == [
        ("warning", "content_filter")
    ]
    (turn,) = (await platform.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
    assert (turn["status"], turn["finish"], turn["reply"]) == (
        "completed",
        "content_filter",
        "Half of",
    )
    (ended,) = await platform.load_events(session, AttemptEnded)
    assert ended.ratings == (), "the provider gave none"
    assert turn["excluded"]
    await platform.complete_turn(session, answer_with_text("Good."), text="Go on.")
    assert platform.get_request_texts(1)[1:] == ["Go on."]
    restored = await platform.http.delete(f"/v1/sessions/{session}/turns/1/exclusion")
    assert restored.is_success
    await platform.complete_turn(session, answer_with_text("Fine."), text="And now?")
    assert platform.get_request_texts(2)[1:4] == ["Quote it.", "Half of", "Go on."]


async def test_u26_blueprint_can_include_filtered_replies_in_next_window(
    platform: AgentService,
) -> None:
    edits = {"policies:\n": "policies:\n  filtered_replies: include\n"}
    platform.copy_shipped_blueprint("uderia", "uderia-lenient", edits)
    session = await platform.open_shipped_session(
        "uderia-lenient", attributes={}, profile="llm_only"
    )
    filtered = ModelAnswer(tokens=("Half of",), finish="content_filter")
    await platform.complete_turn(session, filtered, text="Quote it.")
    await platform.complete_turn(session, answer_with_text("Good."), text="Go on.")
    assert platform.get_request_texts(1)[1:] == ["Quote it.", "Half of", "Go on."]
    assert "turn-excluded" not in await platform.list_event_names(session)


@pytest.mark.parametrize(
    ("profile", "plans"),
    [
        ("llm_only", ()),
        ("rag_focused", ()),
        ("genie", ()),
        ("tool_enabled", (answer_with_plan(),)),
    ],
)
async def test_u26_done_of_every_program_has_why_the_model_stopped(
    platform: AgentService, profile: str, plans: tuple[ModelAnswer, ...]
) -> None:
    session = await platform.open_shipped_session("uderia", attributes={}, profile=profile)
    cut = ModelAnswer(tokens=("Half of",), finish="length")
    await platform.complete_turn(session, *plans, cut, text="Quote it.")
    done = await fetch_done(platform, session)
    assert done["finish"] == "length"
    assert "ratings" not in done, "the provider gave none"


async def fetch_done(platform: AgentService, session: str, turn: int = 1) -> dict[str, Any]:
    """Return the data of the event that ends the stream of a turn."""
    async with platform.watch_turn(session, turn) as watched:
        end = (await watched.read_all())[-1]
    assert end.name == "done"
    return end.json


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gemini_platform(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AgentService]:
    """The agent platform with a model of Google, which rates what it blocks."""
    folder = tmp_path_factory.mktemp("gemini")
    with pytest.MonkeyPatch.context() as patched:
        async with start_agent_service(folder, "gemini/gemini-heron") as platform:
            patched.setenv("GEMINI_API_BASE", platform.provider.root)
            patched.setenv("GEMINI_API_KEY", "gk")
            yield platform


LOW = {"category": "HARM_CATEGORY_HARASSMENT", "probability": "LOW"}

HIGH = {
    "category": "HARM_CATEGORY_DANGEROUS_CONTENT",
    "probability": "HIGH",
    "severity": "HARM_SEVERITY_HIGH",
    "blocked": True,
}

USAGE = {"promptTokenCount": 9, "totalTokenCount": 9}


def encode_frames(*frames: dict[str, Any]) -> RawFrames:
    """Encode frames as Google streams them."""
    return RawFrames(
        tuple(
            f"data: {json.dumps({'usageMetadata': USAGE, **each})}\r\n\r\n".encode()
            for each in frames
        )
    )


def build_candidate(text: str, **candidate: object) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, **candidate}]}


@pytest.mark.parametrize(
    ("frames", "finish", "reply", "ratings"),
    [
        (
            (
                build_candidate("Half ", safetyRatings=[LOW]),
                build_candidate("of", finishReason="SAFETY", safetyRatings=[LOW, HIGH]),
            ),
            *("safety", "Half of", [LOW, HIGH]),
        ),
        (
            (build_candidate("Half of", finishReason="RECITATION", safetyRatings=[LOW]),),
            *("recitation", "Half of", [LOW]),
        ),
        (
            ({"promptFeedback": {"blockReason": "SAFETY", "safetyRatings": [HIGH]}},),
            *("safety", "", [HIGH]),
        ),
    ],
    ids=["safety", "recitation", "prompt"],
)
async def test_u26_filtered_reply_is_recorded_and_logged_with_provider_ratings(
    gemini_platform: AgentService,
    frames: tuple[dict[str, Any], ...],
    finish: str,
    reply: str,
    ratings: list[dict[str, Any]],
) -> None:
    platform = gemini_platform.reset_for_test()
    session = await platform.open_shipped_session("uderia", attributes={}, profile="llm_only")
    with capture_logs() as lines:
        await platform.complete_turn(session, encode_frames(*frames), text="Quote it.")
    logged = [line for line in lines if line["event"] == "answer-filtered"]
    assert [(line["log_level"], line["finish"], line["ratings"]) for line in logged] == [
        ("warning", finish, ratings)
    ]
    (ended,) = await platform.load_events(session, AttemptEnded)
    assert ended.ratings == tuple(SafetyRating.model_validate(each) for each in ratings)
    events = (await platform.fetch_json(f"/v1/sessions/{session}/events"))["events"]
    answers = [each["data"]["answer"] for each in events if each["data"].get("answer")]
    assert [each["spent"].get("ratings") for each in answers] == [ratings]
    done = await fetch_done(platform, session)
    assert (done["finish"], done["ratings"]) == (finish, ratings)
    (turn,) = (await platform.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
    assert (turn["finish"], turn["reply"], turn["excluded"]) == (finish, reply, True)
    await platform.complete_turn(
        session, encode_frames(build_candidate("Good.", finishReason="STOP", safetyRatings=[LOW]))
    )
    contents = platform.bodies[1]["contents"]
    assert "Half" not in json.dumps(contents)
    assert (await platform.load_events(session, AttemptEnded))[1].ratings == ()
    assert await platform.find_unreproducible_calls() == []


async def test_u26_done_has_the_ratings_of_a_reply_that_also_ended_its_phase(
    gemini_platform: AgentService,
) -> None:
    platform = gemini_platform.reset_for_test()
    session = await platform.open_shipped_session("trickster", attributes={"task": "lucky-draw"})
    first = build_candidate("Only today.", finishReason="STOP", safetyRatings=[LOW])
    await platform.complete_turn(session, encode_frames(first), text="Is it real?")
    call = {"functionCall": {"name": "transition_phase", "args": {"signal": "understood"}}}
    cut = build_candidate("Half of", finishReason="SAFETY", safetyRatings=[LOW, HIGH])
    cut["candidates"][0]["content"]["parts"].append(call)
    debrief = build_candidate("It was bait.", finishReason="STOP", safetyRatings=[LOW])
    await platform.complete_turn(session, encode_frames(cut), encode_frames(debrief), text="Bait!")
    done = await fetch_done(platform, session, 2)
    assert (done["phase_transition"], done["finish"]) == ("understood", "safety")
    assert done["ratings"] == [LOW, HIGH]
    debriefed = await fetch_done(platform, session, 3)
    assert (debriefed["debrief_complete"], "ratings" in debriefed) == (True, False)
