"""Compression of repeats in the shipped `uderia`, on the example of its document and three others.

A question that was asked three times in a row is condensed at any size, the last exchange excepted;
above the 3,000 tokens of history the last six messages are. The saving is measured from the
manifest of the call that is read back over HTTP.
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


async def ask_short_questions(platform: AgentService, session: str) -> None:
    """Ask three other questions, so that what was asked before is no longer among the latest."""
    for question in ("Which was most?", "And how is the tide?", "Who has the watch?"):
        await platform.complete_turn(session, answer_with_text("The first."), text=question)


def list_texts(prompt: dict[str, Any]) -> list[str]:
    """Return the messages of a prompt after its system prompt."""
    return [each["content"] for each in prompt["messages"][1:]]


def measure_saving(prompt: dict[str, Any]) -> float:
    """Return the share of the condensed turns that condensing saved."""
    (part,) = [each for each in prompt["manifest"]["parts"] if each.get("rule") == "repeats"]
    assert part["treatment"] == "condensed"
    saved, tokens = float(part["saved"]), float(part["tokens"])
    return saved / (saved + tokens)


async def test_u11_three_price_queries_of_the_document_are_condensed_up_to_the_last(
    platform: AgentService,
) -> None:
    """The document has three short answers: 45, 28 and 12 products."""
    session = await platform.open_shipped_session("uderia", attributes={})
    for threshold, count in ((50, 45), (30, 28), (20, 12)):
        answer = f"There are {count} products:\n{build_table(count)}"
        platform.provider.queue_behaviours(answer_with_text(answer))
        await platform.complete_turn(session, text=f"Show products under ${threshold}")
    await platform.complete_turn(session, answer_with_text("The first."), text="Which is cheapest?")
    prompt = await platform.fetch_prompt(session, "4.1")
    assert list_texts(prompt) == [
        "Show products under … (2 times, in turn with: $50; $30)",
        "In turn: There are 45 products …; There are 28 products …",
        "Show products under $20",
        f"There are 12 products:\n{build_table(12)}",
        "Which is cheapest?",
    ]
    assert measure_saving(prompt) >= 0.5
    await platform.complete_turn(session, answer_with_text("No."), text="Are there others?")
    later = await platform.fetch_prompt(session, "5.1")
    assert list_texts(later) == [
        "Show products under … (3 times, in turn with: $50; $30; $20)",
        "In turn: There are 45 products …; There are 28 products …; There are 12 products …",
        *("Which is cheapest?", "The first.", "Are there others?"),
    ]
    assert measure_saving(later) >= 0.5
    assert "summary-begun" not in await platform.list_event_names(session)


async def test_u11_two_alike_questions_are_included_verbatim(platform: AgentService) -> None:
    session = await platform.open_shipped_session("uderia", attributes={})
    for threshold in (50, 30):
        answer = answer_with_text(f"There are 2 products:\n{build_table(2)}")
        await platform.complete_turn(session, answer, text=f"Show products under ${threshold}")
    await ask_short_questions(platform, session)
    prompt = await platform.fetch_prompt(session, "5.1")
    assert [each.get("rule") for each in prompt["manifest"]["parts"] if each.get("role")].count(
        "repeats"
    ) == 0
    assert list_texts(prompt)[:3:2] == ["Show products under $50", "Show products under $30"]


@pytest.mark.parametrize("name", EXAMPLES)
async def test_u11_older_repeated_question_is_condensed_before_a_summary_is_requested(
    platform: AgentService, name: str
) -> None:
    example = EXAMPLES[name]
    session = await platform.open_shipped_session("uderia", attributes={})
    await run_example(platform, session, example)
    await ask_short_questions(platform, session)
    await platform.complete_turn(session, answer_with_text("Yes."), text="Were these all of them?")
    prompt = await platform.fetch_prompt(session, "7.1")
    question, answer = list_texts(prompt)[:2]
    assert question == example.question
    if any(example.results):
        assert answer == f"In turn: {'; '.join(example.results)}"
    else:
        assert answer.endswith("(each time, in turn with: 1999; 2004; 2011)")
    assert len(prompt["messages"]) == 1 + 2 + 6 + 1
    assert measure_saving(prompt) >= 0.5
    assert "summary-begun" not in await platform.list_event_names(session)


@pytest.mark.parametrize("rows", [5, 45, 140])
async def test_u11_after_ten_price_questions_the_last_six_messages_stand_beside_one_digest(
    platform: AgentService, rows: int
) -> None:
    """Of 70, 700 and 2,100 tokens an answer: within the limit, above it, and above the whole."""
    session = await platform.open_shipped_session("uderia", attributes={})
    answers = {n: f"There are {n + rows} products:\n{build_table(n + rows)}" for n in range(1, 11)}
    for number, answer in answers.items():
        platform.provider.queue_behaviours(answer_with_text(answer))
        await platform.complete_turn(session, text=f"Show products under ${number}0")
    await platform.complete_turn(session, answer_with_text("Yes."), text="Which was cheapest?")
    prompt = await platform.fetch_prompt(session, "11.1")
    digest, results, *latest = list_texts(prompt)
    first = 10 if rows < 45 else 8
    thresholds = "; ".join(f"${n}0" for n in range(1, first))
    assert digest == f"Show products under … ({first - 1} times, in turn with: {thresholds})"
    counts = "; ".join(f"There are {n + rows} products …" for n in range(1, first))
    assert results == f"In turn: {counts}"
    expected = [
        text for n in range(first, 11) for text in (f"Show products under ${n}0", answers[n])
    ]
    assert latest == [*expected, "Which was cheapest?"]
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
    for question in ("Which was most?", "How is the tide?", "Who has the watch?", "And now?"):
        answers = (answer_with_plan(), answer_with_text("Berlin."))
        await platform.complete_turn(session, *answers, text=question)
    prompt = await platform.fetch_prompt(session, "7.1")
    texts = [each["content"] for each in prompt["messages"]]
    assert texts[1] == example.question
    assert texts[2] == f"In turn: {'; '.join(example.results)}"
    assert measure_saving(prompt) >= 0.5
