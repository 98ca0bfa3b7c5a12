from __future__ import annotations

from turnlog.events.call import AttemptCost
from turnlog.events.content import PlainText, compute_digest
from turnlog.events.kinds import KnownEvent
from turnlog.events.memory import (
    HistorySummarised,
    MemoryPurged,
    SummaryBegun,
    SummaryFailed,
    SummaryUndone,
    TurnRange,
)

_SUMMARISED_TURNS = (TurnRange(first=1, last=4), TurnRange(first=6, last=9))


def build_memory_samples() -> dict[str, KnownEvent]:
    """Return samples of the memory family by name."""
    return {
        "summary-begun": SummaryBegun(turn=13, view="chat", turns=_SUMMARISED_TURNS, former=31, characters=18),
        "history-summarised": HistorySummarised(
            turn=13,
            call="13.1",
            view="chat",
            summary=PlainText(text="They spoke of “naïve” things: 漢字, 🙂."),
            turns=_SUMMARISED_TURNS,
            former=31,
            phases=("focus", "ideate"),
            inputs=compute_digest("what was asked"),
            model="openai/gpt-5-mini",
            cost=AttemptCost(micro_dollars=412, price="exact", table="2026-11"),
        ),
        "summary-failed": SummaryFailed(
            turn=13, view="chat", code="timeout", detail="no answer in 60 s"
        ),
        "summary-undone": SummaryUndone(sequence=57, view="chat", cause="excluded", turn=3),
        "memory-purged": MemoryPurged(upto=13),
    }
