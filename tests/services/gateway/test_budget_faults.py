"""Impossible budgets, from the blueprint to the client of the session."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.services.gateway.gateway_service import MODEL, RunningGateway

BLUEPRINT = """
blueprint: {name}
version: 1
layers:
  rules: {{text: "Be brief, and say nothing that is not known.", keep: always}}
calls:
  reply:
    messages:
      - system: [rules]
      - history: recent
      - user: [input]
    budget: window
history:
  recent: {{}}
budget:
  window: {{tokens: {tokens}, ladder: [{{drop_oldest_pairs: {{history: recent}}}}]}}
profiles:
  chat: {{default: true, call: reply}}
"""


@asynccontextmanager
async def serve_budgeted_blueprint(
    stand: RunningGateway, folder: Path, tokens: str
) -> AsyncGenerator[RunningGateway]:
    """Serve the blueprint `budgeted` with this token budget."""
    file = folder / "budgeted" / "blueprint.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(BLUEPRINT.format(name="budgeted", tokens=tokens))
    async with stand.start_another_gateway(blueprints=(folder,)) as another:
        yield another


@pytest.mark.parametrize("tokens", ["0", "-1", "1.5", "many", "null", ".inf"])
async def test_invalid_budget_is_refused_with_its_line(
    idle: RunningGateway, tmp_path: Path, tokens: str
) -> None:
    async with serve_budgeted_blueprint(idle, tmp_path / "library", tokens) as stand:
        answer = await stand.http.post("/v1/sessions", json={"blueprint": "budgeted"})
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (422, "faulty-blueprint")
        assert any("blueprint.yaml:16" in fault["detail"] for fault in problem["faults"]), problem
        assert await stand.count_stored_events() == 0


async def test_budget_below_the_required_layers_is_refused_with_the_minimum(
    idle: RunningGateway, tmp_path: Path
) -> None:
    async with serve_budgeted_blueprint(idle, tmp_path / "library", "5") as stand:
        answer = await stand.http.post("/v1/sessions", json={"blueprint": "budgeted"})
        assert (answer.status_code, answer.json()["code"]) == (422, "faulty-blueprint")
        assert "give the budget more than" in answer.json()["detail"]
        assert await stand.count_stored_events() == 0


async def test_turn_over_budget_fails_without_a_model_request(
    stand: RunningGateway, tmp_path: Path
) -> None:
    async with serve_budgeted_blueprint(stand, tmp_path / "library", "40") as small:
        session = await small.open_session("budgeted")
        url = f"/v1/sessions/{session}/turns?wait=30"
        settled = (await small.http.post(url, json={"text": "a word " * 100})).json()
        assert (settled["status"], settled["reply"]) == ("failed", None)
        page = await small.fetch_json(f"/v1/sessions/{session}/events", types="turn-failed")
        assert page["events"][0]["data"]["code"] == "over-budget"
        assert small.model.requests == []


async def test_turn_larger_than_what_its_model_takes_is_refused_and_not_stored(
    idle: RunningGateway, tmp_path: Path
) -> None:
    file = tmp_path / "dialects.yaml"
    file.write_text(f"{MODEL}: {{context_tokens: 100}}\n")
    async with idle.start_another_gateway(model_dialects=file) as small:
        session = await small.open_session()
        stored = await small.count_stored_events()
        url = f"/v1/sessions/{session}/turns"
        answer = await small.http.post(url, json={"text": "a word " * 100})
        problem = answer.json()
        assert (answer.status_code, problem["code"], problem["field"]) == (
            *(422, "over-budget", "text"),
        )
        assert "do not fit the 100 that the model takes" in problem["detail"]
        assert await small.count_stored_events() == stored
        assert (await small.http.post(url, json={"text": "a word"})).status_code == 202
