"""Compression of repeats in the shipped `uderia`, on the example of its document and three others.

Where history has more than its 3,000 tokens, repeated questions are condensed before a summary is
paid for. The saving is measured from the manifest of the call that is read back over HTTP.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_plan,
    answer_with_text,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedQuestion:
    """A question that is asked three times, and what becomes of it."""

    template: str
    values: tuple[str, str, str]
    answers: tuple[str, str, str]
    question: str
    """The merged question."""
    results: tuple[str, str, str]
    """What is left of each answer."""


def build_table(rows: int) -> str:
    """Return a table of products in Markdown."""
    head = "| product | price | stock |\n|---|---|---|\n"
    return head + "\n".join(f"| product number {n} | ${n}.00 | {n + 7} |" for n in range(rows))


def build_report(city: str, millions: str, season: str) -> str:
    """Return a report in prose, without any table."""
    more = f"The shops of {city} did what the {season} has them do, and the staff says so. " * 70
    return f"Sales in {city} went well. They came to {millions} million euros this year. {more}"


EXAMPLES = {
    "prices": RepeatedQuestion(
        template="Show products under {}",
        values=("$50", "$30", "$20"),
        answers=tuple(f"There are {n} products:\n{build_table(n)}" for n in (95, 78, 62)),  # type: ignore[arg-type]
        question="Show products under … (3 times, in turn with: $50; $30; $20)",
        results=("There are 95 products …", "There are 78 products …", "There are 62 products …"),
    ),
    "cities": RepeatedQuestion(
        template="Show sales in {}",
        values=("Berlin", "Paris", "Rome"),
        answers=(
            build_report("Berlin", "4.2", "spring"),
            build_report("Paris", "3.9", "summer"),
            build_report("Rome", "2.5", "autumn"),
        ),
        question="Show sales in … (3 times, in turn with: Berlin; Paris; Rome)",
        results=tuple(  # type: ignore[arg-type]
            f"Sales in {city} went well. They came to {millions} million euros this year. …"
            for city, millions in (("Berlin", "4.2"), ("Paris", "3.9"), ("Rome", "2.5"))
        ),
    ),
    "dates": RepeatedQuestion(
        template="What was late on {}, ship by ship?",
        values=("3 May 2026", "4 May 2026", "5 May 2026"),
        answers=tuple(build_table(n) for n in (88, 91, 79)),  # type: ignore[arg-type]
        question="What was late on …, ship by ship? "
        "(3 times, in turn with: 3 May 2026; 4 May 2026; 5 May 2026)",
        results=("(rows: 88)", "(rows: 91)", "(rows: 79)"),
    ),
    "titles": RepeatedQuestion(
        template='Who wrote the report "{}" and when?',
        values=("Tides", "Winds of March", "Fog"),
        answers=tuple(  # type: ignore[arg-type]
            f"The report was written in {year} by the harbour office. " + "It has chapters. " * 260
            for year in (1999, 2004, 2011)
        ),
        question='Who wrote the report … and when? (3 times, in turn with: "Tides"; '
        '"Winds of March"; "Fog")',
        results=("", "", ""),
    ),
}


async def run_example(platform: AgentService, session: str, example: RepeatedQuestion) -> None:
    """Ask the question three times."""
    for value, answer in zip(example.values, example.answers, strict=True):
        platform.provider.queue_behaviours(answer_with_text(answer))
        await platform.complete_turn(session, text=example.template.format(value))


def measure_saving(prompt: dict[str, Any]) -> float:
    """Return the share of history that condensing saved."""
    (step,) = [each for each in prompt["manifest"]["steps"] if each["on"] in {"chat", "workflow"}]
    assert (step["step"], step["component"]) == ("condense_repeats", "history")
    before, after = int(step["before"]), int(step["after"])
    return 1 - after / before


@pytest.mark.parametrize("name", EXAMPLES)
async def test_u11_repeated_question_is_condensed_before_a_summary_is_requested(
    platform: AgentService, name: str
) -> None:
    example = EXAMPLES[name]
    session = await platform.open_shipped_session("uderia", attributes={})
    await run_example(platform, session, example)
    await platform.complete_turn(session, answer_with_text("The first."), text="Which was most?")
    prompt = await platform.fetch_prompt(session, "4.1")
    question, answer = (each["content"] for each in prompt["messages"][1:3])
    assert question == example.question
    if any(example.results):
        assert answer == f"In turn: {'; '.join(example.results)}"
    else:
        assert answer.endswith("(each time, in turn with: 1999; 2004; 2011)")
    assert len(prompt["messages"]) == 4
    assert measure_saving(prompt) >= 0.5
    assert "summary-begun" not in await platform.list_event_names(session)


async def test_u11_ten_price_questions_in_a_row_need_no_summary(platform: AgentService) -> None:
    session = await platform.open_shipped_session("uderia", attributes={})
    for number in range(1, 11):
        answer = f"There are {number + 40} products:\n{build_table(number + 40)}"
        platform.provider.queue_behaviours(answer_with_text(answer))
        await platform.complete_turn(session, text=f"Show products under ${number}0")
    await platform.complete_turn(session, answer_with_text("Yes."), text="Were these all of them?")
    prompt = await platform.fetch_prompt(session, "11.1")
    assert "(10 times, in turn with: $10; $20; $30;" in prompt["messages"][1]["content"]
    assert "There are 50 products …" in prompt["messages"][2]["content"]
    (step,) = prompt["manifest"]["steps"]
    assert step["before"] > 4_000, "verbatim, a summary would have been due"
    assert "summary-begun" not in await platform.list_event_names(session)


async def test_u11_activity_of_a_repeated_question_is_omitted(
    platform: AgentService,
) -> None:
    session = await platform.open_shipped_session("uderia", attributes={}, profile="tool_enabled")
    example = EXAMPLES["cities"]
    for value, answer in zip(example.values, example.answers, strict=True):
        plan = answer_with_plan((f"Find the sales of {value}.", []))
        await platform.complete_turn(
            session,
            *(plan, answer_with_text("None."), answer_with_text(answer)),
            text=example.template.format(value),
        )
    platform.provider.queue_behaviours(answer_with_plan(), answer_with_text("Berlin."))
    await platform.complete_turn(session, text="Which was most?")
    prompt = await platform.fetch_prompt(session, "4.1")
    texts = [each["content"] for each in prompt["messages"]]
    assert texts[1] == example.question
    assert texts[2] == f"In turn: {'; '.join(example.results)}"
    assert measure_saving(prompt) >= 0.5
