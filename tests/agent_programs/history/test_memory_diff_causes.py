"""Why two prompts differ after a summary, an undone summary or a purge."""

from __future__ import annotations

from tests.agent_programs.agent_harness import AgentHarness
from tests.agent_programs.history.test_summaries import run_numbered_turn, run_turns
from tests.support.sessions.session_harness import TENANT, TESTER
from turnlog.events.model.memory_events import HistorySummarised
from turnlog.projections.audit.diff.call_diff import PromptChange, compare_calls
from turnlog.projections.audit.explain.call_snapshot import build_call_snapshot
from turnlog.projections.audit.record.partial_log import build_complete_log
from turnlog.projections.session.commands import ExcludeTurn, PurgeMemory, UndoSummary


def list_history_changes(
    shop: AgentHarness, left: str, right: str
) -> dict[str, list[tuple[str, list[str]]]]:
    """Give what differs between two calls in the history, each with why and by which events."""
    events = build_complete_log(shop.house.list_events())
    found = compare_calls(
        build_call_snapshot(events, left), build_call_snapshot(events, right)
    ).changes
    return {_format_change(each): _list_reasons(each) for each in found if each.layer == "history"}


def _format_change(change: PromptChange) -> str:
    return f"{change.what} {change.first or 'summary'}"


def _list_reasons(change: PromptChange) -> list[tuple[str, list[str]]]:
    return [(each.what, [by.event for by in each.by]) for each in change.because]


async def test_diff_attributes_summary_and_summarised_turns_to_history_summarised_event() -> None:
    shop = await run_turns(3)
    await run_numbered_turn(shop, 4, ["They spoke of words."])
    found = list_history_changes(shop, "3.1", "4.2")
    by = [("summarised", ["history-summarised"])]
    assert found["removed 1"] == by
    assert found["added summary"] == by


async def test_diff_attributes_undone_summary_to_summary_undone_event() -> None:
    shop = await run_turns(3)
    await run_numbered_turn(shop, 4, ["They spoke of words."])
    (made,) = [e for e in shop.house.list_events() if isinstance(e.event, HistorySummarised)]
    await shop.house.sessions.handle(TENANT, "s", UndoSummary(made.sequence), TESTER)
    await run_numbered_turn(shop, 5)
    found = list_history_changes(shop, "4.2", "5.1")
    assert found["added 1"] == found["removed summary"] == [("undone", ["summary-undone"])]


async def test_diff_attributes_replaced_summary_to_the_new_summary_event() -> None:
    shop = await run_turns(3)
    await run_numbered_turn(shop, 4, ["They spoke of words."])
    await shop.house.sessions.handle(TENANT, "s", ExcludeTurn(1), TESTER)
    await run_numbered_turn(shop, 5, ["They spoke on."])
    found = list_history_changes(shop, "4.2", "5.2")
    assert ("summarised", ["history-summarised"]) in found["changed summary"]


async def test_diff_attributes_purged_history_to_memory_purged_event() -> None:
    shop = await run_turns(3)
    await run_numbered_turn(shop, 4, ["They spoke of words."])
    await shop.house.sessions.handle(TENANT, "s", PurgeMemory(), TESTER)
    await run_numbered_turn(shop, 5)
    found = list_history_changes(shop, "4.2", "5.1")
    purged = [("purged", ["memory-purged"])]
    assert found["removed 2"] == found["removed summary"] == purged
