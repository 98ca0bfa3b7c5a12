"""No turn falls out of a window: each is verbatim, in a summary, or named as left out by a rule.

Random sessions of every shipped blueprint that has a summary are played over HTTP, and of a copy
whose summary is a step of the ladder of the whole prompt. Every prompt with history is read back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.agent_programs.shipped.test_summary_steps import BY_THE_WHOLE, copy_uderia
from tests.faults.suite_extent import RUN_EVERYTHING
from tests.services.gateway.gateway_service import (
    MemoryBackend,
    RunningGateway,
    build_worker,
    cancel_tasks,
    run_worker,
    start_service,
)
from tests.support.sessions.puppet_model import build_finish
from tests.support.sessions.reproduction_checks import find_unreproducible_calls
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders
from turnlog.services.model_facts.attempt_pricing import AttemptPricing
from turnlog.services.model_facts.model_dialects import ModelDialects
from turnlog.services.model_facts.model_prices import ModelPrices
from turnlog.services.worker.model.model_types import (
    ModelDelta,
    ModelFailure,
    ModelRequest,
    TextDelta,
)

SUMMARISED_BLUEPRINTS = [
    name
    for name in BlueprintFolders().list_names()
    if any(view.summary for view in BlueprintFolders().load_blueprint(name).history.values())
]

LADDER_COPY = "uderia-ladder"
"""A copy of `uderia` whose summary is made where the whole prompt has no room."""

SEEDS = range(40 if RUN_EVERYTHING else 3)

CASES = [
    *((name, seed) for name in SUMMARISED_BLUEPRINTS for seed in SEEDS),
    *((LADDER_COPY, seed) for seed in (SEEDS if RUN_EVERYTHING else SEEDS[:1])),
]

STATUS_RULES = {"excluded", "failed", "cancelled", "purged", "not for this phase"}
"""Rules of turns that are not valid, or not visible."""

HISTORY_LIMIT = 3_000

MOST_TOKENS = 32_000
"""The larger budget, for the last messages where they exceed the first one."""

WORDS = ("tide", "berth", "crew", "fare", "wind", "fog", "rope", "gull", "buoy", "Oslo", "7", "$3")


@dataclass
class RandomModel:
    """Answers at random length; a summary may fail, be empty, or be longer than its turns."""

    random: Random

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """See `LanguageModel.stream`."""
        texts = [str(message["content"]) for message in request.messages]
        if texts[-1].startswith("Summarise the conversation above"):
            if self.random.random() < 0.2:
                raise ModelFailure("server_error", "down")
            yield TextDelta(self.random.choice(["", "They spoke. ", "They spoke. " * 60]))
        elif "# Your task now: plan" in texts[0]:
            yield TextDelta('{"steps": []}')
        else:
            yield TextDelta(build_text(self.random))
        yield build_finish()


def build_text(random: Random) -> str:
    """Return a text of up to five thousand words."""
    size = random.choice([3, 30, 300, 900, 1_400, 3_000, 5_000])
    return " ".join(random.choice(WORDS) for _ in range(size)) + "."


def build_question(random: Random) -> str:
    """Return a question, often one that differs from the last in its values only."""
    return random.choice(
        [
            f"Show boats under ${random.randrange(90)}",
            f"Show boats in {random.choice(['Oslo', 'Rome', 'Bonn'])}",
            f"And what of the {random.choice(WORDS)} and the {random.choice(WORDS)}?",
            f"Why, {build_text(random)[:2_000]}",
        ]
    )


def measure_history(parts: list[dict[str, Any]]) -> int:
    """Return the tokens of history before a rule condensed repeated questions."""
    included = [each for each in parts if each.get("role")]
    saved = sum(each.get("saved", 0) for each in included if each.get("rule") == "repeats")
    return sum(int(each["tokens"]) for each in included) + int(saved)


@dataclass(kw_only=True)
class RandomSession:
    """A session that is played at random."""

    stand: RunningGateway
    session: str
    random: Random
    is_limited_by_component: bool
    """Whether the ladder of the component has it summarised, and not that of the whole."""
    turns: int = 0
    is_left_whole: bool = False
    """Whether a summary was undone by request, so that the view is left whole for a while."""
    covered: set[str] = field(default_factory=set[str])
    """The ways in which turns were covered so far."""

    async def play_action(self) -> None:
        """Submit a turn, or change what earlier turns are worth."""
        path = f"/v1/sessions/{self.session}"
        turn = self.random.randint(1, max(1, self.turns))
        match self.random.choices(range(7), (20, 1, 1, 1, 0.5, 2, 1))[0]:
            case 1:
                await self.stand.http.put(f"{path}/turns/{turn}/exclusion")
            case 2:
                await self.stand.http.delete(f"{path}/turns/{turn}/exclusion")
            case 3:
                redaction = {"turn": turn, "reason": "a slip", "replacement": "(Gone.)"}
                await self.stand.http.post(f"{path}/redactions", json=redaction)
            case 4:
                if self.turns > 6:
                    await self.stand.http.post(f"{path}/purge")
            case 5:
                to = self.random.choice(["tool_enabled", "llm_only"])
                await self.stand.http.post(f"{path}/profile", json={"profile": to})
            case 6:
                summaries = (await self.stand.fetch_json(f"{path}/summaries"))["summaries"]
                for each in summaries[-1:]:
                    await self.stand.http.post(f"{path}/summaries/{each['sequence']}/undo")
                    self.is_left_whole = True
            case _:
                form = {"text": build_question(self.random)}
                answer = await self.stand.http.post(f"{path}/turns?wait=60", json=form)
                assert answer.json()["status"] == "completed", answer.text
                self.turns += 1
                await self.check_calls()

    async def check_calls(self) -> None:
        """Check the windows of the last turn's calls."""
        path = f"/v1/sessions/{self.session}/calls/{self.turns}"
        for number in range(1, 5):
            answer = await self.stand.http.get(f"{path}.{number}/prompt")
            if answer.status_code == 404:
                return
            prompt = answer.json()
            assert prompt["verified"], prompt
            if prompt["manifest"]["kind"] in {"plan", "converse"}:
                await self.check_window(prompt["manifest"])

    async def check_window(self, manifest: dict[str, Any]) -> None:
        """Check that each turn before the call is covered exactly once, and by what."""
        assert manifest["tokens"] <= manifest["budget"] <= MOST_TOKENS
        parts = [each for each in manifest["parts"] if each["layer"] == "history"]
        summaries = [each for each in parts if "sequence" in each["source"] and each.get("role")]
        summarised = await self.list_summarised_turns(summaries)
        covering: dict[int, list[str]] = {turn: [] for turn in range(1, self.turns)}
        for part in parts:
            if "view" in part["source"]:
                way = part["treatment"] if part.get("role") else f"left out: {part['rule']}"
                for turn in range(part["source"]["first"], part["source"]["last"] + 1):
                    covering[turn].append(way)
        latest = [turn for turn, ways in covering.items() if not self.is_invalid(ways[0])][-3:]
        trimmed = any(each["step"] == "drop_oldest_pairs" for each in manifest.get("steps", ()))
        for turn, ways in covering.items():
            (way,) = ways
            self.covered.add(way)
            match way.removeprefix("left out: "):
                case "summarised":
                    assert turn in summarised, (turn, summarised)
                case "drop_oldest_pairs":
                    assert trimmed, "it is named only where the declared step was taken"
                    before = [each["before"] for each in manifest["steps"]]
                    assert max(before) > MOST_TOKENS, "the whole had room"
                    assert turn not in latest, "the last six messages are never dropped"
                case rule:
                    assert way in {"kept", "condensed"} or rule in STATUS_RULES, (turn, way)
        self.check_latest(parts, covering, latest)
        if self.is_limited_by_component and not self.is_left_whole:
            await self.check_older(parts, covering, latest)

    def is_invalid(self, way: str) -> bool:
        """Return whether a turn is left out because it is not valid, or not visible."""
        return way.removeprefix("left out: ") in STATUS_RULES

    def check_latest(
        self, parts: list[dict[str, Any]], covering: dict[int, list[str]], latest: list[int]
    ) -> None:
        """Check that the last six messages are verbatim above the limit, the last two always."""
        verbatim = latest if measure_history(parts) > HISTORY_LIMIT else latest[-1:]
        ways = {turn: covering[turn][0] for turn in verbatim}
        assert set(ways.values()) <= {"kept", "left out: summarised"}, ways
        # A turn that was excluded later makes room for one that a summary covers already.
        kept = [turn for turn, way in ways.items() if way == "kept"]
        assert kept == verbatim[len(verbatim) - len(kept) :]

    async def check_older(
        self, parts: list[dict[str, Any]], covering: dict[int, list[str]], latest: list[int]
    ) -> None:
        """Check that above the limit nothing older is verbatim, unless its summary failed."""
        older = [turn for turn, (way,) in covering.items() if way == "kept" and turn not in latest]
        if not older or measure_history(parts) <= HISTORY_LIMIT:
            return
        path = f"/v1/sessions/{self.session}/events"
        page = await self.stand.fetch_json(path, types="summary-failed", limit=500)
        failed = [each["data"]["turn"] for each in page["events"]]
        assert self.turns in failed, older

    async def list_summarised_turns(self, included: list[dict[str, Any]]) -> set[int]:
        """Return the turns of the summaries that a prompt includes."""
        view = await self.stand.fetch_json(f"/v1/sessions/{self.session}/summaries")
        sequences = {each["source"]["sequence"] for each in included}
        ranges = [each["turns"] for each in view["summaries"] if each["sequence"] in sequences]
        return {n for one in ranges for each in one for n in range(each["first"], each["last"] + 1)}


