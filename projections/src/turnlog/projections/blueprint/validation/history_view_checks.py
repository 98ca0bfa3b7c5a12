"""History view checks: `like` references, summaries, and the ladder steps that request summaries.

A summary is a model call, which is made before the first call of a turn or before a call of a loop.
So only a ladder that can be measured by then may have a view summarised, and a view has one limit:
its own, or that of the ladder.
"""

from __future__ import annotations

from collections.abc import Iterator

from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.budget_specs import (
    BudgetSpec,
    Ladder,
    LadderStep,
    SummariseHistory,
)
from turnlog.projections.blueprint.schema.call_specs import CallSpec, HistoryMessageSlot
from turnlog.projections.blueprint.schema.history_specs import HistoryViewSpec
from turnlog.projections.blueprint.schema.layer_specs import HISTORY_COMPONENT
from turnlog.projections.blueprint.schema.strict_model import Name
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFinding,
    BlueprintFindings,
    DocumentPath,
    check_known_name,
    suggest_word,
)


def check_history_views(blueprint: Blueprint) -> BlueprintFindings:
    """Check the history views, and how calls and budgets use them."""
    own = [name for name, view in blueprint.history.items() if view.like is None]
    for name, written in blueprint.history.items():
        if written.like in {None, *own}:
            yield from _check_view(blueprint, name, blueprint.resolve_view(name))
        else:
            what = f"there is no view of its own `{written.like}`"
            yield BlueprintFinding(
                ("history", name, "like"), what, suggest_word(written.like or "", own)
            )
    summary_calls = {view.summary.call for view in blueprint.history.values() if view.summary}
    for name, call in blueprint.calls.items():
        if name not in summary_calls:
            yield from _check_selected_turns(blueprint, name, call)
    yield from _check_summary_steps(blueprint)


def _check_view(blueprint: Blueprint, name: Name, view: HistoryViewSpec) -> BlueprintFindings:
    path = ("history", name)
    for word in ("max_turns", "last_messages"):
        if view.all and getattr(view, word) is not None:
            what = f"`{name}` is the whole history, so it has no `{word}`"
            yield BlueprintFinding((*path, word), what, "leave out one of the two")
    if view.summary and view.memory:
        what = "what a memory policy forgets must not be told by a summary"
        yield BlueprintFinding(path, what, "leave out one of `summary` and `memory`")
    own = blueprint.history[name].summary
    if own is None:
        return
    call, call_path = own.call, (*path, "summary", "call")
    yield from check_known_name(call_path, "call", call, blueprint.calls)
    if call in blueprint.calls and not [*_find_selected_slots(blueprint, blueprint.calls[call])]:
        what = f"the call `{call}` shows no turns to sum up"
        yield BlueprintFinding(call_path, what, "let it list a view that is `of: selected`")


def _check_selected_turns(blueprint: Blueprint, name: Name, call: CallSpec) -> BlueprintFindings:
    for place in _find_selected_slots(blueprint, call):
        what = "no view is summed up by this call, so nothing is selected for it"
        fix = "name another view, or this call in a `summary`"
        yield BlueprintFinding(("calls", name, "messages", place, "history"), what, fix)


def _find_selected_slots(blueprint: Blueprint, call: CallSpec) -> Iterator[int]:
    """Yield the indices of the messages that include the turns to be summarised."""
    for place, slot in enumerate(call.messages):
        view = blueprint.history.get(slot.history) if isinstance(slot, HistoryMessageSlot) else None
        if view is not None and view.of == "selected":
            yield place


def _check_summary_steps(blueprint: Blueprint) -> BlueprintFindings:
    """Find steps that request a summary where none can be made as the ladder says."""
    for name, budget in blueprint.budget.items():
        path = ("budget", name)
        for ladder_path, ladder in _list_other_ladders(path, budget):
            for place, _ in _find_summary_steps(ladder):
                what = f"a summary makes room in component `{HISTORY_COMPONENT}`, or in the whole"
                fix = "put it on the ladder of one of these"
                yield BlueprintFinding((*ladder_path, place, "summarise"), what, fix)
        for ladder_path, ladder in _list_summary_ladders(path, budget):
            for place, step in _find_summary_steps(ladder):
                yield from _check_step(blueprint, name, (*ladder_path, place, "summarise"), step)


