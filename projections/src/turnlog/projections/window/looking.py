"""History views as one call sees them: earlier turns, preceded by a summary of older ones.

A view shows a summary as long as every phase that the summary covers is visible. A call that
summarises older turns is shown those turns and the summary that it continues.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turnlog.events.errors import Corrupt
from turnlog.projections.blueprint.budget import Budget
from turnlog.projections.blueprint.schema import History, HistoryMessages
from turnlog.projections.session.state import Said, SessionState, TurnRef
from turnlog.projections.session.summaries import Summary
from turnlog.projections.window.call import Call, Texts
from turnlog.projections.window.condensing import in_short
from turnlog.projections.window.counting import Counting
from turnlog.projections.window.history import (
    LeftOut,
    chosen,
    exchanges_of,
    reaches_further,
    said_in,
)
from turnlog.projections.window.material import Material
from turnlog.projections.window.memory import Recall, recalled
from turnlog.projections.window.plan import HistorySlot, Recap
from turnlog.projections.window.visibility import Sight, sight


@dataclass(frozen=True, slots=True)
class Look:
    """One history view as one call sees it."""

    name: str
    view: History
    sight: Sight
    recall: Recall | None
    """Limits of the memory policy; None where no policy applies."""
    summary: Summary | None
    """The summary that replaces older turns."""

    def turns(self, state: SessionState) -> tuple[tuple[TurnRef, ...], tuple[LeftOut, ...]]:
        """Split the settled turns into those the view includes and those it excludes."""
        return chosen(self.view, state, self.sight, self.recall, self.summary)

    def said(self, state: SessionState) -> Iterator[Said]:
        """Yield the references of all texts that the view includes."""
        if self.summary:
            yield self.summary.said
        yield from said_in(self.turns(state)[0], work=self.view.of == "work")

    def further(self, state: SessionState, budget: Budget | None, tokens: int) -> bool:
        """Return whether the view could include turns that the state keeps only as runs."""
        view, seen = self.view, self.sight
        return reaches_further(view, state, seen, budget, self.recall, tokens, self.summary)


def looks(material: Material, state: SessionState, call: Call) -> tuple[Look, ...]:
    """Return the history views that a call lists."""
    slots = material.blueprint.calls[call.kind].messages
    named = (slot.history for slot in slots if isinstance(slot, HistoryMessages))
    return tuple(look(material, state, call.at, name) for name in named)


def look(material: Material, state: SessionState, at: str, name: str) -> Look:
    """Return a history view at a clock reading `at`."""
    view, seen = material.blueprint.view(name), sight(material, state)
    recall = recalled(material.memory, view.memory, state, at)
    return Look(name, view, seen, recall, _summary(material, state, name, view, seen))


def _summary(
    material: Material, state: SessionState, name: str, view: History, seen: Sight
) -> Summary | None:
    if view.of == "selected":
        summing = state.open.summing if state.open else None
        former = summing.former if summing else None
        return next((each for each in state.summaries if each.sequence == former), None)
    by = material.blueprint.summarised_by(name) if view.summary else ""
    standing = (each for each in reversed(state.summaries) if each.view == by)
    return next((each for each in standing if all(map(seen.holds, each.phases))), None)


def history_of(back: Look, state: SessionState, texts: Texts, counting: Counting) -> HistorySlot:
    """Return the messages of a view; raises `Corrupt` if a text was not fetched."""
    turns, left_out = back.turns(state)
    work = back.view.of == "work"
    exchanges = tuple(exchanges_of(turns, texts.said, counting, work=work))
    recap = _recap(back.summary, texts, counting) if back.summary else None
    slot = HistorySlot(back.name, exchanges, left_out, work, recap)
    return in_short(slot, back.view.condense, counting)


def _recap(summary: Summary, texts: Texts, counting: Counting) -> Recap:
    text = texts.said.get(summary.said)
    if text is None:
        raise Corrupt(f"summary {summary.sequence}", "its text was not fetched")
    return Recap(summary.said, text, counting.count(text))
