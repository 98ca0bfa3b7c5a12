"""The health endpoint of a worker or a projector."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.support.processes.process_host import find_free_port
from turnlog.events.errors import Refused, Unavailable
from turnlog.services.platform.process_health import RecentCheck, serve_health


async def pass_check() -> None:
    await asyncio.sleep(0)


async def fail_check() -> None:
    raise Unavailable("database", "no connection")


async def test_process_is_ready_when_every_health_check_passes() -> None:
    place = f"127.0.0.1:{find_free_port()}"
    async with serve_health(place, {"nats": pass_check}, "t"), httpx.AsyncClient() as http:
        assert (await http.get(f"http://{place}/healthz")).json() == {"alive": True}
        ready = await http.get(f"http://{place}/readyz")
        assert ready.status_code == 200
        assert ready.json() == {"ready": True, "parts": {"nats": {"ready": True, "detail": None}}}
        assert (await http.get(f"http://{place}/v1/sessions")).status_code == 404


async def test_failed_health_check_is_reported_and_the_process_stays_alive() -> None:
    place = f"127.0.0.1:{find_free_port()}"
    async with (
        serve_health(place, {"nats": pass_check, "database": fail_check}, "t"),
        httpx.AsyncClient() as http,
    ):
        answer = await http.get(f"http://{place}/readyz")
        assert answer.status_code == 503
        assert not answer.json()["ready"]
        assert "no connection" in answer.json()["parts"]["database"]["detail"]
        assert (await http.get(f"http://{place}/healthz")).is_success


async def test_record_damage_is_reported_and_the_process_stays_ready() -> None:
    place = f"127.0.0.1:{find_free_port()}"
    async with (
        serve_health(place, {"nats": pass_check, "record": fail_check}, "t"),
        httpx.AsyncClient() as http,
    ):
        answer = await http.get(f"http://{place}/readyz")
        assert (answer.status_code, answer.json()["ready"]) == (200, True)
        assert not answer.json()["parts"]["record"]["ready"]


async def test_concurrent_requests_share_one_recent_check() -> None:
    made: list[int] = []

    async def check() -> None:
        made.append(1)
        await asyncio.sleep(0)
        raise Unavailable("log", "no space")

    recent = RecentCheck(component="log", check=check)
    asked = await asyncio.gather(
        *(recent.require_healthy() for _ in range(50)), return_exceptions=True
    )
    assert {str(each) for each in asked} == {"log is unavailable: no space"}
    assert len(made) == 1
    recent = RecentCheck(component="log", check=check, seconds=0)
    for _ in range(2):
        with pytest.raises(Unavailable):
            await recent.require_healthy()
    assert len(made) == 3


async def test_check_without_a_result_counts_as_failed() -> None:
    recent = RecentCheck(component="log", check=asyncio.Event().wait)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await recent.require_healthy()
    with pytest.raises(Unavailable, match="no answer"):
        await recent.require_healthy()


async def test_invalid_health_address_is_refused_with_its_setting() -> None:
    with pytest.raises(Refused) as refused:
        async with serve_health("nowhere", {}, "t"):
            pass
    assert refused.value.field == "health"
