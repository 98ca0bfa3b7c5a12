"""The scripted model, which needs no library and no server."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.services.model.model_requests import (
    build_request,
    collect_answer,
    expect_failure,
    read_first_text,
)
from turnlog.services.worker.model.model_types import FailureCode, ModelUsage
from turnlog.services.worker.model.scripted_model import ScriptedModel, ScriptFolder, choose_reply

RIVER = """
replies:
  - match: heron
    text: "You asked: {text}  It flew."
    finish: length
    pace: 0
  - text: first
    pace: 0
  - text: second
    pace: 0
"""


@pytest.fixture
def river(tmp_path: Path) -> ScriptedModel:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    for place in (scripts / "river.yaml", tmp_path / "outside.yaml"):
        place.write_text(RIVER)
    return ScriptedModel(scripts=scripts)


async def test_scripted_model_streams_its_reply_and_reports_usage(river: ScriptedModel) -> None:
    answered = await collect_answer(river, build_request("scripted/river", "Where is the Heron?"))
    assert answered.deltas == (
        "You ",
        "asked: ",
        "Where ",
        "is ",
        "the ",
        "Heron?  ",
        "It ",
        "flew.",
    )
    assert answered.finished.finish_reason == "length"
    assert answered.finished.usage == ModelUsage(input_tokens=4, output_tokens=8)


async def test_replies_rotate_without_a_match(river: ScriptedModel) -> None:
    texts = ("one", "two", "three")
    replies = [
        await collect_answer(river, build_request("scripted/river", *texts[:turn]))
        for turn in (1, 2, 3)
    ]
    assert [reply.text for reply in replies] == ["first", "second", "first"]


async def test_same_request_gets_the_same_answer(river: ScriptedModel) -> None:
    request = build_request("scripted/river", "Where is the Heron?")
    once, again = await collect_answer(river, request), await collect_answer(river, request)
    assert once.deltas == again.deltas


@pytest.mark.parametrize("code", ["rate_limited", "disconnected", "content_filtered"])
async def test_scripted_failure_is_raised_after_its_text(tmp_path: Path, code: FailureCode) -> None:
    reply = f'{{"replies": [{{"text": "It was ", "fail": "{code}", "pace": 0}}]}}'
    (tmp_path / "broken.yaml").write_text(reply)
    model = ScriptedModel(scripts=tmp_path)
    async with aclosing(model.stream(build_request("scripted/broken"))) as stream:
        assert await read_first_text(stream) == "It "
    assert (await expect_failure(model, build_request("scripted/broken"))).code == code


@pytest.mark.parametrize("safety", ["safety", "recitation"])
async def test_finish_reason_is_taken_from_the_script(tmp_path: Path, safety: str) -> None:
    (tmp_path / "stopped.yaml").write_text(f"replies: [{{text: Once, finish: {safety}, pace: 0}}]")
    answered = await collect_answer(
        ScriptedModel(scripts=tmp_path), build_request("scripted/stopped")
    )
    assert answered.finished.finish_reason == safety


async def test_scripts_of_one_name_in_two_folders_do_not_collide(tmp_path: Path) -> None:
    for side in ("left", "right"):
        (tmp_path / side).mkdir()
        (tmp_path / side / "bank.yaml").write_text(f"replies: [{{text: {side}, pace: 0}}]")
    left, right = (ScriptedModel(scripts=tmp_path / side) for side in ("left", "right"))
    assert (await collect_answer(left, build_request("scripted/bank"))).text == "left"
    assert (await collect_answer(right, build_request("scripted/bank"))).text == "right"
    assert (await collect_answer(left, build_request("scripted/bank"))).text == "left"


@pytest.mark.parametrize("name", ["nowhere", "../outside", ""])
async def test_missing_script_fails_as_unknown_model(river: ScriptedModel, name: str) -> None:
    failure = await expect_failure(river, build_request(f"scripted/{name}"))
    assert (failure.code, failure.retryable) == ("unknown_model", False)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("replies: []", "replies"),
        ("replies: [{text: a, tempo: 3}]", "tempo"),
        ('replies: [{text: a, match: "("}]', "match"),
        ("replies: [", "not YAML"),
    ],
)
async def test_unreadable_script_fails_with_its_location(
    tmp_path: Path, content: str, says: str
) -> None:
    (tmp_path / "bad.yaml").write_text(content)
    failure = await expect_failure(ScriptedModel(scripts=tmp_path), build_request("scripted/bad"))
    assert failure.code == "bad_request"
    assert says in failure.detail


async def test_the_shipped_script_streams() -> None:
    async with aclosing(ScriptedModel().stream(build_request("scripted/demo", "Hello"))) as stream:
        assert await read_first_text(stream) == "Hello! "


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("What is Turnlog?", "record"),
        ("What does the event log hold?", "appended"),
        ("Why can the prompt be proven?", "manifest"),
        ("Do you like rain?", "Do you like rain?"),
    ],
)
def test_shipped_script_has_a_reply_for_each_sample_question(question: str, word: str) -> None:
    reply = choose_reply(
        ScriptFolder().load_script("demo"), build_request("scripted/demo", question).messages
    )
    assert word in reply.text


DOORMAN = """
replies:
  - {system: closed, match: enter, text: "Not tonight.", pace: 0}
  - match: enter
    text: Welcome.
    pace: 0
    tools: [{name: open, arguments: {door: 2}}, {name: bow}]
  - {match: "^$", text: "", pace: 0, tools: [{name: wait}]}
"""


@pytest.fixture
def doorman(tmp_path: Path) -> ScriptedModel:
    (tmp_path / "doorman.yaml").write_text(DOORMAN)
    return ScriptedModel(scripts=tmp_path)


async def test_scripted_tool_calls_follow_the_text(doorman: ScriptedModel) -> None:
    answered = await collect_answer(doorman, build_request("scripted/doorman", "May I enter?"))
    calls = [(call.name, call.arguments) for call in answered.finished.tool_calls]
    assert answered.text == "Welcome."
    assert calls == [("open", '{"door": 2}'), ("bow", "{}")]
    assert answered.finished.finish_reason == "tool_calls"


async def test_scripted_reply_can_call_a_tool_without_text(doorman: ScriptedModel) -> None:
    answered = await collect_answer(doorman, build_request("scripted/doorman", ""))
    assert answered.text == ""
    assert [call.name for call in answered.finished.tool_calls] == ["wait"]


async def test_system_prompt_can_select_the_reply(doorman: ScriptedModel) -> None:
    system_message = {"role": "system", "content": "The house is CLOSED."}
    request = build_request("scripted/doorman", "May I enter?")
    answered = await collect_answer(
        doorman, replace(request, messages=(system_message, *request.messages))
    )
    assert answered.text == "Not tonight."


async def test_tool_result_is_answered_only_by_a_reply_for_results(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(
        "replies:\n"
        "  - {match: hammer, text: '', tools: [{name: look}], pace: 0}\n"
        "  - {match: hammer, result: '3 in stock', text: 'There are three.', pace: 0}\n"
        "  - {text: 'I do not know.', pace: 0}\n"
    )
    shop = ScriptedModel(scripts=tmp_path)
    asked = build_request("scripted/shop", "A hammer?")
    assert [each.name for each in (await collect_answer(shop, asked)).finished.tool_calls] == [
        "look"
    ]
    for result, text in (("3 in stock", "There are three."), ("sold out", "I do not know.")):
        messages = (*asked.messages, {"role": "tool", "content": result, "tool_call_id": "t"})
        answered = await collect_answer(shop, replace(asked, messages=messages))
        assert "".join(answered.deltas) == text
