"""What Prometheus reads of a service: figures that agree with the record, in few series."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass

import httpx
import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

from tests.support.processes.process_host import ProcessHost, find_free_port
from tests.support.processes.turnlog_up import TurnlogUp, run_turnlog_up

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("a service starts and answers turns with tools"),
]

PRICES = {"scripted/uderia": {"input": 2.5, "output": 10}}
"""Dollars for a million tokens, since a scripted model costs nothing."""

QUESTION = "What were wind and sight yesterday?"

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True, repr=False)
class ScrapedService:
    """A service and the address where its metrics are read."""

    up: TurnlogUp
    address: str

    async def scrape(self) -> dict[str, list[tuple[Labels, float]]]:
        """Return the samples of every series by its name."""
        async with httpx.AsyncClient() as http:
            answer = await http.get(f"http://{self.address}/metrics")
        found: dict[str, list[tuple[Labels, float]]] = {}
        for family in text_string_to_metric_families(answer.text):
            for sample in family.samples:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
        return found

    async def scrape_after_turns(self, turns: int) -> dict[str, list[tuple[Labels, float]]]:
        """Return the samples once the worker has done with so many turns.

        A client has its answer a moment before.
        """
        while True:
            found = await self.scrape()
            done = found.get("gen_ai_workflow_duration_seconds_count", [])
            if sum_samples(done) >= turns:
                return found

    async def run_session(self) -> str:
        """Answer a question of the shipped agent platform, with a plan and a tool."""
        opening = {"blueprint": "uderia", "profile": "tool_enabled"}
        opened = await self.up.service.http.post("/v1/sessions", json=opening)
        session: str = opened.json()["session"]
        answered = await self.up.service.run_turn(session, QUESTION)
        assert answered["status"] == "completed"
        return session


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def scraped(host: ProcessHost) -> AsyncIterator[ScrapedService]:
    address = f"127.0.0.1:{find_free_port()}"
    prices = host.folder / "prices.json"
    prices.write_text(json.dumps(PRICES))
    variables = {
        "TURNLOG_METRICS": address,
        "TURNLOG_MODEL": "scripted/uderia",
        "TURNLOG_PRICES": str(prices),
    }
    async with run_turnlog_up(host, variables=variables) as up:
        yield ScrapedService(up, address)


def sum_samples(samples: Iterable[tuple[Labels, float]], **labels: str) -> float:
    return sum(value for each, value in samples if labels.items() <= each.items())


async def test_metrics_agree_with_the_record_and_keep_their_number_of_series(
    scraped: ScrapedService,
) -> None:
    first = await scraped.run_session()
    before = await scraped.scrape_after_turns(1)
    others = [await scraped.run_session() for _ in range(3)]
    after = await scraped.scrape_after_turns(1 + len(others))
    calls = [
        call
        for session in (first, *others)
        for call in await scraped.up.service.list_calls(session)
    ]
    tokens = after["turnlog_context_tokens_sum"]
    assert sum_samples(tokens) == sum(call["tokens"] for call in calls)
    usage = await scraped.up.service.get_json("/v1/usage")
    for name in ("input_tokens", "output_tokens"):
        reported = after[f"gen_ai_client_inference_usage_{name}_total"]
        assert sum_samples(reported) == usage["total"][name]
    cost = after["turnlog_cost_microdollars_total"]
    assert sum_samples(cost, turnlog_price="exact") == usage["total"]["cost"]["micro_dollars"] > 0
    turns = sum_samples(after["gen_ai_workflow_duration_seconds_count"])
    assert sum_samples(after["turnlog_turns_running"]) == 0
    weather = {"gen_ai_tool_name": "harbour_weather"}
    assert sum_samples(after["gen_ai_execute_tool_duration_seconds_count"], **weather) == turns
    assert {name: len(after[name]) for name in before if name != "target_info"} == {
        name: len(before[name]) for name in before if name != "target_info"
    }
    texts = {value for name in after for labels, _ in after[name] for value in labels.values()}
    assert not texts & {first, *others}


async def test_queue_read_models_and_webhooks_are_measured_before_anything_happens(
    scraped: ScrapedService,
) -> None:
    wanted: dict[str, dict[str, tuple[str, ...]]] = {
        "turnlog_queue_depth": {"turnlog_queue_state": ("delivered", "undelivered")},
        "turnlog_projector_lag": {"turnlog_projection": ("knowledge", "segments", "sessions")},
        "turnlog_webhook_deliveries_total": {
            "turnlog_webhook_outcome": ("delivered", "failed", "given_up", "stopped")
        },
        "turnlog_webhook_lag_seconds": {},
        "turnlog_webhook_sessions": {"turnlog_webhook_place": ("behind", "given_up")},
    }
    while wanted.keys() - (found := await scraped.scrape()).keys():
        pass  # Each is read a few seconds after the start.
    for name, expected in wanted.items():
        for label, values in expected.items():
            assert sorted(labels[label] for labels, _ in found[name]) == [*values]


async def test_nothing_but_metrics_is_served_there(scraped: ScrapedService) -> None:
    async with httpx.AsyncClient(base_url=f"http://{scraped.address}") as http:
        assert (await http.get("/v1/sessions")).status_code == 404
        assert (await http.get("/metrics")).headers["content-type"].startswith("text/plain")


async def test_address_that_is_taken_is_refused_by_the_name_of_its_setting(
    scraped: ScrapedService, host: ProcessHost
) -> None:
    process = await host.start_process(
        *("up", "--data-dir", str(host.folder / "second"), "--http", "127.0.0.1:0"),
        variables={"TURNLOG_METRICS": scraped.address},
    )
    assert await process.wait_for_exit() == 2
    assert "metrics" in process.describe_output()
