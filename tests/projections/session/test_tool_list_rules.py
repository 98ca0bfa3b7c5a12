"""When a session is pinned to another list of tools, and when the change is only recorded."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.projections.session.test_turn_situations import CLAIMED, assemble_context
from turnlog.events.content import compute_digest
from turnlog.events.model.tool_events import (
    ChangedTool,
    ToolListChanged,
    ToolPin,
    ToolsSnapshotted,
)
from turnlog.projections.session.commands import SnapshotTools
from turnlog.projections.session.state import SessionState
from turnlog.projections.testing import CommandOrFactory, get_attempt

SMALL = {"shop_look": "Looks.", "shop_pay": "Pays."}

OTHER = {"shop_look": "Looks closely.", "shop_saw": "Saws."}


def build_list(tools: Mapping[str, str], *, idempotent: bool = False) -> ToolsSnapshotted:
    """Return the snapshot of tools that are described by these texts."""
    pins = {
        name: ToolPin(
            digest=compute_digest(text),
            server="shop",
            tool=name.removeprefix("shop_"),
            idempotent=idempotent,
        )
        for name, text in tools.items()
    }
    whole = compute_digest(repr(tools))
    return ToolsSnapshotted(profile="chat", digest=whole, tools=pins, full=whole, names=whole)


def offer(offered: ToolsSnapshotted, *, pins_changes: bool) -> CommandOrFactory:
    def build(state: SessionState) -> SnapshotTools:
        return SnapshotTools(get_attempt(state), offered, pins_changes)

    return build


PINNED = CLAIMED.apply_steps(offer(build_list(SMALL), pins_changes=False))


def test_first_list_of_a_profile_is_pinned() -> None:
    assert PINNED.opened_state.tools == {"chat": build_list(SMALL)}


def test_changed_list_is_recorded_with_names_and_digests_and_pinned_if_that_is_allowed() -> None:
    changed, pinned = PINNED.when(offer(build_list(OTHER), pins_changes=True)).events
    before, after = compute_digest("Looks."), compute_digest("Looks closely.")
    assert changed == ToolListChanged(
        profile="chat",
        digest=build_list(OTHER).digest,
        added={"shop_saw": compute_digest("Saws.")},
        removed={"shop_pay": compute_digest("Pays.")},
        changed={"shop_look": ChangedTool(before=before, after=after)},
        outcome="pinned",
    )
    assert pinned == build_list(OTHER)
    assert PINNED.append_events(changed, pinned).opened_state.tools["chat"] == pinned


def test_changed_list_is_recorded_once_where_it_is_not_pinned() -> None:
    noticed = PINNED.apply_steps(offer(build_list(OTHER), pins_changes=False))
    (changed,) = [each.event for each in noticed.events[len(PINNED.events) :]]
    assert isinstance(changed, ToolListChanged)
    assert changed.outcome == "not_pinned"
    assert noticed.opened_state.tools == PINNED.opened_state.tools
    assert noticed.when(offer(build_list(OTHER), pins_changes=False)).events == ()
    third = build_list({"shop_look": "Looks."})
    assert len(noticed.when(offer(third, pins_changes=False)).events) == 1
    assert len(noticed.when(offer(build_list(OTHER), pins_changes=True)).events) == 2


def test_tool_that_may_now_be_repeated_is_a_change_too() -> None:
    changed, _ = PINNED.when(offer(build_list(SMALL, idempotent=True), pins_changes=True)).events
    assert isinstance(changed, ToolListChanged)
    assert [*changed.changed] == ["shop_look", "shop_pay"]


@pytest.mark.parametrize("pins_changes", [True, False])
def test_same_list_and_a_turn_in_progress_record_nothing(*, pins_changes: bool) -> None:
    same = build_list(SMALL).model_copy(update={"servers_left_out": {"bank": "it is down"}})
    assert PINNED.when(offer(same, pins_changes=pins_changes)).events == ()
    prompted = PINNED.append_events(assemble_context("1.1"))
    assert prompted.when(offer(build_list(OTHER), pins_changes=pins_changes)).events == ()
