"""Sessions in every script with a model of 8,192 tokens, on the shipped `assistant` over HTTP.

Its budget is 8,000 tokens of four characters each, which is right for English only.
"""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from pydantic import TypeAdapter
from rich.console import Console

from tests.agent_programs.agent_service import AgentService
from tests.agent_programs.turns.test_model_adapters import use_adapter
from tests.support.servers.model_window import ModelWindow
from turnlog.events.model.call_events import AttemptEnded, ContextAssembled, ContextOverflow
from turnlog.events.model.manifest import AppliedTrimStep
from turnlog.projections.audit.explain.turn_explanation import TurnExplanation
from turnlog.services.api.prompt_payloads import RecordedPromptView
from turnlog.services.cli.views.why_view import render_why
from turnlog.services.platform.process_settings import ModelAdapter

pytestmark = pytest.mark.asyncio(loop_scope="module")

TURNS = 40

TEXTS = {
    "Chinese": ("请继续解释下一部分的内容谢谢。" * 6, "好的我会一步一步地说明这件事情。" * 24),
    "Thai": ("ช่วยอธิบายส่วนต่อไปให้ด้วยนะครับ " * 4, "ได้ครับ ผมจะอธิบายทีละขั้นตอนให้เข้าใจง่าย " * 9),
    "Arabic": ("أكمل شرح الجزء التالي من فضلك. " * 4, "حسنًا، سأشرح لك الأمر خطوة بخطوة. " * 12),
    "code": ("what does `x[i]->y((*p)++)` do? " * 4, "if (a[i] != b[j]) { ++k; }\n" * 16),
    "emoji": ("👍🏽🎉 more, please 🙏 " * 6, "🧵🪡✂️📐🎨🖌️🧶🪢🧷🪣 " * 20),
    "English": ("Please go on with the next part of it. " * 4, "Well then, step by step. " * 24),
}
"""By script, what a user says in each turn and what the model replies."""


async def play_turns(
    platform: AgentService, session: str, window: ModelWindow, script: str, turns: int = TURNS
) -> None:
    """Play turns that must all complete."""
    question, window.reply = TEXTS[script]
    platform.provider.choose_behaviour = window.choose
    for number in range(turns):
        await platform.complete_turn(session, text=f"{number}. {question}")


async def list_overflows(platform: AgentService, session: str) -> list[ContextOverflow | None]:
    """Return what the provider named at each refusal, oldest first."""
    ended = await platform.load_events(session, AttemptEnded)
    faults = [each.fault for each in ended if each.fault]
    assert {each.code for each in faults} <= {"context_overflow"}
    return [each.overflow for each in faults]


@pytest.mark.slow("forty turns run over HTTP")
@pytest.mark.parametrize("adapter", ["litellm", "direct"])
@pytest.mark.parametrize("script", TEXTS)
async def test_session_in_any_script_never_meets_the_limit_of_its_model(
    platform: AgentService, script: str, adapter: ModelAdapter
) -> None:
    window = ModelWindow()
    session = await platform.open_shipped_session("assistant")
    async with use_adapter(platform, adapter):
        await play_turns(platform, session, window, script)
    assert await list_overflows(platform, session) == []
    assert window.refusals == 0
    calls = await platform.load_events(session, ContextAssembled)
    assert len(calls) == TURNS
    last = calls[-1].manifest
    assert last.tokens <= 8_000
    factor = last.counter.factor
    assert factor < 1.3 if script == "English" else factor > 1.5
    assert window.counts[-1] <= last.tokens <= window.counts[-1] * 1.25
    assert script == "English" or [step.step for step in last.steps] == ["drop_oldest_pairs"]


@pytest.mark.slow("forty turns run over HTTP")
async def test_session_that_changes_its_script_is_shortened_where_it_overflows(
    platform: AgentService,
) -> None:
    window = ModelWindow()
    session = await platform.open_shipped_session("assistant")
    for script in ("English", "Chinese", "code", "Thai", "emoji", "Arabic"):
        await play_turns(platform, session, window, script, 20)
    assert len(await list_overflows(platform, session)) == window.refusals <= 3


LONG = "请告诉我更多关于这件事情的内容。" * 40
"""A question of 640 tokens by the model's count, and 160 by that of the blueprint."""


async def overflow_once(platform: AgentService, window: ModelWindow) -> str:
    """Fill a session until its model refuses a prompt; the model reports no usage."""
    session = await platform.open_shipped_session("assistant")
    window.reply, window.reports_usage = "好的。" * 60, False
    platform.provider.choose_behaviour = window.choose
    while not window.refusals:
        await platform.complete_turn(session, text=LONG)
    return session


