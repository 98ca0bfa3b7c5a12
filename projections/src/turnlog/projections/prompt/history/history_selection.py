"""Which turns a history view or a reader of the memory includes, and why others are excluded.

`last_messages` counts back from the latest turn before any other rule applies, so that an excluded
turn makes no room for an older one. Skipped texts are recognised by digest; no text is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Final

from pydantic import JsonValue

from turnlog.events.content import Digest, compute_digest
from turnlog.events.errors import Corrupt
from turnlog.projections.blueprint.schema.budget_specs import (
    BudgetSpec,
    get_max_characters_per_token,
)
from turnlog.projections.blueprint.schema.history_specs import HistoryViewSpec
from turnlog.projections.blueprint.token_counters import TokenCounter
from turnlog.projections.prompt.history.memory_access import (
    MemoryAccess,
    find_memory_exclusions,
    list_message_refs,
    list_recalled_refs,
)
from turnlog.projections.prompt.history.turn_messages import (
    CondensedRun,
    TurnExchange,
    add_work,
    build_exchange,
    build_turn_messages,
)
from turnlog.projections.prompt.sources.session_material import HIDDEN_PHASE, PhaseVisibility
from turnlog.projections.session.state import (
    MAX_RECENT_TURNS,
    SessionState,
    SettledTurnRef,
    SettledTurnRun,
)
from turnlog.projections.session.text_refs import TextRef
from turnlog.projections.session.turn_summaries import HistorySummary
from turnlog.projections.tools.result_condensation import omit_answered_results

LAST_MESSAGES_RULE: Final = "last_messages"

SKIP_RULE: Final = "skip"

LISTED_RULE: Final = "results in a layer of their own"
"""The rule of a turn whose results are left out because a layer of the call lists them."""


def _list_completed_turns(
    turns: Iterable[SettledTurnRef], visibility: PhaseVisibility
) -> list[SettledTurnRef]:
    return [ref for ref in turns if ref.status == "completed" and visibility.can_show(ref.phase)]


def _list_turns_before(turns: Sequence[SettledTurnRef], most: int) -> Iterator[int]:
    """Yield the turns that are not wholly within the latest `most` messages."""
    for ref in reversed(turns):
        most -= len(list_message_refs(ref))
        if most < 0:
            yield ref.turn


def _list_digests(ref: SettledTurnRef) -> Iterator[Digest]:
    return (message_ref.digest for message_ref in list_message_refs(ref))


@lru_cache(64)
def _compute_digests(texts: tuple[str, ...]) -> frozenset[Digest]:
    return frozenset(map(compute_digest, texts))


OUT_OF_REACH: Final = "out of reach"
"""The rule of turns that are older than any view looks."""

PURGED: Final = "purged"
"""The rule of turns from before the memory was purged."""

EXCLUDED: Final = "excluded"
"""The rule of turns that a caller excluded."""

SUMMARISED: Final = "summarised"
"""The rule of turns that a summary replaces."""

NOT_SELECTED: Final = "not selected"
"""The rule of turns that a call is not asked to summarise."""


@dataclass(frozen=True, slots=True)
class ExcludedTurns:
    """Turns that are not in a view, all for the same reason."""

    first: int
    last: int
    rule: str
    saved: int = 0
    """Tokens that they would take, where another text says the same."""


@dataclass(frozen=True, slots=True)
class HistoryWindow:
    """One history view as one call sees it, or the memory as one reader sees it."""

    view: HistoryViewSpec
    visibility: PhaseVisibility
    access: MemoryAccess | None
    """Limits of the memory policy; None where no policy applies."""
    summary: HistorySummary | None = None
    """The summary that replaces older turns."""
    name: str = ""
    """The blueprint's name of the view."""
    listed_turn: int | None = None
    """The turn whose tool results a layer of the same call lists."""

    def select_turns(
        self, state: SessionState
    ) -> tuple[tuple[SettledTurnRef, ...], tuple[ExcludedTurns, ...]]:
        """Split the settled turns into those it includes, oldest first, and the excluded ones."""
        view, visibility = self.view, self.visibility
        far = 0 if view.all else max(0, len(state.turns) - MAX_RECENT_TURNS)
        recent, hidden_ranges = state.turns[far:], self._list_hidden_ranges(state)
        usable = [ref for ref in recent if ref.characters]
        if visibility.phases is not None:
            usable = [ref for ref in usable if visibility.can_show(ref.phase)]
        if hidden_ranges:
            usable = [ref for ref in usable if not _find_hidden_rule(ref.turn, hidden_ranges)]
        if skipped := self._find_skipped_turns(recent):
            usable = [ref for ref in usable if ref.turn not in skipped]
        over = 0 if view.max_turns is None else max(0, len(usable) - view.max_turns)
        rules = {ref.turn: "max_turns" for ref in usable[:over]}
        rules |= find_memory_exclusions(self.access, usable[over:]) if self.access else {}
        if len(usable) < len(recent):
            rules |= skipped
            rules |= {
                ref.turn: rule
                for ref in recent
                if (rule := _find_exclusion_rule(ref, visibility, hidden_ranges))
            }
        out = list(_exclude_distant_runs(state.earlier, visibility, hidden_ranges))
        for ref in state.turns[:far]:
            out += _exclude_distant_turns(ref.turn, ref.turn, ref.phase, visibility, hidden_ranges)
        out += [ExcludedTurns(turn, turn, rule) for turn, rule in rules.items()]
        return tuple([ref for ref in usable if ref.turn not in rules]), merge_excluded(out)

    def estimate_excluded(
        self, left_out: tuple[ExcludedTurns, ...], state: SessionState, counting: TokenCounter
    ) -> tuple[ExcludedTurns, ...]:
        """Return the excluded turns with what excluding and purging saves.

        Turns that the view or its reach would leave out in any case save nothing.
        """
        if not any(run.rule in {EXCLUDED, PURGED} for run in left_out):
            return left_out
        skipped = self._find_skipped_turns(state.turns)
        sizes = {
            ref.turn: sum(
                counting.estimate_tokens(each.characters) for each in list_message_refs(ref)
            )
            for ref in state.turns
            if ref.status == "completed" and ref.turn not in skipped
        }
        return tuple(
            replace(run, saved=_sum_range(sizes, run)) if run.rule in {EXCLUDED, PURGED} else run
            for run in left_out
        )

    def list_refs(self, state: SessionState) -> Sequence[TextRef]:
        """Return the references of all texts that it includes."""
        turns, work = self.select_turns(state)[0], self.view.of == "work"
        shown = [ref for turn in turns for ref in _list_shown_refs(turn, work=work) if ref]
        return [self.summary.said, *shown] if self.summary else shown

    def has_reachable_runs(
        self, state: SessionState, budget: BudgetSpec | None = None, tokens: int = 0
    ) -> bool:
        """Return whether it could include turns that the state keeps only as runs.

        `tokens` is the limit of the budget.
        """
        view, visibility = self.view, self.visibility
        if not _has_usable_run(state.earlier, visibility, self._list_hidden_ranges(state)):
            return False
        if view.all or view.of == "selected":
            return True
        sized = [(ref, ref.characters) for ref in state.turns if visibility.can_show(ref.phase)]
        usable = [ref for ref, characters in sized if characters]
        if self.access and (
            self.access.denial_reason or find_memory_exclusions(self.access, usable)
        ):
            return False
        if self._has_enough_messages(state.turns):
            return False
        most = MAX_RECENT_TURNS if view.max_turns is None else view.max_turns
        if len(state.turns) >= MAX_RECENT_TURNS or len(usable) >= most:
            return False
        if budget is None:
            return True
        reachable_characters = sum([characters for _, characters in sized])
        return reachable_characters < tokens * get_max_characters_per_token(budget.counter)

    def needs_every_turn(self, state: SessionState) -> bool:
        """Return whether turns before the latest `MAX_RECENT_TURNS` count one by one.

        A view of the whole history includes them, and what a purge saves is their sum.
        """
        return self.view.all or state.purged > 0

    def _find_skipped_turns(self, turns: Iterable[SettledTurnRef]) -> dict[int, str]:
        """Return the turns that the view's options exclude, each with the name of the option."""
        rules: dict[int, str] = {}
        if self.view.skip:
            texts = _compute_digests(self.view.skip)
            rules |= {ref.turn: SKIP_RULE for ref in turns if texts.issuperset(_list_digests(ref))}
        if (most := self.view.last_messages) is not None:
            replied = _list_completed_turns(turns, self.visibility)
            rules |= dict.fromkeys(_list_turns_before(replied, most), LAST_MESSAGES_RULE)
        return rules

    def _has_enough_messages(self, turns: Iterable[SettledTurnRef]) -> bool:
        """Return whether these turns fill the view's `last_messages`."""
        if self.view.last_messages is None:
            return False
        replied = _list_completed_turns(turns, self.visibility)
        return sum(len(list_message_refs(ref)) for ref in replied) >= self.view.last_messages

    def _list_hidden_ranges(self, state: SessionState) -> tuple[ExcludedTurns, ...]:
        """Return the ranges that are hidden whatever the turns' status; the first match wins."""
        hidden_ranges = [ExcludedTurns(1, state.purged, PURGED)] if state.purged else []
        if self.summary is not None:
            hidden_ranges += [
                ExcludedTurns(each.first, each.last, SUMMARISED) for each in self.summary.turns
            ]
        if self.view.of == "selected":
            hidden_ranges += _list_unselected_ranges(state)
        return tuple(hidden_ranges)


