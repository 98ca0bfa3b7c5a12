"""Summaries: a model summarises the messages before the last ones, and a summary can be undone."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.agent_programs.agent_harness import AgentHarness, build_agent_blueprint
from tests.support.sessions.puppet_model import ScriptStep
from tests.support.sessions.session_harness import TENANT, TESTER
from turnlog.events.async_tasks import cancel_tasks
from turnlog.events.content import PlainText
from turnlog.events.errors import Refused
from turnlog.events.model.call_events import (
    AttemptStarted,
    CallCompleted,
    ContextAssembled,
    ContextOverflow,
)
from turnlog.events.model.memory_events import (
    HistorySummarised,
    MemoryPurged,
    SummaryBegun,
    SummaryFailed,
    SummaryTrigger,
    SummaryUndone,
    TurnRange,
)
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.prompt.assembly_inputs import PromptCall
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import (
    BeginSummary,
    ExcludeTurn,
    PurgeMemory,
    RestoreTurn,
    UndoSummary,
)
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.turn_commands import RedactReply
from turnlog.services.model_facts.model_dialects import ModelDialects
from turnlog.services.sessions.command_handler import CommandHandler, CommandOutcome
from turnlog.services.sessions.prompt_inputs import (
    NOTHING_UNRECORDED,
    PromptInputLoader,
    PromptInputs,
    UnrecordedInputs,
)
from turnlog.services.worker.model.model_types import ModelFailure
from turnlog.services.worker.turn_delivery import DeliverySettled

LONG = "word " * 20
"""100 characters."""


def build_summarising_blueprint(
    above: int | None = 500, sum_budget: int | None = None, **window: object
) -> Blueprint:
    """Return a blueprint that summarises all but the last two turns; a character is a token.

    `sum_budget` are the tokens that the call which summarises may have; None without a budget.
    """
    counter = {"chars_per_token": 1}
    made: dict[str, Any] = {
        "layers": {
            "rules": {"text": "Be brief.", "keep": "always"},
            "sum_up": {"text": "Sum up what was said."},
        },
        "calls": {
            "reply": {
                "messages": [{"system": ["rules"]}, {"history": "recent"}, {"user": ["input"]}],
                "budget": "window",
            },
            "summarise": {
                "messages": [{"history": "older"}, {"user": ["sum_up"]}],
                **({"budget": "sum"} if sum_budget else {}),
            },
        },
        "history": {
            "recent": {
                "summary": {
                    **({"above_tokens": above} if above else {}),
                    "keep_messages": 4,
                    "call": "summarise",
                }
            },
            "older": {"of": "selected"},
        },
        "budget": {
            "window": {
                "tokens": 2000,
                "counter": counter,
                "ladder": [{"drop_oldest_pairs": {}}],
                **window,
            },
            **({"sum": {"tokens": sum_budget, "counter": counter}} if sum_budget else {}),
        },
        "tools": None,
        "profiles": {"talk": {"default": True, "call": "reply"}},
    }
    return build_agent_blueprint(**made)


async def run_turns(turns: int, kind: Blueprint | None = None) -> AgentHarness:
    """Run `turns` turns of two hundred characters each."""
    shop = await AgentHarness(kind=kind or build_summarising_blueprint()).open_session()
    for number in range(1, turns + 1):
        await run_numbered_turn(shop, number)
    return shop


async def run_numbered_turn(shop: AgentHarness, number: int, *scripts: list[ScriptStep]) -> None:
    """Run a turn; `scripts` come before the reply."""
    await shop.run_turn(*scripts, [f"reply {number} {LONG}"], text=f"turn {number} {LONG}")


async def test_older_history_is_summarised_by_a_separate_call_before_the_reply() -> None:
    shop = await run_turns(3)
    await run_numbered_turn(shop, 4, ["They spoke of words."])
    (begun,) = shop.list_events(SummaryBegun)
    assert begun.turns == (TurnRange(first=1, last=1),)
    (made,) = shop.list_events(HistorySummarised)
    assert (made.view, made.summary) == ("recent", PlainText(text="They spoke of words."))
    assert (made.call, made.model, made.former) == ("4.1", "puppet/one", None)
    assert made.inputs == shop.list_events(ContextAssembled)[3].manifest.digest
    assert made.cost.micro_dollars is not None
    calls = [each.manifest.kind for each in shop.list_events(ContextAssembled)]
    assert calls == ["reply", "reply", "reply", "summarise", "reply"]
    assert shop.get_request_texts(3) == [
        f"turn 1 {LONG}",
        f"reply 1 {LONG}",
        "Sum up what was said.",
    ]
    roles = [each["role"] for each in shop.house.model.requests[4].messages]
    assert roles == ["system", *["user", "assistant"] * 2, "user"]
    check_window(shop.get_request_texts(4), "They spoke of words.", f"turn 2 {LONG}")


def limit_context(shop: AgentHarness, folder: Path, tokens: int) -> None:
    """Let a file of dialects say how many tokens the model takes."""
    file = folder / "dialects.yaml"
    file.write_text(f"puppet/*: {{context_tokens: {tokens}}}\n")
    shop.house.dialects = ModelDialects(file)


async def run_turns_with_context(folder: Path, tokens: int, kind: Blueprint) -> AgentHarness:
    """Run six turns of a model that a file of dialects says takes so many tokens."""
    shop = await AgentHarness(kind=kind).open_session()
    limit_context(shop, folder, tokens)
    for number in range(1, 7):
        shop.house.model.scripts = []
        submitted = await shop.house.submit_turn(f"turn {number} {LONG}")
        assert await shop.house.run_turn(submitted) == DeliverySettled()
    return shop


async def test_turns_that_the_model_has_no_room_for_are_summarised_and_not_dropped(
    tmp_path: Path,
) -> None:
    kind = build_summarising_blueprint(above=100_000)
    shop = await run_turns_with_context(tmp_path, 500, kind)
    begun = shop.list_events(SummaryBegun)
    assert {(each.trigger.of, each.trigger.limit) for each in begun} == {("prompt", 500)}
    assert begun[0].trigger.tokens > 500
    assert begun[0].turns == (TurnRange(first=1, last=2),)
    prompts = [each.manifest for each in shop.list_events(ContextAssembled)]
    assert all(not each.steps for each in prompts if each.kind == "reply")


@pytest.mark.parametrize(
    ("above", "sum_budget", "last"),
    [
        (100_000, None, 3),
        (100_000, 2_000, 3),
        (300, None, 3),
        (300, 2_000, 2),
    ],
)
async def test_summary_covers_half_of_what_its_model_takes_or_what_the_view_may_have(
    above: int, sum_budget: int | None, last: int, tmp_path: Path
) -> None:
    """The former summary needs room as well; a call without a budget goes by its model alone."""
    kind = build_summarising_blueprint(above, sum_budget)
    shop = await AgentHarness(kind=kind).open_session()
    for number in range(1, 7):
        refused: list[list[ScriptStep]] = [[ModelFailure("unauthorised")]]
        refused = refused if above == 300 and number > 3 else []
        await run_numbered_turn(shop, number, *refused)
    limit_context(shop, tmp_path, 1_000)
    await run_numbered_turn(shop, 7, ["They spoke of words."])
    assert shop.list_events(SummaryBegun)[-1].turns == (TurnRange(first=1, last=last),)
    (made,) = shop.list_events(HistorySummarised)
    assert made.summary == PlainText(text="They spoke of words.")


async def test_summary_refused_as_too_long_covers_fewer_turns_the_next_time() -> None:
    shop = await run_turns(3)
    await run_numbered_turn(shop, 4, [ModelFailure("unauthorised")])
    overflow = ContextOverflow(tokens=430, limit=300)
    await run_numbered_turn(shop, 5, [ModelFailure("context_overflow", overflow=overflow)])
    await run_numbered_turn(shop, 6, ["They spoke of words."])
    begun = [each.turns for each in shop.list_events(SummaryBegun)]
    assert begun == [(TurnRange(first=1, last=last),) for last in (1, 2, 1)]
    codes = [each.code for each in shop.list_events(SummaryFailed)]
    assert codes == ["unauthorised", "context_overflow"]
    assert len(shop.list_events(TurnCompleted)) == 6


def check_window(texts: list[str], summary: str, *following: str) -> None:
    """Require that the system message ends with a summary, and what the next messages are."""
    assert texts[0].endswith(f"\n\n{summary}")
    assert texts[1 : 1 + len(following)] == list(following)


async def fetch_next_window(shop: AgentHarness) -> list[str]:
    """Run a turn that fails and return the messages of its prompt."""
    submitted = await shop.house.submit_turn("and now?")
    shop.house.model.scripts = [[ModelFailure("bad_request", "no")]] * 2
    await shop.house.run_turn(submitted)
    return shop.get_request_texts(-1)


async def test_undone_summary_restores_previous_window_byte_for_byte() -> None:
    shop, plain = await run_turns(3), await run_turns(3, build_summarising_blueprint(above=100_000))
    await run_numbered_turn(shop, 4, ["They spoke of words."])
    await run_numbered_turn(plain, 4)
    (made,) = [e for e in shop.house.list_events() if isinstance(e.event, HistorySummarised)]
    check_window(await fetch_next_window(shop), "They spoke of words.")
    # The failed turn that showed it stays in later prompts.
    await fetch_next_window(plain)
    await shop.house.sessions.handle(TENANT, "s", UndoSummary(made.sequence), TESTER)
    assert await fetch_next_window(shop) == await fetch_next_window(plain)


async def test_view_is_not_summarised_after_undo_until_it_has_grown_again() -> None:
    shop = await run_turns(3)
    await run_numbered_turn(shop, 4, ["They spoke of words."])
    (made,) = [e for e in shop.house.list_events() if isinstance(e.event, HistorySummarised)]
    await shop.house.sessions.handle(TENANT, "s", UndoSummary(made.sequence), TESTER)
    await run_numbered_turn(shop, 5)
    await run_numbered_turn(shop, 6)
    await run_numbered_turn(shop, 7)
    assert len(shop.list_events(SummaryBegun)) == 1
    await run_numbered_turn(shop, 8, ["They spoke on."])
    assert shop.list_events(SummaryBegun)[1].turns[0].first == 1


async def test_summary_absorbs_previous_summary_and_undo_restores_it() -> None:
    shop = await run_turns(3)
    await run_numbered_turn(shop, 4, ["They spoke of words."])
    await run_numbered_turn(shop, 5, ["They spoke of words, and again."])
    first, second = [e for e in shop.house.list_events() if isinstance(e.event, HistorySummarised)]
    assert shop.list_events(HistorySummarised)[1].former == first.sequence
    assert shop.get_request_texts(-2)[0] == "They spoke of words."
    check_window(shop.get_request_texts(-1), "They spoke of words, and again.")
    with pytest.raises(Refused, match="includes it"):
        await shop.house.sessions.handle(TENANT, "s", UndoSummary(first.sequence), TESTER)
    await shop.house.sessions.handle(TENANT, "s", UndoSummary(second.sequence), TESTER)
    check_window(await fetch_next_window(shop), "They spoke of words.")


async def test_turn_excluded_while_its_summary_is_begun_is_not_summarised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop = await run_turns(3)
    handle, excluded = CommandHandler.handle, asyncio.Event()

    async def exclude_first(handler: CommandHandler, *words: Any, **more: Any) -> CommandOutcome:  # noqa: ANN401 - the handler's own
        if isinstance(words[2], BeginSummary) and not excluded.is_set():
            excluded.set()
            await handle(handler, TENANT, "s", ExcludeTurn(1), TESTER)
        return await handle(handler, *words, **more)

    monkeypatch.setattr(CommandHandler, "handle", exclude_first)
    await run_numbered_turn(shop, 4)
    assert excluded.is_set()
    assert not shop.list_events(SummaryBegun)
    assert f"turn 2 {LONG}" in shop.get_request_texts(-1)
    assert len(shop.list_events(TurnCompleted)) == 4


@pytest.mark.parametrize("cause", ["excluded", "redacted"])
async def test_excluding_or_redacting_a_summarised_turn_undoes_the_summary(cause: str) -> None:
    shop = await run_turns(3)
    await run_numbered_turn(shop, 4, ["They spoke of words."])
    taken = ExcludeTurn(1) if cause == "excluded" else RedactReply(1, "names", "operator", "-")
    await shop.house.sessions.handle(TENANT, "s", taken, TESTER)
    (undone,) = shop.list_events(SummaryUndone)
    assert (undone.cause, undone.turn) == (cause, 1)
    await run_numbered_turn(shop, 5, ["They spoke of less."])
    assert f"reply 1 {LONG}" not in shop.get_request_texts(-1)
    assert "They spoke of words." not in str(shop.get_request_texts(-1))


async def test_restored_turn_is_included_beside_the_summary() -> None:
    shop = await run_turns(1)
    await shop.house.sessions.handle(TENANT, "s", ExcludeTurn(1), TESTER)
    for number in (2, 3, 4):
        await run_numbered_turn(shop, number)
    await run_numbered_turn(shop, 5, ["They spoke of words."])
    assert shop.list_events(HistorySummarised)[0].turns == (TurnRange(first=2, last=2),)
    await shop.house.sessions.handle(TENANT, "s", RestoreTurn(1), TESTER)
    check_window(await fetch_next_window(shop), "They spoke of words.", f"turn 1 {LONG}")


FAILURES: dict[str, list[ScriptStep]] = {
    "server_error": [ModelFailure("server_error", "busy")],
    "empty": ["  "],
    "no-shorter": [LONG * 3],
}


@pytest.mark.parametrize("code", FAILURES)
async def test_failed_summary_does_not_block_the_turn_and_next_turn_retries_it(
    code: str,
) -> None:
    shop = await run_turns(3)
    await run_numbered_turn(shop, 4, FAILURES[code])
    (failed,) = shop.list_events(SummaryFailed)
    assert (failed.turn, failed.view, failed.code) == (4, "recent", code)
    assert shop.get_request_texts(-1)[1] == f"turn 1 {LONG}"
    assert [each.call for each in shop.list_events(AttemptStarted)][-2:] == ["4.1", "4.2"]
    await run_numbered_turn(shop, 5, ["They spoke of words."])
    check_window(shop.get_request_texts(-1), "They spoke of words.")


async def test_summary_of_turn_excluded_while_it_was_written_is_discarded() -> None:
    shop = await run_turns(3)
    summary_requested, hold = asyncio.Event(), asyncio.Event()
    shop.house.model.scripts = [[summary_requested.set, hold, "They spoke of words."], ["Well."]]
    submitted = await shop.house.submit_turn(f"turn 4 {LONG}")
    answering = asyncio.create_task(shop.house.run_turn(submitted))
    await summary_requested.wait()
    await shop.house.sessions.handle(TENANT, "s", ExcludeTurn(1), TESTER)
    hold.set()
    await answering
    (failed,) = shop.list_events(SummaryFailed)
    assert failed.code == "withdrawn"
    assert shop.list_events(HistorySummarised) == []
    assert "They spoke of words." not in str(shop.get_request_texts(-1))


async def test_worker_taking_over_completes_the_same_summary() -> None:
    shop = await run_turns(3)
    summary_requested = asyncio.Event()
    shop.house.model.scripts = [["half of", summary_requested.set, asyncio.Event()]]
    submitted = await shop.house.submit_turn(f"turn 4 {LONG}")
    lost = asyncio.create_task(shop.house.run_turn(submitted))
    await summary_requested.wait()
    await cancel_tasks(lost)
    shop.house.model.scripts = [["They spoke of words."], ["Well."]]
    await shop.take_over_turn(submitted)
    assert len(shop.list_events(SummaryBegun)) == len(shop.list_events(HistorySummarised)) == 1
    calls = [each.call for each in shop.list_events(ContextAssembled)]
    assert calls == ["1.1", "2.1", "3.1", "4.1", "4.2"]
    assert len(shop.list_events(CallCompleted)) == 5


async def test_worker_taking_over_requests_no_summary_of_excluded_turns() -> None:
    """Of the turns to summarise none may be left, and a model cannot be sent an empty prompt."""
    shop = await run_turns(3)
    summary_requested = asyncio.Event()
    shop.house.model.scripts = [["half of", summary_requested.set, asyncio.Event()]]
    submitted = await shop.house.submit_turn(f"turn 4 {LONG}")
    lost = asyncio.create_task(shop.house.run_turn(submitted))
    await summary_requested.wait()
    await cancel_tasks(lost)
    (begun,) = shop.list_events(SummaryBegun)
    for turns in begun.turns:
        for turn in range(turns.first, turns.last + 1):
            await shop.house.sessions.handle(TENANT, "s", ExcludeTurn(turn), TESTER)
    shop.house.model.scripts = [["Well."]]
    await shop.take_over_turn(submitted)
    (failed,) = shop.list_events(SummaryFailed)
    assert (failed.turn, failed.code) == (4, "withdrawn")
    calls = [each.call for each in shop.list_events(ContextAssembled)]
    assert calls == ["1.1", "2.1", "3.1", "4.1", "4.2"]
    assert [each.turn for each in shop.list_events(TurnCompleted)] == [1, 2, 3, 4]


async def test_purge_excludes_all_turns_from_the_window_and_is_recorded_once() -> None:
    shop = await run_turns(3)
    await run_numbered_turn(shop, 4, ["They spoke of words."])
    await shop.house.sessions.handle(TENANT, "s", PurgeMemory(), TESTER)
    await shop.house.sessions.handle(TENANT, "s", PurgeMemory(), TESTER)
    assert shop.list_events(MemoryPurged) == [MemoryPurged(upto=4)]
    assert await fetch_next_window(shop) == ["Be brief.", "and now?"]
    out = [
        part.rule
        for part in shop.list_events(ContextAssembled)[-1].manifest.parts
        if not part.is_included
    ]
    assert out == ["purged"]


async def test_purge_is_refused_while_a_turn_is_open() -> None:
    shop = await run_turns(1)
    await shop.house.submit_turn("wait")
    with pytest.raises(Refused) as refused:
        await shop.house.sessions.handle(TENANT, "s", PurgeMemory(), TESTER)
    assert refused.value.code == "turn-open"


async def test_view_limit_takes_precedence_over_component_limit_for_summaries() -> None:
    limits: dict[str, Any] = {"history": {"tokens": 500, "ladder": [{"summarise": {}}]}}
    shop = await run_turns(4, build_summarising_blueprint(above=700, components=limits))
    assert len(shop.get_request_texts(-1)) == 1 + 3 * 2 + 1, "645 tokens of history stand whole"
    await run_numbered_turn(shop, 5, ["They spoke of words."])
    check_window(shop.get_request_texts(-1), "They spoke of words.")


async def test_history_shortened_enough_by_earlier_steps_is_not_summarised() -> None:
    ladder: list[dict[str, Any]] = [{"condense_repeats": {}}, {"summarise": {}}]
    limits: dict[str, Any] = {"history": {"tokens": 700, "ladder": ladder}}
    shop = await run_turns(8, build_summarising_blueprint(above=700, components=limits))
    assert shop.list_events(SummaryBegun) == []
    assert "times, in turn with: 1; 2; 3; 4; 5" in shop.get_request_texts(-1)[1]
    for question in ("And who counts them?", "And to what end?", "And for how long?"):
        await shop.run_turn([f"Hm. {LONG * 4}"], text=question)
    assert shop.list_events(SummaryBegun) == [], "all that is older is condensed"
    await shop.run_turn(["They counted."], ["Well."], text="And then?")
    (begun,) = shop.list_events(SummaryBegun)
    assert begun.turns[-1].last == 9


def build_ladder_blueprint(*ladder: str, history: int | None = None) -> Blueprint:
    """Return a blueprint whose view has no limit of its own: the ladder says what is too long.

    The ladder is that of the component `history` with so many tokens, or of the whole prompt.
    """
    steps: list[dict[str, Any]] = [
        {"trim": {"layer": "notes", "chars": [100]}} if step == "trim" else {step: {}}
        for step in ladder
    ]
    limits: dict[str, Any] = {"tokens": 900, "ladder": steps}
    if history:
        limits = {"tokens": 3_000, "components": {"history": {"tokens": history, "ladder": steps}}}
    plain = build_summarising_blueprint(None, **limits).model_dump(
        mode="json", by_alias=True, exclude_unset=True
    )
    plain["layers"]["notes"] = {"text": "A note. " * 40 if "trim" in ladder else "A note."}
    plain["calls"]["reply"]["messages"][0] = {"system": ["rules", "notes"]}
    return Blueprint.model_validate(plain)


async def test_view_without_limit_is_summarised_above_limit_of_its_component() -> None:
    shop = await run_turns(3, build_ladder_blueprint("summarise", history=500))
    assert shop.list_events(SummaryBegun) == []
    await run_numbered_turn(shop, 4, ["They spoke of words."])
    (begun,) = shop.list_events(SummaryBegun)
    assert begun.trigger == SummaryTrigger(of="component", tokens=645, limit=500)
    check_window(shop.get_request_texts(-1), "They spoke of words.", f"turn 2 {LONG}")


async def test_trim_runs_before_summarise_and_summary_follows_if_still_too_long() -> None:
    ladder = ("trim", "summarise", "drop_oldest_pairs")
    shop = await run_turns(4, build_ladder_blueprint(*ladder))
    steps = [
        [step.step for step in each.manifest.steps] for each in shop.list_events(ContextAssembled)
    ]
    assert steps == [[], [], [], ["trim"]], "the first step suffices, so no model is asked"
    assert shop.list_events(SummaryBegun) == []
    await run_numbered_turn(shop, 5, ["They spoke of words."])
    (begun,) = shop.list_events(SummaryBegun)
    assert begun.turns == (TurnRange(first=1, last=2),)
    assert begun.trigger is not None
    assert (begun.trigger.of, begun.trigger.limit) == ("prompt", 900)
    assert [(each.step, each.on) for each in begun.trigger.steps] == [("trim", "notes")]
    assert begun.trigger.steps[0].after == begun.trigger.tokens > 900
    last = shop.list_events(ContextAssembled)[-1].manifest
    assert [step.step for step in last.steps] == []
    check_window(shop.get_request_texts(-1), "They spoke of words.")


@pytest.mark.parametrize(
    "ladder", [("summarise", "drop_oldest_pairs"), ("drop_oldest_pairs", "summarise")]
)
async def test_order_of_ladder_steps_decides_whether_turns_are_summarised_or_dropped(
    ladder: tuple[str, ...],
) -> None:
    shop = await run_turns(4, build_ladder_blueprint(*ladder))
    summary: list[list[ScriptStep]] = [["They spoke of words."]]
    await run_numbered_turn(shop, 5, *(summary if ladder[0] == "summarise" else ()))
    rules = {part.rule for part in shop.list_events(ContextAssembled)[-1].manifest.parts}
    assert ("summarised" in rules, "drop_oldest_pairs" in rules) == (
        (True, False) if ladder[0] == "summarise" else (False, True)
    )
    assert len(shop.list_events(SummaryBegun)) == (ladder[0] == "summarise")


async def test_ladder_steps_after_a_failed_summary_are_applied() -> None:
    shop = await run_turns(4, build_ladder_blueprint("summarise", "drop_oldest_pairs"))
    await run_numbered_turn(shop, 5, [ModelFailure("server_error", "busy")])
    (failed,) = shop.list_events(SummaryFailed)
    assert failed.code == "server_error"
    last = shop.list_events(ContextAssembled)[-1].manifest
    assert [step.step for step in last.steps] == ["drop_oldest_pairs"]


async def test_undone_summary_is_not_repeated_while_the_rest_of_the_prompt_is_short() -> None:
    shop = await run_turns(4, build_ladder_blueprint("summarise", "drop_oldest_pairs"))
    await run_numbered_turn(shop, 5, ["They spoke of words."])
    (made,) = [e for e in shop.house.list_events() if isinstance(e.event, HistorySummarised)]
    await shop.house.sessions.handle(TENANT, "s", UndoSummary(made.sequence), TESTER)
    await run_numbered_turn(shop, 6)
    assert len(shop.list_events(SummaryBegun)) == 1
    last = shop.list_events(ContextAssembled)[-1].manifest
    assert [step.step for step in last.steps] == ["drop_oldest_pairs"]


async def test_summary_is_dropped_last_of_the_history() -> None:
    shop = await run_turns(3, build_summarising_blueprint(tokens=520))
    await run_numbered_turn(shop, 4, ["They spoke of words."])
    check_window(shop.get_request_texts(-1), "They spoke of words.")
    await shop.run_turn(["They spoke of words, and again."], ["Yes."], text="x" * 500)
    assert shop.get_request_texts(-1) == ["Be brief.", "x" * 500]
    parts = shop.list_events(ContextAssembled)[-1].manifest.parts
    history = [(part.rule, part.treatment) for part in parts if part.component == "history"]
    assert history[0] == ("drop_oldest_pairs", "dropped")


async def test_undoing_summaries_restores_turns_however_old() -> None:
    shop, plain = await run_turns(3), await run_turns(3, build_summarising_blueprint(above=100_000))
    for number in range(4, 16):
        await run_numbered_turn(shop, number, [f"They spoke of {number} words."])
        await run_numbered_turn(plain, number)
    assert (await shop.house.load_state()).earlier
    made = [e.sequence for e in shop.house.list_events() if isinstance(e.event, HistorySummarised)]
    for sequence in reversed(made[-7:]):
        await shop.house.sessions.handle(TENANT, "s", UndoSummary(sequence), TESTER)
    with pytest.raises(Refused, match="too old to be restored"):
        await shop.house.sessions.handle(TENANT, "s", UndoSummary(made[-8]), TESTER)
    for each in (shop, plain):
        await each.house.sessions.handle(TENANT, "s", ExcludeTurn(1), TESTER)
    assert (await shop.house.load_state()).summaries == ()
    assert await fetch_next_window(shop) == await fetch_next_window(plain)


class CountingInputLoader(PromptInputLoader):
    """A loader that counts how often the inputs of a call were loaded."""

    loads: ClassVar[int] = 0

    async def load_new_call(
        self,
        material: SessionMaterial,
        state: SessionState,
        call: PromptCall,
        unrecorded: UnrecordedInputs = NOTHING_UNRECORDED,
        *,
        at_call_time: bool = False,
    ) -> PromptInputs:
        """See `PromptInputLoader.load_new_call`."""
        CountingInputLoader.loads += 1
        loading = PromptInputLoader.load_new_call(
            self, material, state, call, unrecorded, at_call_time=at_call_time
        )
        return await loading


async def test_prompt_inputs_of_a_measured_call_are_loaded_once() -> None:
    limits: dict[str, Any] = {"history": {"tokens": 1500, "ladder": [{"summarise": {}}]}}
    shop = await run_turns(3, build_summarising_blueprint(None, components=limits))
    worker, before = shop.house.build_worker(), CountingInputLoader.loads
    loader = worker.contexts.prompt_inputs
    counting = CountingInputLoader(loader.command_handler, loader.segment_fetcher)
    worker.contexts = replace(worker.contexts, prompt_inputs=counting)
    submitted = await shop.house.submit_turn(f"turn 4 {LONG}")
    shop.house.model.scripts = [["A reply."]]
    assert await shop.house.run_turn(submitted, worker) == DeliverySettled()
    assert shop.list_events(SummaryBegun) == []
    assert len(shop.house.model.requests[-1].messages) == 8
    assert CountingInputLoader.loads - before == 1
