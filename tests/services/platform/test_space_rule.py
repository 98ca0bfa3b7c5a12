"""When a nats-server whose store was full is restarted."""

from __future__ import annotations

import pytest

from turnlog.services.all_in_one import can_gain_room

MEGABYTE = 1024 * 1024


@pytest.mark.parametrize(
    ("room", "is_stuck", "free", "helps"),
    [
        (0, False, 400, True),
        (0, False, 10, False),  # At its limit on a disk that did not grow.
        (50, False, 400, False),  # It takes writes.
        (30, True, 400, True),
        (30, True, 1, False),  # The disk is still full.
        (-5, False, 400, True),
    ],
)
def test_a_server_is_restarted_only_when_it_refuses_writes_and_would_gain_room(
    room: int, free: int, *, is_stuck: bool, helps: bool
) -> None:
    gains = can_gain_room(room * MEGABYTE, is_stuck=is_stuck, free=free * MEGABYTE)
    assert gains is helps
