"""What becomes of a turn when the provider fails, in every way providers have been seen to.

Each case says what the provider does with one request after the other, how the turn ends, and
why each attempt ended. Timeouts are the model layer's own tests: no setting shortens them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from tests.e2e.browser import CHROMIUM, Browser
from tests.support.processes.process_host import run_turnlog
from tests.support.processes.turnlog_up import TurnlogUp
from tests.support.servers.model_behaviours import (
    AnswerBreak,
    ModelAnswer,
    ModelBehaviour,
    ModelRefusal,
)
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.model.call_events import AttemptEnded
from turnlog.services.cli.views.text_format import format_duration, format_money

pytestmark = pytest.mark.asyncio(loop_scope="session")

WHOLE = ModelAnswer(tokens=("An ", "answer."))
UNOFFERED = ModelAnswer(tokens=(), finish="tool_calls", tool_calls=(("shop_fly", "{}"),))
FILTERED = ModelRefusal(status=400, type="invalid_request_error", code="content_filter")


@dataclass(frozen=True, slots=True)
class FailureCase:
    does: tuple[ModelBehaviour, ...]
    ends: tuple[str, str | None]
    """The turn's status, and why it failed or how its reply ended."""
    faults: tuple[str | None, ...]
    """Of each attempt, the code of its fault."""
    known: str = "unknown"
    """What is known of the tokens of an attempt that failed."""


RETRIED = ("completed", "stop")
CASES = {
    "429 with Retry-After": FailureCase(
        (ModelRefusal(status=429, headers={"retry-after": "1"}), WHOLE),
        RETRIED,
        ("rate_limited", None),
    ),
    "500": FailureCase((ModelRefusal(status=500), WHOLE), RETRIED, ("server_error", None)),
    "500 every time": FailureCase(
        (ModelRefusal(status=500),) * 3, ("failed", "server_error"), ("server_error",) * 3
    ),
    "401": FailureCase((ModelRefusal(status=401),), ("failed", "unauthorised"), ("unauthorised",)),
    "disconnect before the first token": FailureCase(
        (ModelAnswer(breaks=AnswerBreak(0, "disconnect")), WHOLE), RETRIED, ("disconnected", None)
    ),
    "disconnect mid-stream": FailureCase(
        (ModelAnswer(breaks=AnswerBreak(1, "disconnect")), WHOLE),
        RETRIED,
        ("disconnected", None),
        known="estimated",
    ),
    "error frame inside a 200": FailureCase(
        (ModelAnswer(breaks=AnswerBreak(1, "error")), WHOLE),
        RETRIED,
        ("error_in_stream", None),
        known="estimated",
    ),
    "no finish reason": FailureCase(
        (ModelAnswer(finish=None), WHOLE), RETRIED, ("incomplete", None), known="estimated"
    ),
    "garbage chunk": FailureCase(
        (ModelAnswer(breaks=AnswerBreak(1, "garbage")), WHOLE),
        RETRIED,
        ("malformed", None),
        known="estimated",
    ),
    "empty answer": FailureCase(
        (ModelAnswer(tokens=(), usage=None), WHOLE), RETRIED, ("empty", None)
    ),
    "empty answer every time": FailureCase(
        (ModelAnswer(tokens=(), usage=None),) * 3, ("failed", "empty"), ("empty",) * 3
    ),
    "call of a tool that nobody offered instead of an answer": FailureCase(
        (UNOFFERED, WHOLE), RETRIED, ("tools_not_offered", None), known="reported"
    ),
    "content filter instead of an answer": FailureCase(
        (FILTERED,), ("failed", "content_filtered"), ("content_filtered",)
    ),
    "content filter within an answer": FailureCase(
        (ModelAnswer(tokens=("An ",), finish="content_filter"),),
        ("completed", "content_filter"),
        (None,),
    ),
}


@pytest.mark.promise("P7")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_failing_provider_never_leaves_a_partial_reply(
    up: TurnlogUp, provider: OpenAIServer, case: FailureCase
) -> None:
    session = await up.service.open_session("persistent")
    before = len(provider.exchanges)
    provider.queue_behaviours(*case.does)
    turn = await up.service.run_turn(session)
    assert (turn["status"], turn["reason"] or turn["finish"]) == case.ends
    assert len(provider.exchanges) - before == len(case.does)
    ended = await up.service.list_events_of_type(session, AttemptEnded)
    assert [each.fault and each.fault.code for each in ended] == list(case.faults)
    for each in ended:
        assert each.usage.known == (case.known if each.fault else "reported")
        # Unknown usage is not zero, and streamed tokens are not free.
        assert (each.cost.micro_dollars is None) == (each.usage.known == "unknown")
        assert each.cost.micro_dollars != 0