@pytest.mark.slow("turns of several calls run over HTTP")
@pytest.mark.parametrize(("blueprint", "seed"), CASES)
async def test_u10_every_turn_is_verbatim_in_a_summary_or_named_as_left_out(
    blueprint: str, seed: int, tmp_path: Path
) -> None:
    backend, random = MemoryBackend(), Random(seed)  # noqa: S311 - a test is to repeat itself
    copies = (tmp_path / "blueprints",)
    copy_uderia(*copies, LADDER_COPY, *BY_THE_WHOLE)
    async with start_service(
        backend, "random", tmp_path, working=False, blueprints=copies
    ) as stand:
        pricing = AttemptPricing(ModelPrices().load_table, ModelDialects().load_table)
        worker = build_worker(backend, stand.store, RandomModel(random), pricing, blueprints=copies)
        working = asyncio.create_task(run_worker(backend, stand.tenant, worker, stand.handled))
        try:
            session = await stand.open_session(blueprint)
            playing = RandomSession(
                stand=stand,
                session=session,
                random=random,
                is_limited_by_component=blueprint != LADDER_COPY,
            )
            for _ in range(26):
                await playing.play_action()
        finally:
            await cancel_tasks(working)
    if seed == SEEDS[0]:
        assert {"kept", "left out: summarised"} <= playing.covered, "it reaches a summary"
    assert find_unreproducible_calls(backend.log.stored, backend.blobs.blobs) == []


def test_shipped_agent_platform_has_a_summary() -> None:
    assert "uderia" in SUMMARISED_BLUEPRINTS
