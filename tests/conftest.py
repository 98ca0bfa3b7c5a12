"""What every test may ask for: real servers, shared by the tests of one pytest process.

Tests share a server and never its contents: each takes a tenant or a database of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import hypothesis
import pytest
import structlog

from tests.parts.reproduction import KEPT

pytest_plugins = ["tests.parts.nats", "tests.parts.postgres"]

# A deadline would make a property depend on how busy the machine is.
hypothesis.settings.register_profile("turnlog", deadline=None)
hypothesis.settings.load_profile("turnlog")


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Iterator[None]:
    """A command that a test runs in this process sends its log elsewhere, and then ends."""
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def every_call_can_be_had_again(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test of sessions in memory is a test of their record too."""
    yield
    if request.node.get_closest_marker("tampers"):
        KEPT.let_go()
    assert KEPT.unproven() == []


@pytest.fixture
def fresh_tenant() -> str:
    return f"tenant-{uuid.uuid4().hex[:12]}"
