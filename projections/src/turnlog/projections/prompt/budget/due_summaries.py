"""Whether older turns of a history view must be summarised before the next call of a turn.

A view that has grown too long keeps its latest turns, and a model summarises all older ones. A
summary is a step of a ladder like any other: what the steps before it can shorten is not
summarised. What is too long is said by the view itself (`above_tokens`), or else by the ladder that
lists the step. This module only decides that a summary is due; the event that records the decision
determines the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pydantic import JsonValue

from turnlog.events.model.manifest import AppliedTrimStep
from turnlog.events.model.memory_events import SummaryBegun, SummaryTrigger
from turnlog.projections.blueprint.schema.budget_specs import (
    BudgetSpec,
    Ladder,
)
from turnlog.projections.blueprint.schema.call_specs import HistoryMessageSlot
from turnlog.projections.blueprint.schema.history_specs import (
    DEFAULT_SUMMARY_TOKENS,
    SummarySpec,
)
from turnlog.projections.blueprint.schema.layer_specs import HISTORY_COMPONENT
from turnlog.projections.blueprint.token_counters import TokenCounter
from turnlog.projections.prompt.assembly_inputs import PromptTexts
from turnlog.projections.prompt.budget.budget_error import WHOLE_PROMPT
from turnlog.projections.prompt.budget.call_limits import CallLimits, find_call_limits
from turnlog.projections.prompt.budget.plan_sizes import measure_plan
from turnlog.projections.prompt.budget.trim_ladder import (
    BudgetContext,
    SummaryRequest,
    UnfittedPrompt,
    apply_steps_before_summary,
    find_steps_before_summary,
    find_summary_requests,
)
from turnlog.projections.prompt.history.history_window import (
    HistoryWindow,
    SelectedTurns,
    build_history_window,
    render_history,
)
from turnlog.projections.prompt.history.memory_access import list_message_refs
from turnlog.projections.prompt.history.planned_history import PlannedHistory
from turnlog.projections.prompt.history.turn_messages import (
    TurnExchange,
    build_exchanges,
    count_latest_turns,
)
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.open_turn import OpenTurn, UnpromptedCall
from turnlog.projections.session.state import MAX_RECENT_TURNS, SessionState, SettledTurnRef
from turnlog.projections.session.text_refs import TextRef
from turnlog.projections.session.turn_summaries import build_ranges, iterate_turns

MAX_TOKENS_PER_CHARACTER: Final = 4
"""The maximum number of tokens of one character."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryCandidate:
    """A history view of the open turn's calls that may have become too long."""

    kind: str
    """The kind of call that lists the view."""
    selected: SelectedTurns
    """The turns of the view as the state has them."""
    spec: SummarySpec
    summarised_view: str
    """The view whose settings it is summarised by."""
    budget: BudgetSpec | None
    """The budget of the call that lists the view."""
    inputs: Mapping[str, JsonValue]
    is_next: bool
    """Whether that call is the next one, so that its whole prompt can be measured."""
    max_factor: float = 1.0
    """The largest factor by which the session's token counts are corrected."""
    stated_limit: int | None = None
    """The tokens that a prompt of the call may have, where a file of dialects says what its model
    takes; None where none does.
    """

    @property
    def view_limit(self) -> int | None:
        """The tokens that the view may have; None where only a ladder limits it."""
        if self.spec.above_tokens is None and self.is_in_ladder:
            return None
        tokens = self.spec.above_tokens or DEFAULT_SUMMARY_TOKENS
        return min(tokens, self.stated_limit or tokens)

    @property
    def history_limit(self) -> int | None:
        """The limit of the component that the view counts under; None without a limit."""
        return (
            self.budget.resolve_component(HISTORY_COMPONENT, self.inputs) if self.budget else None
        )

    @property
    def is_limited_by_next_call(self) -> bool:
        """Whether the next call decides if it is too long: by a ladder, or for want of room.

        A model that takes no more has the oldest turns dropped, which its blueprint does not know.
        """
        return self.is_next and (self.view_limit is None or self.stated_limit is not None)

    @property
    def is_in_ladder(self) -> bool:
        """Whether a ladder of its call has it summarised."""
        ladders = list_summary_ladders(self.budget) if self.budget else ()
        name = self.history_window.name
        return any(find_steps_before_summary(each, name) is not None for each in ladders)

    @property
    def history_window(self) -> HistoryWindow:
        """The view as the call sees it."""
        return self.selected.window

    @property
    def has_full_reach(self) -> bool:
        """Whether it includes so many turns that the next one would push out the oldest."""
        return len(self.selected.turns) >= MAX_RECENT_TURNS

    def list_refs(self) -> tuple[TextRef, ...]:
        """Return the references of its texts; empty if it is short or has no older turns."""
        if not self.list_older_turns():
            return ()
        refs = tuple(self.selected.list_refs())
        most = sum(ref.characters for ref in refs) * MAX_TOKENS_PER_CHARACTER * self.max_factor
        least = 0 if self.is_limited_by_next_call else self.view_limit or 0
        return refs if most > least or self.has_full_reach else ()

    def list_older_turns(self) -> Sequence[SettledTurnRef]:
        """Return the turns before the latest messages, which the view keeps."""
        turns = self.selected.turns
        counts = [len(list_message_refs(ref)) for ref in turns]
        return turns[: len(turns) - count_latest_turns(counts, self.spec.keep_messages)]

    def has_reachable_runs(self, state: SessionState) -> bool:
        """Return whether it could include turns that the state keeps only as runs."""
        tokens = self.budget.resolve_largest(self.inputs) if self.budget else 0
        return self.history_window.has_reachable_runs(state, self.budget, tokens)

    def select_turns(self, state: SessionState) -> SummaryCandidate:
        """Return the candidate with the turns of another state, which lacks none."""
        return replace(self, selected=self.history_window.select_turns(state))


