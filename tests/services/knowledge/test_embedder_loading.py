"""An embedder's package is imported at its first use, which may take any time."""

from __future__ import annotations

import asyncio
import threading
from importlib import import_module
from pathlib import Path

from tests.services.knowledge.test_knowledge_index import CASES
from tests.support.knowledge.indexed_knowledge import IndexHarness
from tests.support.processes.registered_packages import register_package
from turnlog.events.async_tasks import run_tasks
from turnlog.projections.store.engine import ReadModelStore
from turnlog.services.extensions.plugins import EMBEDDER_GROUP
from turnlog.services.knowledge.embedders import CheckedEmbedder

NOTED_EMBEDDER = """
import threading

imported = threading.get_ident()
created = []

class NotedEmbedder:
    name = "noted-1"

    async def embed_texts(self, texts):
        return [[1.0, float(len(text))] for text in texts]

def create_noted(model):
    created.append(threading.get_ident())
    return NotedEmbedder()
"""


async def test_embedder_is_imported_in_a_thread_and_once_for_its_first_uses(
    store: ReadModelStore, tmp_path: Path
) -> None:
    entry = "noted=noted_embedder:create_noted"
    with register_package(tmp_path, EMBEDDER_GROUP, entry, NOTED_EMBEDDER):
        embedder = CheckedEmbedder(setting="noted")
        index = IndexHarness(store, embedder=embedder)
        await asyncio.gather(embedder.load_version(), embedder.load_version())
        await index.knowledge.put_entries("cases", *CASES)
        async with run_tasks(index.build_projector().run()):
            found = await index.search("Which vessels are late?", "cases")
        noted = import_module("noted_embedder")
    assert found.embedder == "noted-1"
    assert len(noted.created) == 1
    assert threading.get_ident() not in {noted.imported, *noted.created}
