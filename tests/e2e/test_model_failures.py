"""What becomes of a turn when the provider fails, in every way providers have been seen to.

Each case says what the provider does with one request after the other, how the turn ends, and
why each attempt ended. Timeouts are the model layer's own tests: no setting shortens them.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.parts.everything import Up
from tests.parts.openai_behaviours import Answer, Behaviour, Break, Refusal
from tests.parts.openai_server import OpenAIServer
from turnlog.events.model.call_events import AttemptEnded

pytestmark = pytest.mark.asyncio(loop_scope="session")

WHOLE = Answer(("An ", "answer."))
FILTERED = Refusal(400, type="invalid_request_error", code="content_filter")


@dataclass(frozen=True, slots=True)
class Case:
    does: tuple[Behaviour, ...]
    ends: tuple[str, str | None]
    """The turn's status, and why it failed or how its reply ended."""
    faults: tuple[str | None, ...]
    """Of each attempt, the code of its fault."""
    known: str = "unknown"
    """What is known of the tokens of an attempt that failed."""


RETRIED = ("completed", "stop")
CASES = {
    "429 with Retry-After": Case(
        (Refusal(429, headers={"retry-after": "1"}), WHOLE), RETRIED, ("rate_limited", None)
    ),
    "500": Case((Refusal(500), WHOLE), RETRIED, ("server_error", None)),
    "500 every time": Case((Refusal(500),) * 3, ("failed", "server_error"), ("server_error",) * 3),
    "401": Case((Refusal(401),), ("failed", "unauthorised"), ("unauthorised",)),
    "disconnect before the first token": Case(
        (Answer(breaks=Break(0, "disconnect")), WHOLE), RETRIED, ("disconnected", None)
    ),
    "disconnect mid-stream": Case(
        (Answer(breaks=Break(1, "disconnect")), WHOLE),
        RETRIED,
        ("disconnected", None),
        known="estimated",
    ),
    "error frame inside a 200": Case(
        (Answer(breaks=Break(1, "error")), WHOLE),
        RETRIED,
        ("error_in_stream", None),
        known="estimated",
    ),
    "no finish reason": Case(
        (Answer(finish=None), WHOLE), RETRIED, ("incomplete", None), known="estimated"
    ),
    "garbage chunk": Case(
        (Answer(breaks=Break(1, "garbage")), WHOLE),
        RETRIED,
        ("malformed", None),
        known="estimated",
    ),
    "empty answer": Case((Answer((), usage=None), WHOLE), RETRIED, ("empty", None)),
    "empty answer every time": Case(
        (Answer((), usage=None),) * 3, ("failed", "empty"), ("empty",) * 3
    ),
    "content filter instead of an answer": Case(
        (FILTERED,), ("failed", "content_filtered"), ("content_filtered",)
    ),
    "content filter within an answer": Case(
        (Answer(("An ",), finish="content_filter"),), ("completed", "content_filter"), (None,)
    ),
}


@pytest.mark.promise("P7")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_failing_provider_never_leaves_half_an_answer(
    up: Up, provider: OpenAIServer, case: Case
) -> None:
    session = await up.service.open("persistent")
    before = len(provider.exchanges)
    provider.will(*case.does)
    told = await up.service.say(session)
    assert (told["status"], told["reason"] or told["finish"]) == case.ends
    assert len(provider.exchanges) - before == len(case.does)
    ended = await up.service.of_kind(session, AttemptEnded)
    assert [each.fault and each.fault.code for each in ended] == list(case.faults)
    for each in ended:
        assert each.usage.known == (case.known if each.fault else "reported")
        # Unknown usage is not zero, and streamed tokens are not free.
        assert (each.cost.micro_dollars is None) == (each.usage.known == "unknown")
        assert each.cost.micro_dollars != 0


async def test_tokens_that_a_provider_does_not_count_are_estimated(
    up: Up, provider: OpenAIServer
) -> None:
    session = await up.service.open("persistent")
    provider.will(Answer(usage=None))
    assert (await up.service.say(session))["status"] == "completed"
    (ended,) = await up.service.of_kind(session, AttemptEnded)
    assert ended.usage.known == "estimated"
    assert ended.usage.input_tokens
    assert ended.usage.output_tokens
    assert ended.cost.micro_dollars


async def test_a_watcher_is_told_of_a_retry_and_ends_with_the_recorded_reply(
    up: Up, provider: OpenAIServer
) -> None:
    session = await up.service.open("persistent")
    provider.will(Answer(("Half ", "an"), breaks=Break(2, "disconnect")), WHOLE)
    turn = await up.service.submit(session)
    async with up.service.watching(session, turn) as watched:
        heard = await watched.whole()
    names = [each.name for each in heard]
    reset = names.index("attempt-reset")
    assert heard[reset].json["attempt"] == 2
    assert names[-1] == "done"
    said = "".join(each.json["text"] for each in heard[reset:] if each.name == "token")
    history = await up.service.get(f"/v1/sessions/{session}/history")
    assert said == history["turns"][0]["reply"] == "An answer."


async def test_a_watcher_is_told_why_a_turn_failed(up: Up, provider: OpenAIServer) -> None:
    session = await up.service.open("persistent")
    provider.will(*(Answer(("Half ",), breaks=Break(1, "disconnect")),) * 3)
    turn = await up.service.submit(session)
    async with up.service.watching(session, turn) as watched:
        last = (await watched.whole())[-1]
    assert last.name == "failed"
    assert last.json == {"code": "disconnected", "retryable": True, "partial": "Half "}