def _list_unselected_ranges(state: SessionState) -> Iterator[ExcludedTurns]:
    """Yield the ranges of turns that are not selected for a summary."""
    pending_summary = state.open.summing if state.open else None
    behind = 1
    for each in pending_summary.turns if pending_summary else ():
        if each.first > behind:
            yield ExcludedTurns(behind, each.first - 1, NOT_SELECTED)
        behind = each.last + 1
    if behind <= state.submitted:
        yield ExcludedTurns(behind, state.submitted, NOT_SELECTED)


def _find_hidden_rule(turn: int, hidden_ranges: tuple[ExcludedTurns, ...]) -> str | None:
    return next(
        (hidden.rule for hidden in hidden_ranges if hidden.first <= turn <= hidden.last), None
    )


def _exclude_distant_runs(
    runs: Iterable[SettledTurnRun],
    visibility: PhaseVisibility,
    hidden_ranges: tuple[ExcludedTurns, ...],
) -> Iterator[ExcludedTurns]:
    """Yield why the turns of runs are excluded, in order; only their phase tells runs apart."""
    for first, last, phase in _join_runs(runs):
        yield from _exclude_distant_turns(first, last, phase, visibility, hidden_ranges)


def _join_runs(runs: Iterable[SettledTurnRun]) -> Iterator[tuple[int, int, str | None]]:
    """Yield the ranges of adjacent turns of one phase, each with its phase.

    Every failed turn begins a run, so a long session has hundreds of them in a few ranges.
    """
    first, last, phase = 0, 0, None
    for run in runs:
        if first and run.first == last + 1 and run.phase == phase:
            last = run.last
            continue
        if first:
            yield first, last, phase
        first, last, phase = run.first, run.last, run.phase
    if first:
        yield first, last, phase