async def test_refused_prompt_is_shortened_once_and_the_refusal_recorded(
    platform: AgentService,
) -> None:
    window = ModelWindow()
    session = await overflow_once(platform, window)
    assert window.refusals == 1
    (overflow,) = await list_overflows(platform, session)
    refused, sent = window.counts[-2:]
    assert overflow == ContextOverflow(tokens=refused, limit=8_192)
    assert sent < 8_192 * 0.7
    *_, before, after = await platform.load_events(session, ContextAssembled)
    assert after.supersedes == before.call
    assert (after.manifest.lowered_by, after.manifest.budget) == (before.call, int(8_192 * 0.7))
    assert (after.manifest.counter.measured_in, before.manifest.budget) == (before.call, 8_000)
    (step,) = after.manifest.steps
    assert isinstance(step, AppliedTrimStep)
    assert step.before >= refused
    assert after.manifest.tokens >= sent


async def test_later_prompts_keep_to_what_the_model_takes(platform: AgentService) -> None:
    window = ModelWindow()
    session = await overflow_once(platform, window)
    for _ in range(6):
        await platform.complete_turn(session, text=LONG)
    assert window.refusals == 1
    last = (await platform.load_events(session, ContextAssembled))[-1].manifest
    assert last.budget == 8_192 * 7 // 8
    assert 8_192 // 2 < window.counts[-1] <= last.tokens <= last.budget


def render_explanation(why: dict[str, Any], prompt: dict[str, Any]) -> str:
    """Return what `turnlog why` prints of an explanation."""
    explanation = TypeAdapter(TurnExplanation).validate_python(why)
    console = Console(width=120, record=True, file=StringIO())
    console.print(render_why(explanation, RecordedPromptView.model_validate(prompt), 40))
    return console.export_text()


async def test_why_and_diff_name_the_refusal_and_the_provider_counts(
    platform: AgentService,
) -> None:
    window = ModelWindow()
    session = await overflow_once(platform, window)
    *_, before, after = await platform.load_events(session, ContextAssembled)
    path = f"/v1/sessions/{session}"
    why = await platform.fetch_json(f"{path}/calls/{after.call}/why")
    assert why["superseded"] == [before.call]
    refused = why["refused"]
    assert (refused["call"], refused["tokens"]) == (before.call, window.counts[-2])
    assert (refused["limit"], refused["by"]["event"]) == (8_192, "attempt-ended")
    counted = why["counted"]
    assert (counted["call"], counted["by"]) == (before.call, refused["by"])
    assert counted["factor"] == after.manifest.counter.factor > 3
    prompt = await platform.fetch_prompt(session, after.call)
    shown = render_explanation(why, prompt)
    assert f"instead of  call {before.call}, which was too long" in shown
    assert f"times {counted['factor']:g}, as the provider counted call {before.call}" in shown
    assert f"refused call {before.call} of {refused['tokens']:,} tokens" in shown
    diff = await platform.fetch_json(f"{path}/calls/{before.call}/diff/{after.call}")
    causes = {cause["what"] for change in diff["changes"] for cause in change["because"]}
    assert causes == {"refused", "counted"}


async def test_prompt_refused_twice_fails_with_what_the_provider_named(
    platform: AgentService,
) -> None:
    window = ModelWindow()
    session = await overflow_once(platform, window)
    window.tokens, window.refusals = 300, 0
    turn = await platform.submit_turn(session, text=LONG)
    assert (turn["status"], turn["reason"]) == ("failed", "context_overflow")
    assert window.refusals == 1, "what is left after the shortening is known to be too long"
    assert "the provider refused it as too long, and no step shortens it" in turn["detail"]
    assert "do not fit the 300 that the model has room for" in turn["detail"]


async def test_provider_that_refuses_every_prompt_is_asked_twice(platform: AgentService) -> None:
    window = ModelWindow()
    session = await overflow_once(platform, window)
    window.tokens, window.refusals = 1, 0
    window.describe = lambda _tokens, _limit: "This model's maximum context length is exceeded."
    turn = await platform.submit_turn(session, text=LONG)
    assert (turn["status"], turn["reason"]) == ("failed", "context_overflow")
    assert window.refusals == 2
    assert turn["detail"].endswith("; it was shortened once already")


async def test_call_without_a_budget_drops_its_oldest_turns_after_a_refusal(
    platform: AgentService,
) -> None:
    edits = {"    budget: window\n": "", "budget:\n  window:": "budget:\n  other:"}
    platform.copy_shipped_blueprint("assistant", "unbounded", edits)
    window = ModelWindow(tokens=3_000, reply="好的。" * 60)
    session = await platform.open_shipped_session("unbounded")
    platform.provider.choose_behaviour = window.choose
    for _ in range(12):
        await platform.complete_turn(session, text=LONG)
    assert window.refusals == 1
    calls = [each.manifest for each in await platform.load_events(session, ContextAssembled)]
    assert calls[0].budget is None
    assert (calls[-1].budget, calls[-1].lowered_by) == (3_000 * 7 // 8, "4.1")
    assert [step.step for step in calls[-1].steps] == ["drop_oldest_pairs"]