async def test_turn_fails_if_its_model_only_calls_tools_that_were_not_offered(
    up: TurnlogUp, provider: OpenAIServer
) -> None:
    session = await up.service.open_session("persistent")
    provider.queue_behaviours(*(UNOFFERED,) * 3)
    turn = await up.service.run_turn(session)
    assert (turn["status"], turn["reply"]) == ("failed", None)
    assert (turn["reason"], turn["detail"]) == (
        "tools_not_offered",
        "it called 'shop_fly', which nobody offered, and wrote nothing",
    )
    report = await up.service.get_json(f"/v1/sessions/{session}/verify")
    assert report["verified"], report
    spoken = ModelAnswer(tokens=("Look: ",), finish="tool_calls", tool_calls=(("shop_fly", "{}"),))
    provider.queue_behaviours(spoken)
    assert (await up.service.run_turn(session))["reply"] == "Look: "


async def test_tokens_that_a_provider_does_not_count_are_estimated(
    up: TurnlogUp, provider: OpenAIServer
) -> None:
    session = await up.service.open_session("persistent")
    provider.queue_behaviours(ModelAnswer(usage=None))
    assert (await up.service.run_turn(session))["status"] == "completed"
    (ended,) = await up.service.list_events_of_type(session, AttemptEnded)
    assert ended.usage.known == "estimated"
    assert ended.usage.input_tokens
    assert ended.usage.output_tokens
    assert ended.cost.micro_dollars


async def test_turn_stream_announces_a_retry_and_ends_with_the_recorded_reply(
    up: TurnlogUp, provider: OpenAIServer
) -> None:
    session = await up.service.open_session("persistent")
    provider.queue_behaviours(
        ModelAnswer(tokens=("Half ", "an"), breaks=AnswerBreak(2, "disconnect")), WHOLE
    )
    turn = await up.service.submit_turn(session)
    async with up.service.watch_turn(session, turn) as watched:
        received = await watched.read_all()
    names = [each.name for each in received]
    reset = names.index("attempt-reset")
    assert received[reset].json["attempt"] == 2
    assert names[-1] == "done"
    reply = "".join(each.json["text"] for each in received[reset:] if each.name == "token")
    history = await up.service.get_json(f"/v1/sessions/{session}/history")
    assert reply == history["turns"][0]["reply"] == "An answer."


@pytest.mark.slow("processes of the service start, stop and recover")
@pytest.mark.skipif(CHROMIUM is None, reason="no `chromium` on PATH")
async def test_retried_call_shows_the_same_time_and_cost_in_api_cli_and_page(
    up: TurnlogUp,
    provider: OpenAIServer,
    chromium: Browser,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    session = await up.service.open_session()
    provider.queue_behaviours(ModelRefusal(status=429, headers={"retry-after": "1"}), WHOLE)
    await up.service.run_turn(session)
    (call,) = await up.service.list_calls(session)
    times, (refused, answered) = call["times"], call["attempts"]
    ended = await up.service.list_events_of_type(session, AttemptEnded)
    measured = [each.timings.total for each in ended if each.timings]
    assert [refused["total_ms"], answered["total_ms"]] == measured
    assert (refused["waited_ms"], answered["waited_ms"]) == (0, times["waiting_ms"])
    assert times["waiting_ms"] >= 990
    assert times["attempts_ms"] == sum(measured)
    assert times["total_ms"] == times["attempts_ms"] + times["waiting_ms"]
    timeline = await up.service.get_json(f"/v1/sessions/{session}/turns/1/timeline")
    spans = [span for span in timeline["spans"] if span["call"] == call["call"]]
    lengths = [span["length_ms"] for span in spans if span["kind"] in {"attempt", "waiting"}]
    assert lengths == [refused["total_ms"], times["waiting_ms"], answered["total_ms"]]
    assert [span["length_ms"] for span in spans if span["kind"] == "call"] == [times["total_ms"]]
    taken, waiting = (format_duration(times[name]) for name in ("total_ms", "waiting_ms"))
    cost = format_money(call["micro_dollars"])
    address = str(up.service.http.base_url)
    code, shown, _ = await run_turnlog("show", session, "--url", address)
    assert code == 0
    figures = ("stop", str(call["tokens"]), "≥", cost, f"{taken} in 2 attempts, {waiting} waiting")
    assert re.search(r"\s+(?:\d+\s+)*".join(map(re.escape, figures)), shown), shown
    assert f"together ≥ {cost} · 1 call without a price" in shown
    await chromium.open_page(f"{address}/#/sessions/{session}")
    on_page = "document.querySelector('.turn .figures')?.textContent"
    await chromium.wait_for(on_page)
    assert await chromium.run_script(on_page) == (
        f"{call['input_tokens'] + call['output_tokens']} tokens · ≥ {cost} · "
        f"{taken} in 2 attempts, {waiting} waiting"
    )


async def test_turn_stream_ends_with_the_reason_of_a_failure(
    up: TurnlogUp, provider: OpenAIServer
) -> None:
    session = await up.service.open_session("persistent")
    provider.queue_behaviours(
        *(ModelAnswer(tokens=("Half ",), breaks=AnswerBreak(1, "disconnect")),) * 3
    )
    turn = await up.service.submit_turn(session)
    async with up.service.watch_turn(session, turn) as watched:
        last = (await watched.read_all())[-1]
    assert last.name == "failed"
    assert last.json == {"code": "disconnected", "retryable": True, "partial": "Half "}
