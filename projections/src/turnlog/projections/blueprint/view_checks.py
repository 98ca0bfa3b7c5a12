"""History view checks: `like` references, summaries, and the steps that request summaries."""

from __future__ import annotations

from collections.abc import Iterator

from turnlog.projections.blueprint.budget import Budget
from turnlog.projections.blueprint.components import HISTORY
from turnlog.projections.blueprint.faults import Path, Remark, instead_of
from turnlog.projections.blueprint.ladder import Ladder, Summarise
from turnlog.projections.blueprint.schema import Blueprint, CallSpec, HistoryMessages
from turnlog.projections.blueprint.strict import Name
from turnlog.projections.blueprint.views import History

Remarks = Iterator[Remark]


def view_remarks(blueprint: Blueprint) -> Remarks:
    """Check the history views, and how calls and budgets use them."""
    own = [name for name, view in blueprint.history.items() if view.like is None]
    for name, written in blueprint.history.items():
        if written.like in {None, *own}:
            yield from _view(blueprint, name, blueprint.view(name))
        else:
            what = f"there is no view of its own `{written.like}`"
            yield Remark(("history", name, "like"), what, instead_of(written.like or "", own))
    summing = {view.summary.call for view in blueprint.history.values() if view.summary}
    for name, call in blueprint.calls.items():
        if name not in summing:
            yield from _selecting(blueprint, name, call)
    for name, budget in blueprint.budget.items():
        yield from _summarising(blueprint, ("budget", name), budget)


def _view(blueprint: Blueprint, name: Name, view: History) -> Remarks:
    path = ("history", name)
    for word in ("max_turns", "last_messages"):
        if view.all and getattr(view, word) is not None:
            what = f"`{name}` is the whole history, so it has no `{word}`"
            yield Remark((*path, word), what, "leave out one of the two")
    if view.summary and view.memory:
        what = "what a memory policy forgets must not be told by a summary"
        yield Remark(path, what, "leave out one of `summary` and `memory`")
    own = blueprint.history[name].summary
    if own is None:
        return
    call, where = own.call, (*path, "summary", "call")
    if call not in blueprint.calls:
        yield Remark(where, f"there is no call `{call}`", instead_of(call, blueprint.calls))
    elif not list(_selected(blueprint, blueprint.calls[call])):
        what = f"the call `{call}` shows no turns to sum up"
        yield Remark(where, what, "let it list a view that is `of: selected`")


def _selecting(blueprint: Blueprint, name: Name, call: CallSpec) -> Remarks:
    for place in _selected(blueprint, call):
        what = "no view is summed up by this call, so nothing is selected for it"
        fix = "name another view, or this call in a `summary`"
        yield Remark(("calls", name, "messages", place, "history"), what, fix)


def _selected(blueprint: Blueprint, call: CallSpec) -> Iterator[int]:
    """Yield the indices of the messages that include the turns to be summarised."""
    for place, slot in enumerate(call.messages):
        view = blueprint.history.get(slot.history) if isinstance(slot, HistoryMessages) else None
        if view is not None and view.of == "selected":
            yield place


def _summarising(blueprint: Blueprint, path: Path, budget: Budget) -> Remarks:
    """Find steps that request a summary where none can be made."""
    history = budget.components.get(HISTORY)
    ladders: list[tuple[Path, Ladder]] = [((*path, "ladder"), budget.ladder)]
    for word, limits in (("sections", budget.sections), ("components", budget.components)):
        ladders += [((*path, word, name, "ladder"), each.ladder) for name, each in limits.items()]
    for here, ladder in ladders:
        for rung, step in enumerate(ladder):
            if not isinstance(step.rung, Summarise):
                continue
            at = (*here, rung, "summarise")
            if history is None or ladder is not history.ladder:
                what = f"a summary is asked for by the ladder of component `{HISTORY}`"
                yield Remark(at, what, "put it there")
            elif not _summed(blueprint, step.rung.history):
                what = "no view that it means is ever summed up"
                yield Remark(at, what, "give the view a `summary`")


def _summed(blueprint: Blueprint, name: Name | None) -> bool:
    views = [name] if name in blueprint.history else list(blueprint.history)
    return any(blueprint.view(each).summary for each in views)
