"""Alert rules and the dashboard, in a real Prometheus that reads a real service."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from ruamel.yaml import YAML

from tests.support.processes.live_service import LiveService
from tests.support.processes.process_host import find_free_port, run_process_host
from tests.support.processes.turnlog_up import run_turnlog_up
from turnlog.services.worker.model import scripted_model

FOLDER = Path(__file__).parents[2] / "deploy/observability"

RUNNING_PAGE = FOLDER.parents[1] / "docs/running.md"

PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")

needs_prometheus = pytest.mark.skipif(
    PROMETHEUS is None or PROMTOOL is None, reason="no `prometheus` and `promtool` on PATH"
)

SCRIPTS = Path(scripted_model.__file__).parent / "scripts"

REFUSED = "Say nothing at all."

ROUNDS = 10
"""Rounds of turns; a rate needs two scrapes with a figure."""

RATES = re.compile(r"\$__rate_interval|\b\d+[mh]\b")

LIMIT = re.compile(r" [<>=]=? [\d.]+$")
"""Where an alert compares with its limit."""


def run_promtool(*words: str) -> None:
    subprocess.run([str(PROMTOOL), *words], cwd=FOLDER, check=True, capture_output=True, timeout=60)


def load_yaml(name: str) -> Any:  # noqa: ANN401 - as the file has it
    return YAML(typ="safe").load(FOLDER / name)


def test_collector_takes_what_roles_send_and_has_what_prometheus_reads() -> None:
    """The structure alone, since no collector runs here: what is named is there, and used."""
    collector = load_yaml("collector.yml")
    service = collector["service"]
    pipelines = service["pipelines"]
    assert pipelines.keys() == {"metrics", "traces"}
    assert set(service["extensions"]) == collector["extensions"].keys()
    for kind in ("receivers", "processors", "exporters"):
        used = {each for pipeline in pipelines.values() for each in pipeline[kind]}
        assert used == collector[kind].keys()
    for pipeline in pipelines.values():
        assert pipeline["processors"][0] == "memory_limiter", "it comes first, or limits nothing"
    received = collector["receivers"]["otlp"]["protocols"]["http"]["endpoint"]
    assert f"http://collector:{received.partition(':')[2]}" in RUNNING_PAGE.read_text()
    shown = collector["exporters"]["prometheus"]["endpoint"]
    assert f"collector:{shown.partition(':')[2]}" in (FOLDER / "prometheus.yml").read_text()


@needs_prometheus
def test_alert_rules_are_valid_and_raise_what_they_say() -> None:
    run_promtool("check", "config", "prometheus.yml")
    run_promtool("test", "rules", "rules_test.yml")


def list_queries() -> list[str]:
    """Return the queries of the dashboard and of the alerts without their limits."""
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    alerts = [each["expr"] for group in load_yaml("rules.yml")["groups"] for each in group["rules"]]
    assert all(LIMIT.search(each) for each in alerts)
    # No scripted model is without a price.
    alerts = [each.replace('turnlog_price="fallback"', 'turnlog_price="exact"') for each in alerts]
    drawn = [each["expr"] for panel in dashboard["panels"] for each in panel["targets"]]
    return [*drawn, *(LIMIT.sub("", each) for each in alerts)]


@asynccontextmanager
async def run_prometheus(folder: Path, target: str) -> AsyncGenerator[httpx.AsyncClient]:
    """Run a Prometheus that reads a target twice a second."""
    port = find_free_port()
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 500ms}\n"
        f"scrape_configs: [{{job_name: turnlog, static_configs: [{{targets: ['{target}']}}]}}]\n"
    )
    process = await asyncio.create_subprocess_exec(
        str(PROMETHEUS),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        transport = httpx.AsyncHTTPTransport(retries=8)
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", transport=transport
        ) as http:
            yield http
    finally:
        process.terminate()
        await process.wait()


async def query(http: httpx.AsyncClient, expression: str) -> list[dict[str, Any]]:
    answer = await http.get("/api/v1/query", params={"query": expression})
    assert answer.status_code in {200, 503}, answer.text  # 503 until it has started
    return answer.json()["data"]["result"] if answer.status_code == 200 else []


async def run_turns(service: LiveService) -> None:
    """Answer a turn with a plan and a tool, one whose prompt is cut, and one that fails."""
    planned = await open_session(service, blueprint="uderia", profile="tool_enabled")
    await service.run_turn(planned, "What were wind and sight yesterday?")
    cut = await open_session(service, blueprint="assistant")
    for _ in range(3):
        await service.run_turn(cut, "The tide turns at noon. " * 700)
    failed = await service.run_turn(await open_session(service, blueprint="assistant"), REFUSED)
    assert failed["status"] == "failed"


async def open_session(service: LiveService, **opening: str) -> str:
    opened = await service.http.post("/v1/sessions", json=opening)
    session: str = opened.json()["session"]
    return session


@needs_prometheus
@pytest.mark.slow("a service and a Prometheus start")
@pytest.mark.asyncio(loop_scope="session")
async def test_every_query_of_dashboard_and_alerts_finds_what_a_service_measured(
    tmp_path: Path,
) -> None:
    address = f"127.0.0.1:{find_free_port()}"
    refusal = f"  - {{match: {REFUSED}, fail: unauthorised, text: ''}}\n"
    script = (SCRIPTS / "uderia.yaml").read_text()
    (tmp_path / "watched.yaml").write_text(script.replace("replies:\n", f"replies:\n{refusal}", 1))
    variables = {
        "TURNLOG_METRICS": address,
        "TURNLOG_MODEL": "scripted/watched",
        "TURNLOG_SCRIPTS": str(tmp_path),
    }
    async with (
        run_process_host(tmp_path / "up", variables) as host,
        run_turnlog_up(host) as up,
        run_prometheus(tmp_path, address) as http,
    ):
        missing = set(list_queries())
        for _ in range(ROUNDS):
            await run_turns(up.service)
            for each in [*missing]:
                if await query(http, RATES.sub("1m", each)):
                    missing.remove(each)
            if not missing:
                break
        assert not missing
