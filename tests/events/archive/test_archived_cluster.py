"""A log of three servers has its replicas again once sessions were moved out of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.events.archive.test_archived_log import fill_log, move_closed_sessions
from tests.events.log_sessions import append_one_by_one, read_past
from tests.support.servers.nats_cluster import start_cluster
from turnlog.events.jetstream.jetstream_client import open_client
from turnlog.events.jetstream.stream_setup import StreamOptions

pytestmark = [pytest.mark.asyncio, pytest.mark.slow("three servers start")]


async def test_stream_of_a_cluster_is_made_anew_with_its_replicas(tmp_path: Path) -> None:
    terms = StreamOptions(replicas=3)
    async with start_cluster(tmp_path) as cluster:
        async with open_client(cluster.url, terms) as before:
            events = await fill_log(before.log)
            expected = await read_past(before.log, None)
            jetstream = before.connection.nc.jetstream()
            await jetstream.pull_subscribe("session.t.>", durable="mine", stream="SESSIONS")
        assert (await move_closed_sessions(cluster.url, tmp_path)).sessions == [("t", "b")]
        # It refuses a stream with fewer replicas.
        async with open_client(cluster.url, terms, archive=tmp_path) as after:
            assert await read_past(after.log, None) == expected
            found = await after.connection.nc.jetstream().consumer_info("SESSIONS", "mine")
            assert found.num_pending == len([*events["a"], *events["c"]])
            (last,) = await append_one_by_one(after.log, "t", "a", 1, events["a"][-1].head)
            assert await after.log.read_last_event("t", "a", leader=True) == last