def find_summary_warnings(blueprint: Blueprint) -> BlueprintFindings:
    """Find steps after a summary that are taken before it, since its view has more room."""
    for name, budget in blueprint.budget.items():
        history = budget.components.get(HISTORY_COMPONENT)
        if history is None or not isinstance(history.tokens, int):
            continue
        path = ("budget", name, "components", HISTORY_COMPONENT, "ladder")
        for place, step in _find_summary_steps(history.ladder):
            above = [
                (view, limit)
                for view in _list_summarised_views(blueprint, name, step)
                if (limit := _get_own_limit(blueprint, view)) and limit > history.tokens
            ]
            for view, limit in above if len(history.ladder) > place + 1 else ():
                what = (
                    f"the steps after it are taken above {history.tokens} tokens, "
                    f"and `{view}` is summarised above {limit} only"
                )
                fix = (
                    f"leave out `above_tokens` of `{view}`, or put them on the ladder of the whole"
                )
                yield BlueprintFinding((*path, place, "summarise"), what, fix)


def _list_summary_ladders(
    path: DocumentPath, budget: BudgetSpec
) -> list[tuple[DocumentPath, Ladder]]:
    """Return the ladders that may have a view summarised, each with its place."""
    history = budget.components.get(HISTORY_COMPONENT)
    inner = (
        [((*path, "components", HISTORY_COMPONENT, "ladder"), history.ladder)] if history else []
    )
    return [*inner, ((*path, "ladder"), budget.ladder)]


def _list_other_ladders(
    path: DocumentPath, budget: BudgetSpec
) -> Iterator[tuple[DocumentPath, Ladder]]:
    for name, section in budget.sections.items():
        yield (*path, "sections", name, "ladder"), section.ladder
    for name, component in budget.components.items():
        if name != HISTORY_COMPONENT:
            yield (*path, "components", name, "ladder"), component.ladder


def _find_summary_steps(ladder: Ladder) -> Iterator[tuple[int, LadderStep]]:
    return (
        (place, step)
        for place, step in enumerate(ladder)
        if isinstance(step.action, SummariseHistory)
    )


def _check_step(
    blueprint: Blueprint, budget: Name, at: DocumentPath, step: LadderStep
) -> BlueprintFindings:
    target = step.target
    views = [target] if target in blueprint.history else list(blueprint.history)
    if not any(blueprint.resolve_view(each).summary for each in views):
        what = "no view that it means is ever summed up"
        yield BlueprintFinding(at, what, "give the view a `summary`")
    for view in _list_summarised_views(blueprint, budget, step):
        limit = _get_own_limit(blueprint, view)
        if limit is not None and "components" not in at:
            what = f"`{view}` is summarised above {limit} tokens of its own, whatever the whole has"
            fix = f"leave out `above_tokens` of `{view}`, so that the limit of the whole holds"
            yield BlueprintFinding(at, what, fix)
        if limit is None and (call := _find_late_call(blueprint, budget, view)):
            what = (
                f"`{call}` is not the first call of its turn, so nobody knows yet what is too long"
            )
            fix = f"give `{view}` a limit of its own, `above_tokens`"
            yield BlueprintFinding(at, what, fix)


def _list_summarised_views(blueprint: Blueprint, budget: Name, step: LadderStep) -> list[Name]:
    """Return the views that a step has summarised in calls with a budget."""
    users = (call for call in blueprint.calls.values() if call.budget == budget)
    slots = (slot for call in users for slot in call.messages)
    listed = dict.fromkeys(slot.history for slot in slots if isinstance(slot, HistoryMessageSlot))
    return [
        view
        for view in listed
        if view in blueprint.history
        and step.target in {None, view}
        and blueprint.resolve_view(view).summary
    ]


def _get_own_limit(blueprint: Blueprint, view: Name) -> int | None:
    summary = blueprint.resolve_view(view).summary
    return summary.above_tokens if summary else None


def _find_late_call(blueprint: Blueprint, budget: Name, view: Name) -> Name | None:
    """Return a call that lists a view which no first call of its turn lists, or None."""
    summarised = blueprint.find_summary_view(view)
    for profile in blueprint.profiles.values():
        if profile.program != "tools":
            continue
        first = _list_views(blueprint, profile.plan)
        if summarised in map(blueprint.find_summary_view, first):
            continue
        for name in (profile.act, *blueprint.list_reply_calls(profile)):
            call = blueprint.calls.get(name or "")
            if call and call.budget == budget and view in _list_views(blueprint, name):
                return name
    return None


def _list_views(blueprint: Blueprint, call: Name | None) -> list[Name]:
    """Return the summarised views that a call lists."""
    spec = blueprint.calls.get(call or "")
    slots = spec.messages if spec else ()
    listed = [slot.history for slot in slots if isinstance(slot, HistoryMessageSlot)]
    known = (view for view in listed if view in blueprint.history)
    return [view for view in known if blueprint.resolve_view(view).summary]
