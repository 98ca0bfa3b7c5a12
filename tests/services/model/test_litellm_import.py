"""When litellm is imported, and what it may do then."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import asyncio, sys
from turnlog.services.worker.model.litellm_model import LitellmModel

def audit(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        raise SystemExit(f"litellm called {arguments}")

sys.addaudithook(audit)
model = LitellmModel()
assert "litellm" not in sys.modules, "imported too early"
asyncio.run(model.load_early())
assert "litellm" in sys.modules, "not imported"
"""


def test_litellm_loads_on_demand_and_without_the_network() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], check=False, capture_output=True)
    assert ran.returncode == 0, ran.stderr.decode()
    assert ran.stdout == b""
    assert ran.stderr == b""