def list_summary_ladders(budget: BudgetSpec) -> tuple[Ladder, ...]:
    """Return the ladders that may have a view summarised: of its component, and of the whole."""
    component = budget.components.get(HISTORY_COMPONENT)
    overflow = budget.overflow
    return (
        *((component.ladder,) if component else ()),
        budget.ladder,
        *((overflow.ladder,) if overflow else ()),
    )


def has_summaries(material: SessionMaterial) -> bool:
    """Return whether any view of the blueprint is summarised."""
    return any(view.summary for view in material.blueprint.history.values())


def list_summary_candidates(
    material: SessionMaterial,
    state: SessionState,
    at: str,
    inputs: Mapping[str, JsonValue],
    model: str,
    context_tokens: int | None,
) -> Iterator[SummaryCandidate]:
    """Yield the views that may be summarised before the turn's first call, each once.

    `context_tokens` is what the model takes by a file of dialects; None if none says so.
    """
    if state.open is None or not _is_at_start(state.open):
        return
    seen, next_kind = set(state.open.summed), material.find_call_kind(state)
    corrections = (each for of_kind in state.corrections.values() for each in of_kind.values())
    max_factor = max((each.factor for each in corrections), default=1.0)
    for kind in material.list_call_kinds(state):
        spec = material.blueprint.calls[kind]
        budget = material.blueprint.budget.get(spec.budget or "")
        limits = find_call_limits(material, state, kind, model, context_tokens=context_tokens)
        is_stated = context_tokens is not None
        for slot in spec.messages:
            name = slot.history if isinstance(slot, HistoryMessageSlot) else ""
            summary = material.blueprint.resolve_view(name).summary if name else None
            by = material.blueprint.find_summary_view(name) if summary else ""
            if summary and by not in seen:
                seen.add(by)
                window = build_history_window(
                    material=material, state=state, at=at, kind=kind, name=name
                )
                yield SummaryCandidate(
                    kind=kind,
                    selected=window.select_turns(state),
                    spec=summary,
                    summarised_view=by,
                    budget=budget,
                    inputs=inputs,
                    is_next=kind == next_kind,
                    max_factor=max_factor,
                    stated_limit=limits.find_prompt_limit(inputs) if is_stated else None,
                )


def _is_at_start(opened: OpenTurn) -> bool:
    is_unprompted = isinstance(opened.call, UnpromptedCall)
    is_waiting = opened.summing is not None or opened.querying is not None
    return is_unprompted and not is_waiting and opened.plan is None


def find_due_summary(
    candidate: SummaryCandidate,
    material: SessionMaterial,
    state: SessionState,
    texts: PromptTexts,
    model: str,
    *,
    context_tokens: int | None,
    prompt: UnfittedPrompt | None = None,
) -> SummaryBegun | None:
    """Return the summary to begin; None if nothing is too long or the view has no old turns.

    `prompt` is the next call, where that says what is too long, and `context_tokens` is what the
    model takes by a file of dialects. The summary takes all older turns, or about as much as may
    stay where its call has a budget.
    """
    counting = find_call_limits(
        material, state, candidate.kind, model, context_tokens=context_tokens
    ).counting
    back, opened, trigger = candidate.history_window, state.open, None
    if candidate.view_limit is not None:
        trigger = _find_view_trigger(
            candidate=candidate,
            limit=candidate.view_limit,
            state=state,
            texts=texts,
            counting=counting,
        )
    if trigger is None and prompt is not None:
        trigger = _find_prompt_trigger(candidate, state, prompt)
    if opened is None or (trigger is None and not candidate.has_full_reach):
        return None
    taken = older = candidate.list_older_turns()
    summarising = material.blueprint.calls[candidate.spec.call]
    limits = find_call_limits(
        material, state, candidate.spec.call, model, context_tokens=context_tokens
    )
    has_budget = summarising.budget is not None
    if most := _compute_portion(candidate, limits, trigger, has_budget=has_budget):
        work = back.view.of == "work"
        turns_with_exchanges = zip(
            older, build_exchanges(older, texts.by_ref, counting, work=work), strict=True
        )
        taken = [
            ref for ref, before in _sum_preceding_tokens(turns_with_exchanges) if before < most
        ]
    if not taken:
        return None
    former = back.summary
    before = iterate_turns(former.turns) if former else ()
    return SummaryBegun(
        turn=opened.turn,
        view=candidate.summarised_view,
        turns=build_ranges([*before, *(ref.turn for ref in taken)]),
        former=former.sequence if former else None,
        characters=sum(ref.characters for ref in taken) + (former.said.characters if former else 0),
        trigger=trigger,
    )


