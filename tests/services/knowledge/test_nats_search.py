"""Searches over NATS give what the index gives, its errors included."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from tests.support.knowledge.memory_search import MemorySearch, build_hit
from turnlog.events.errors import Refused, Unavailable
from turnlog.events.jetstream.jetstream_client import open_client
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.projections.knowledge.search_port import IndexPositions, SearchRequest, SearchResult
from turnlog.services.knowledge.nats_search import (
    NatsKnowledgeSearch,
    answer_searches,
    build_response,
)
from turnlog.services.platform.nats_server import NatsConfig, NatsServer

REQUEST = SearchRequest(tenant="t", collections=("cases",), text="late ships", min_efficiency=0.5)


class RefusingSearch:
    async def search(self, request: SearchRequest) -> SearchResult:
        raise Refused("invalid", request.text, field="text", fix="write another")


async def test_search_over_nats_is_answered_by_one_projector(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("search")  # Alone: any service of a shared server answers
    hits = [build_hit("late", "Late ships.", efficiency=0.9, feedback=-1)]
    first, second = MemorySearch(hits), MemorySearch(hits)
    async with (
        await NatsServer.start(NatsConfig(data_dir=folder)) as server,
        open_client(server.url, StreamOptions()) as client,
    ):
        asking = NatsKnowledgeSearch(client.connection, patience=60)
        with pytest.raises(Unavailable, match="no projector answers"):
            await asking.search(REQUEST)
        async with (
            answer_searches(client.connection, first),
            answer_searches(client.connection, second),
        ):
            await client.connection.nc.flush()
            found = await asyncio.gather(*(asking.search(REQUEST) for _ in range(4)))
            ahead = replace(REQUEST, min_positions=IndexPositions(knowledge=9))
            with pytest.raises(Unavailable, match="knowledge-index is unavailable: it is behind"):
                await asking.search(ahead)
        async with answer_searches(client.connection, RefusingSearch()):
            await client.connection.nc.flush()
            with pytest.raises(Refused) as refusal:
                await asking.search(REQUEST)
    assert found == [await MemorySearch(hits).search(REQUEST)] * 4
    asked = first.requests + second.requests
    assert (len(asked), asked.count(REQUEST)) == (5, 4)
    assert (refusal.value.code, refusal.value.field, refusal.value.fix) == (
        "invalid",
        "text",
        "write another",
    )


async def test_search_response_fits_into_one_message() -> None:
    hits = [build_hit(f"e{n}", "late ships \n" * 8_000) for n in range(24)]
    response = await build_response(MemorySearch(hits), replace(REQUEST, min_efficiency=None))
    assert len(response) <= 1_000_000
    assert 0 < len(json.loads(response)["result"]["hits"]) < 24
