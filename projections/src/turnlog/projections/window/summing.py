"""Whether older turns of a history view must be summarised before the next turn continues.

A view that has grown too long keeps its latest turns. Older turns are summarised by a model, at
most as many at a time as the view may hold. This module only decides that a summary is due; the
event that records the decision determines the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from turnlog.events.memory import SummaryBegun
from turnlog.projections.blueprint.budget import Budget, CharactersPerToken, allowed
from turnlog.projections.blueprint.components import HISTORY
from turnlog.projections.blueprint.ladder import Summarise
from turnlog.projections.blueprint.schema import HistoryMessages
from turnlog.projections.blueprint.views import SummarySpec
from turnlog.projections.session.state import OpenTurn, Said, SessionState, TurnRef
from turnlog.projections.session.summaries import numbers, ranges
from turnlog.projections.window.call import Texts
from turnlog.projections.window.counting import Counting, counting_by
from turnlog.projections.window.history import exchanges_of
from turnlog.projections.window.looking import Look, history_of, look
from turnlog.projections.window.material import Material
from turnlog.projections.window.memory import messages_in
from turnlog.projections.window.spoken import Exchange

_UNBUDGETED: Final = CharactersPerToken(chars_per_token=4)
"""The counter of calls without a budget."""
WIDEST: Final = 4
"""The maximum number of tokens of one character."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A history view of the open turn's calls that may have become too long."""

    back: Look
    spec: SummarySpec
    by: str
    """The view whose settings it is summarised by."""
    budget: Budget | None
    """The budget of the call that lists the view."""
    inputs: Mapping[str, JsonValue]

    @property
    def limit(self) -> int:
        """The number of tokens above which it is summarised."""
        budget = self.budget
        history = budget.components.get(HISTORY) if budget else None
        rungs = [step.rung for step in history.ladder] if history else []
        asked = [rung for rung in rungs if isinstance(rung, Summarise)]
        if history is None or not any(rung.history in {None, self.back.name} for rung in asked):
            return self.spec.above_tokens
        return min(self.spec.above_tokens, allowed(history.tokens, self.inputs))

    def said(self, state: SessionState) -> tuple[Said, ...]:
        """Return the references of its texts; empty if it cannot be too long."""
        stands = tuple(self.back.said(state))
        long = sum(said.characters for said in stands) * WIDEST > self.limit
        return stands if long else ()

    def further(self, state: SessionState) -> bool:
        """Return whether it could include turns that the state keeps only as runs."""
        tokens = allowed(self.budget.tokens, self.inputs) if self.budget else 0
        return self.back.further(state, self.budget, tokens)


def sums_up(material: Material) -> bool:
    """Return whether any view of the blueprint is summarised."""
    return any(view.summary for view in material.blueprint.history.values())


def candidates(
    material: Material, state: SessionState, at: str, inputs: Mapping[str, JsonValue]
) -> Iterator[Candidate]:
    """Yield the views that may be summarised before the turn's first call, each once."""
    if state.open is None or not _at_its_beginning(state.open):
        return
    seen = set(state.open.summed)
    for kind in material.kinds(state):
        spec = material.blueprint.calls[kind]
        budget = material.blueprint.budget.get(spec.budget or "")
        for slot in spec.messages:
            name = slot.history if isinstance(slot, HistoryMessages) else ""
            summary = material.blueprint.view(name).summary if name else None
            by = material.blueprint.summarised_by(name) if summary else ""
            if summary and by not in seen:
                seen.add(by)
                yield Candidate(look(material, state, at, name), summary, by, budget, inputs)


def _at_its_beginning(opened: OpenTurn) -> bool:
    return opened.summing is None and opened.context is None and opened.plan is None


def due(
    candidate: Candidate, material: Material, state: SessionState, texts: Texts, model: str
) -> SummaryBegun | None:
    """Return the summary to begin; None if the view is short enough or has no old turns."""
    counter = candidate.budget.counter if candidate.budget else _UNBUDGETED
    counting = counting_by(counter, material.vocabularies, model)
    back, opened = candidate.back, state.open
    if opened is None or _grown(candidate, state, texts, counting) <= candidate.limit:
        return None
    turns, _ = back.turns(state)
    older = _older(turns, candidate.spec.keep_messages)
    work = back.view.of == "work"
    told = zip(older, exchanges_of(older, texts.said, counting, work=work), strict=True)
    taken = [ref for ref, before in _running(told) if before < candidate.spec.above_tokens]
    if not taken:
        return None
    former = back.summary
    before = numbers(former.turns) if former else ()
    return SummaryBegun(
        turn=opened.turn,
        view=candidate.by,
        turns=ranges([*before, *(ref.turn for ref in taken)]),
        former=former.sequence if former else None,
        characters=sum(ref.characters for ref in taken) + (former.said.characters if former else 0),
    )


def _grown(candidate: Candidate, state: SessionState, texts: Texts, counting: Counting) -> int:
    """Count the tokens of a view, without turns that are to be kept whole."""
    slot = history_of(candidate.back, state, texts, counting)
    whole = state.whole.get(candidate.by)
    if whole is None:
        return slot.tokens
    return sum(each.tokens for each in slot.exchanges if each.turn > whole)


def _older(turns: Sequence[TurnRef], keep: int) -> Sequence[TurnRef]:
    """Return the turns before the latest `keep` messages."""
    kept = messages = 0
    for ref in reversed(turns):
        if messages >= keep:
            break
        kept, messages = kept + 1, messages + len(messages_in(ref))
    return turns[: len(turns) - kept]


def _running(told: Iterable[tuple[TurnRef, Exchange]]) -> Iterator[tuple[TurnRef, int]]:
    """Yield each turn with the tokens of the turns before it."""
    before = 0
    for ref, said in told:
        yield ref, before
        before += said.tokens