def _compute_portion(
    candidate: SummaryCandidate,
    limits: CallLimits,
    trigger: SummaryTrigger | None,
    *,
    has_budget: bool,
) -> int | None:
    """Return about how many tokens one summary may cover; None without a limit.

    It is what the view or its component may have. It is no more than half of what the call that
    summarises may have where its model takes no more, or where only the whole prompt has a limit:
    the former summary needs room as well. `limits` are those of that call, and `has_budget` says
    whether it has one of its own.
    """
    prompt_limit = limits.find_prompt_limit(candidate.inputs)
    if prompt_limit is None:
        return None
    half = max(1, prompt_limit // 2)
    of_view = candidate.view_limit
    if trigger is not None and trigger.of != "prompt":
        of_view = trigger.limit
    if of_view is None or not has_budget:
        return half
    return min(of_view, half) if limits.model_limit else of_view


def _find_view_trigger(
    candidate: SummaryCandidate,
    limit: int,
    state: SessionState,
    texts: PromptTexts,
    counting: TokenCounter,
) -> SummaryTrigger | None:
    """Measure a view after the steps before its summary, without the turns kept whole."""
    slot = render_history(
        selected=candidate.selected,
        state=state,
        texts=texts,
        counting=counting,
        limit=candidate.history_limit,
    )
    steps: tuple[AppliedTrimStep, ...] = ()
    if candidate.budget:
        fitting = BudgetContext(budget=candidate.budget, counting=counting, inputs=candidate.inputs)
        slot, steps = apply_steps_before_summary(slot, fitting)
    tokens = slot.tokens
    if (whole := state.whole.get(candidate.summarised_view)) is not None:
        tokens = sum(each.tokens for each in slot.exchanges if each.turn > whole)
    if tokens <= limit or slot.has_condensed_older(candidate.spec.keep_messages, limit):
        return None
    return SummaryTrigger(of="view", tokens=tokens, limit=limit, steps=steps)


def _find_prompt_trigger(
    candidate: SummaryCandidate, state: SessionState, prompt: UnfittedPrompt
) -> SummaryTrigger | None:
    """Apply the ladders of the next call up to the step that has the view summarised.

    Where no ladder has it summarised, the prompt before any step is what may be too long. Turns
    that are kept whole, since their summary was undone, do not count. Where a rule has
    condensed all older turns already, a summary would spare nothing.
    """
    name = candidate.history_window.name
    requests = (
        find_summary_requests(prompt, name)
        if candidate.is_in_ladder
        else _iterate_whole_prompt(prompt)
    )
    for request in requests:
        tokens, kept = request.tokens, candidate.spec.keep_messages
        slots = [
            each for each in request.plan if isinstance(each, PlannedHistory) and each.view == name
        ]
        if (whole := state.whole.get(candidate.summarised_view)) is not None:
            exchanges = (each for slot in slots for each in slot.exchanges)
            tokens -= sum(each.tokens for each in exchanges if each.turn <= whole)
        if all(each.has_condensed_older(kept, request.limit) for each in slots):
            continue
        if tokens > request.limit:
            return SummaryTrigger(
                of="component" if request.scope.component else "prompt",
                tokens=tokens,
                limit=request.limit,
                steps=request.steps,
            )
    return None


def _iterate_whole_prompt(prompt: UnfittedPrompt) -> Iterator[SummaryRequest]:
    """Yield the prompt before any step, if that is too long."""
    fitting = prompt.fitting
    beside = sum(fitting.beside.values())
    tokens = measure_plan(prompt.plan, fitting.counting, beside).tokens
    if tokens > fitting.limit:
        yield SummaryRequest(
            plan=prompt.plan, tokens=tokens, limit=fitting.limit, scope=WHOLE_PROMPT, steps=()
        )


def _sum_preceding_tokens(
    turns_with_exchanges: Iterable[tuple[SettledTurnRef, TurnExchange]],
) -> Iterator[tuple[SettledTurnRef, int]]:
    """Yield each turn with the tokens of the turns before it."""
    before = 0
    for ref, exchange in turns_with_exchanges:
        yield ref, before
        before += exchange.tokens