def _has_usable_run(
    runs: Sequence[SettledTurnRun],
    visibility: PhaseVisibility,
    hidden_ranges: tuple[ExcludedTurns, ...],
) -> bool:
    """Return whether only the reach of the state keeps a completed turn of a run out."""
    distant = [
        excluded
        for excluded in _exclude_distant_runs(runs, visibility, hidden_ranges)
        if excluded.rule == OUT_OF_REACH
    ]
    return any(
        run.status == "completed"
        and not run.excluded
        and run.first <= excluded.last
        and excluded.first <= run.last
        for excluded in reversed(distant)
        for run in reversed(runs)
    )


def _exclude_distant_turns(
    first: int,
    last: int,
    phase: str | None,
    visibility: PhaseVisibility,
    hidden_ranges: tuple[ExcludedTurns, ...],
) -> Iterator[ExcludedTurns]:
    """Yield why turns beyond the view are excluded, split where the reason changes."""
    if not visibility.can_show(phase):
        yield ExcludedTurns(first, last, HIDDEN_PHASE)
        return
    cuts = {place for hidden in hidden_ranges for place in (hidden.first, hidden.last + 1)}
    begins = [first, *sorted(place for place in cuts if first < place <= last)]
    for begin, end in pairwise((*begins, last + 1)):
        yield ExcludedTurns(begin, end - 1, _find_hidden_rule(begin, hidden_ranges) or OUT_OF_REACH)


