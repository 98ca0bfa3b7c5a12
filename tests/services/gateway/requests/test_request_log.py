"""One line for each request, of which nothing was written by the caller."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.services.gateway.gateway_service import RunningGateway
from turnlog.services.platform.telemetry.log_traces import add_trace_ids

pytestmark = pytest.mark.asyncio(loop_scope="module")


Line = tuple[str, str, str, int]

EXPECTED_LINES: list[Line] = [
    ("debug", "GET", "/healthz", 200),
    ("debug", "GET", "/page/{name:path}", 200),
    ("info", "GET", "/v1/sessions/{session}", 404),
    ("info", "GET", "unknown", 404),
    ("info", "GET", "unknown", 421),
    ("info", "POST", "/v1/sessions", 422),
    ("info", "other", "/v1/sessions", 405),
]


def get_lines(logs: list[Any], tenant: str) -> list[Line]:
    """Return what was logged of this gateway's requests, without their durations."""
    lines = [each for each in logs if each["event"] == "request" and each["tenant"] == tenant]
    assert all(each["seconds"] >= 0 for each in lines)
    return sorted(
        (each["log_level"], each["method"], each["route"], each["status"]) for each in lines
    )


async def test_request_log_names_the_route_and_contains_no_client_input(
    bare: RunningGateway,
) -> None:
    # A line is written when a request is over, which its client may know before; a gateway that has
    # ended has written all of them.
    with capture_logs() as logs:
        async with bare.start_another_gateway(tenant="logged") as gateway:
            await gateway.http.get("/v1/sessions/hunter2-session")
            body = {"blueprint": "hunter2-blueprint"}
            await gateway.http.post("/v1/sessions?hunter2=1", json=body)
            await gateway.http.get("/hunter2-path")
            await gateway.http.request("HUNTER2", "/v1/sessions")
            await gateway.http.get("/v1/sessions", headers={"Host": "hunter2.example"})
            await gateway.http.get("/healthz")
            await gateway.http.get("/page/index.html")
    assert get_lines(logs, "logged") == EXPECTED_LINES
    assert "hunter2" not in str(logs).lower()


async def test_line_of_a_request_names_the_trace_of_its_caller(bare: RunningGateway) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    with capture_logs(processors=[add_trace_ids]) as logs:
        async with bare.start_another_gateway(tenant="traced") as gateway:
            headers = {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
            await gateway.http.get("/v1/sessions/none", headers=headers)
            await gateway.http.get("/v1/sessions/none")
    lines = [each for each in logs if each["event"] == "request" and each["tenant"] == "traced"]
    assert [each.get("trace_id") for each in lines] == [trace, None]
