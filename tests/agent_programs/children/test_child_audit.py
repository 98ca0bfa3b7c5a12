"""What an audit finds of children whose record does not fit that of their parent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from tests.agent_programs.children.child_harness import open_team
from turnlog.events.content import PlainText
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.child_events import ChildRequested, ChildSettled
from turnlog.events.model.turn_events import TurnCompleted, TurnSubmitted
from turnlog.projections.audit.verify.child_checks import check_children, compare_child

Events = Sequence[RecordedEvent]


async def run_team_events() -> tuple[Events, str, Events]:
    """Return the events of a parent, and those of one of its children."""
    team = await open_team()
    await team.house.submit_turn("Is it so?")
    await team.queue.deliver_all(team.house.build_worker())
    child = team.list_children()[0]
    return team.house.list_events(), child, team.house.list_events(child)


def drop(kind: type) -> Callable[[Events], Events]:
    def change(events: Events) -> Events:
        found = next(each for each in events if isinstance(each.event, kind))
        return [each for each in events if each is not found]

    return change


def repeat(kind: type) -> Callable[[Events], Events]:
    def change(events: Events) -> Events:
        found = next(each for each in events if isinstance(each.event, kind))
        return [another for each in events for another in ([each] * (1 + (each is found)))]

    return change


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (drop(ChildSettled), "was never settled, and turn 1 is over"),
        (repeat(ChildSettled), "was settled, and nobody waited for it"),
        (drop(ChildRequested), "was settled, and nobody waited for it"),
        (repeat(ChildRequested), "was requested out of order"),
    ],
)
async def test_each_child_is_requested_once_and_settled_once(
    change: Callable[[Events], Events], finding: str
) -> None:
    parent, _, _ = await run_team_events()
    assert [*check_children(parent)] == []
    assert any(finding in each.detail for each in check_children(change(parent)))


@pytest.mark.parametrize(
    ("kind", "finding"),
    [
        (TurnSubmitted, "was asked something else than its parent wrote"),
        (TurnCompleted, "did not reply what its parent recorded"),
    ],
)
async def test_a_child_says_what_its_parent_recorded(
    kind: type[TurnSubmitted | TurnCompleted], finding: str
) -> None:
    parent, session, child = await run_team_events()
    assert [*compare_child(parent, session, child)] == []
    other = PlainText(text="Something else.")
    altered = [
        replace(each, event=each.event.model_copy(update={"text": other}))
        if isinstance(each.event, kind)
        else each
        for each in child
    ]
    (found,) = compare_child(parent, session, altered)
    assert finding in found.detail