def _find_exclusion_rule(
    ref: SettledTurnRef,
    visibility: PhaseVisibility,
    hidden_ranges: tuple[ExcludedTurns, ...],
) -> str | None:
    if not visibility.can_show(ref.phase):
        return HIDDEN_PHASE
    if hidden_rule := _find_hidden_rule(ref.turn, hidden_ranges):
        return hidden_rule
    if ref.excluded:
        return EXCLUDED
    if ref.status != "completed":
        return ref.status
    return None if list_message_refs(ref) else "nothing was said"


def merge_excluded(out: Iterable[ExcludedTurns]) -> tuple[ExcludedTurns, ...]:
    """Merge adjacent ranges that are excluded for the same reason."""
    runs: list[ExcludedTurns] = []
    for run in sorted(out, key=lambda run: run.first):
        if runs and runs[-1].rule == run.rule and runs[-1].last + 1 == run.first:
            saved = runs[-1].saved + run.saved
            runs[-1] = ExcludedTurns(runs[-1].first, run.last, run.rule, saved)
        else:
            runs.append(run)
    return tuple(runs)


def _sum_range(sizes: Mapping[int, int], run: ExcludedTurns) -> int:
    return sum(size for turn, size in sizes.items() if run.first <= turn <= run.last)


def _list_shown_refs(turn: SettledTurnRef, *, work: bool) -> tuple[TextRef | None, ...]:
    """Return the references of question, reply and work; None where there is no text to show."""
    text, reply, work_ref = turn.text, turn.reply, turn.work if work else None
    return (  # written out, since a loop takes three times as long, for each turn of a window
        text if text and text.characters else None,
        reply if reply and reply.characters else None,
        work_ref if work_ref and work_ref.characters else None,
    )


def build_exchanges(
    turns: Iterable[SettledTurnRef],
    texts: Mapping[TextRef, str],
    counting: TokenCounter,
    *,
    work: bool = False,
    listed_turn: int | None = None,
) -> Iterator[TurnExchange]:
    """Yield the exchanges of turns; a recorded turn is always rendered the same way.

    The work of `listed_turn` is shown without the results that another part of the prompt lists.
    """
    for turn in turns:
        try:
            text_ref, reply_ref, work_ref = _list_shown_refs(turn, work=work)
            text = texts[text_ref] if text_ref else ""
            reply = texts[reply_ref] if reply_ref else ""
            work_text = texts[work_ref] if work_ref else ""
        except KeyError as missing:
            raise Corrupt(f"turn {turn.turn}", f"the text of {missing} was not fetched") from None
        answer = add_work(work_text, reply) if work_text else reply
        exchange = build_exchange(turn.turn, text, answer, counting, turn.role)
        if work_text:
            exchange = replace(exchange, spoken=build_turn_messages(text, reply))
        left = omit_answered_results(work_text) if turn.turn == listed_turn else work_text
        yield (
            exchange if left == work_text else _omit_results(exchange, text, left, reply, counting)
        )


def _omit_results(
    exchange: TurnExchange, text: str, work: str, reply: str, counting: TokenCounter
) -> TurnExchange:
    """Return an exchange whose work is shown without the results that a layer lists."""
    answer = add_work(work, reply) if work else reply
    shorter = build_exchange(exchange.turn, text, answer, counting)
    return replace(
        shorter,
        condensed_run=CondensedRun(exchange.turn, "results-1", LISTED_RULE),
        saved=exchange.tokens - shorter.tokens,
        spoken=exchange.spoken,
    )


MemoryMessage = dict[str, JsonValue]
"""An object of `role`, `content`, `created_at` and `meta`; see `_format_turn_messages`."""


def format_memory_messages(
    recall: MemoryAccess, turns: Iterable[SettledTurnRef], texts: Mapping[TextRef, str]
) -> tuple[MemoryMessage, ...]:
    """Return the messages of turns, in order."""
    return tuple(message for ref in turns for message in _format_turn_messages(recall, ref, texts))


def _format_turn_messages(
    recall: MemoryAccess, ref: SettledTurnRef, texts: Mapping[TextRef, str]
) -> Iterator[MemoryMessage]:
    for message_ref in list_recalled_refs(recall, ref):
        yield {
            "role": ref.role if message_ref is ref.text else "assistant",
            "content": texts[message_ref] if message_ref.characters else "",
            "created_at": message_ref.at,
            "meta": {
                "turn": ref.turn,
                "request_id": ref.request,
                "intent": ref.intent,
                "entity": ref.entity,
            },
        }
