"""When litellm is imported, and what it may do then."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import asyncio, gc, sys
from structlog.testing import capture_logs
from turnlog.services.worker.model.litellm_model import LitellmModel

def audit(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        raise SystemExit(f"litellm called {arguments}")

full_collections = []

def note_collection(phase, info):
    if phase == "start" and info["generation"] == 2 and "litellm" in sys.modules:
        full_collections.append(gc.get_stats())

sys.addaudithook(audit)
gc.callbacks.append(note_collection)
model = LitellmModel()
assert "litellm" not in sys.modules, "imported too early"
with capture_logs():  # Our own lines; litellm may print none.
    asyncio.run(model.load_early())
assert "litellm" in sys.modules, "not imported"
assert not full_collections, "each keeps the interpreter from the event loop"
assert gc.get_freeze_count() > 100_000 and gc.isenabled()
"""


def test_litellm_loads_on_demand_and_without_the_network() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], check=False, capture_output=True)
    assert ran.returncode == 0, ran.stderr.decode()
    assert ran.stdout == b""
    assert ran.stderr == b""
