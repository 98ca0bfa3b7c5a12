"""A bug in a turn is visible in the worker's log, without what a provider or a prompt says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from turnlog.services.worker.app import REDELIVERY_DELAY, handle_message

SECRET = "sk-secret"


class BrokenMessage:
    """A delivery that ends in an error whose message repeats a provider's body."""

    def __init__(self) -> None:
        self.delays = list[float]()

    @property
    def raw_message(self) -> object:
        """Fail as a bug in the middle of a turn would."""
        raise RecursionError(f"the prompt said {SECRET}") from ValueError(f"so did it: {SECRET}")

    async def nack(self, delay: float) -> None:
        self.delays.append(delay)


@pytest.mark.asyncio
async def test_a_broken_turn_is_logged_with_its_place_and_no_message() -> None:
    message = BrokenMessage()
    with capture_logs() as logs:
        await handle_message(cast("Any", message), cast("Any", SimpleNamespace(ack_wait=30.0)))
    assert message.delays == [REDELIVERY_DELAY]
    (log,) = logs
    assert (log["event"], log["error"]) == ("turn-broke", "RecursionError")
    assert "raw_message" in log["frames"]
    assert SECRET not in str(log)
