"""When litellm is imported, and what it may do then."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from turnlog.services.platform.process_settings import ModelAdapter
from turnlog.services.worker.model.model_router import ModelRouter

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

from litellm.types.utils import ModelResponseStream
from openai.types.chat import ChatCompletionChunk

for schema in ChatCompletionChunk, ModelResponseStream:
    assert schema.__pydantic_complete__, "the first answer builds it, which holds the event loop"
"""


@pytest.mark.slow("an interpreter starts, to see what it imports")
def test_litellm_is_imported_on_demand_and_without_network_access() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], check=False, capture_output=True)
    assert ran.returncode == 0, ran.stderr.decode()
    assert ran.stdout == b""
    assert ran.stderr == b""


@pytest.mark.parametrize(
    ("adapter", "model", "is_needed"),
    [
        ("litellm", "openai/heron", True),
        ("direct", "openai/heron", False),
        ("direct", "ollama_chat/heron", False),
        ("direct", "anthropic/heron", True),
        ("direct", "heron", True),
        ("litellm", "scripted/demo", False),
        ("litellm", "off", False),
    ],
)
def test_litellm_is_imported_for_the_models_that_need_it(
    adapter: ModelAdapter, model: str, *, is_needed: bool
) -> None:
    assert ModelRouter(adapter, os.environ).needs_litellm(model) == is_needed
