"""A worker dies before or after each append of every kind of turn end; another takes over.

An end that says one thing is one event, and one that has more to say is a batch. Whatever the form
and wherever the worker dies, the log says in the end what it says without a crash, attempts aside,
and each attempt ends once. The turns of several calls have files of their own: plans and prompts
(`test_turn_crashes`), tools and approvals (`test_loop_crashes`), retrievals
(`test_retrieval_crashes`), children (`children/test_child_crashes`) and summaries
(`history/test_summary_crashes`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal

import pytest

from tests.agent_programs.agent_harness import USAGE, do_nothing
from tests.agent_programs.children.child_harness import MemoryQueue
from tests.agent_programs.turns.test_turn_crashes import WHEN, CrashingLog, build_crashing_worker
from tests.support.sessions.event_parts import find_part
from tests.support.sessions.puppet_model import PuppetModel, ScriptStep, build_finish
from tests.support.sessions.session_harness import (
    TENANT,
    TESTER,
    SessionHarness,
    build_small_blueprint,
)
from turnlog.events.async_tasks import cancel_tasks
from turnlog.events.codec import EventBatch, decode_event
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import AttemptEnded, AttemptStarted
from turnlog.events.registry import UnknownEvent, format_event_name
from turnlog.events.store.ports import AppendOutcome
from turnlog.projections.blueprint.loading.cartridge_source import Cartridge
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, compute_history_reach
from turnlog.projections.blueprint.schema.phase_specs import TRANSITION_TOOL
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import CancelTurn, Command, OpenSession, SubmitTurn
from turnlog.services.worker.model.model_types import (
    FinishedAnswer,
    ModelDelta,
    ModelFailure,
    ModelRequest,
    ModelToolCall,
)

Scripts = Sequence[Sequence[ScriptStep]]

ScriptsByText = Mapping[str, Scripts]

CLAIM, PROMPT = "attempt-started", "context-assembled"

FAILURE: Final = ModelFailure("server_error", "down")

RISK = "How risky is LOGT11?"

LESSON: Final[Cartridge] = {
    "phases": {
        "start": "talk",
        "talk": {
            "kind": "freeform",
            "min_exchanges": 0,
            "max_exchanges": 2,
            "ai_transitions": {"on_success": "reveal", "on_max_exchanges": "reveal"},
        },
        "reveal": {"kind": "debrief", "next": "end"},
        "end": {"kind": "static"},
    }
}


def build_lesson() -> Blueprint:
    """Return a blueprint whose dialogue leads into a debrief that starts by itself."""
    body = build_small_blueprint().model_dump(mode="json", by_alias=True, exclude_unset=True)
    body["calls"]["reply"]["tools"] = [TRANSITION_TOOL]
    body["calls"]["debrief"] = {"messages": [{"system": ["rules"]}], "input": "none"}
    body["profiles"]["one"]["call"] = "by_phase"
    return Blueprint.model_validate(
        {
            **body,
            "cartridge": {"file": "lesson.yaml", "requires": ["phases"]},
            "phases": {
                "from": "cartridge.phases",
                "calls": {"freeform": "reply", "debrief": "debrief"},
                "signals": {"understood": "on_success"},
            },
        }
    )


def build_answerer() -> Blueprint:
    """Return a blueprint that looks up what a turn is about, and remembers it."""
    inherit = {"ticker": {"intents": ["fiis_precos"]}}
    body = build_small_blueprint(references={"inherit": inherit}, retries={"max": 0}).model_dump(
        mode="json", by_alias=True, exclude_unset=True
    )
    body["calls"]["reply"]["fallback"] = "resolved.answer"
    return Blueprint.model_validate({**body, "resolver": {"source": "finance_demo"}})


def ask_transition() -> list[ScriptStep]:
    """Return a script in which the model replies and asks to end the phase."""
    wish = ModelToolCall("c1", TRANSITION_TOOL, '{"signal": "understood"}')
    return [
        "Well done.",
        FinishedAnswer(
            finish_reason="tool_calls",
            tool_calls=(wish,),
            usage=USAGE,
            model="puppet/one",
            response_id=None,
        ),
    ]


@dataclass(kw_only=True)
class AttemptKeyedModel(PuppetModel):
    """A model whose answer depends on the prompt, and on how often it was asked before."""

    scripts_by_text: ScriptsByText = field(default_factory=dict[str, Scripts])
    """By the last message, the scripts of the first and of later requests; the last one stays."""
    asked: Counter[str] = field(default_factory=Counter[str])

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """See `Model.stream`."""
        text = str(request.messages[-1]["content"])
        scripts = self.scripts_by_text.get(text, [["Well."]])
        self.scripts = [scripts[min(self.asked[text], len(scripts) - 1)]]
        self.asked[text] += 1
        async for each in super().stream(request):
            yield each


@dataclass(kw_only=True)
class CancellingModel(AttemptKeyedModel):
    """A model during whose first answer the turn is cancelled; it says no more."""

    cancel: Callable[[], Awaitable[object]] = do_nothing

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """See `Model.stream`."""
        async for each in super().stream(request):
            yield each
            if request.messages[-1]["content"] == "One?":
                await self.cancel()
                await asyncio.Event().wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnKind:
    """A kind of turns, and what its workers append."""

    appends: tuple[str, ...]
    """The names of the events of each append that its workers try, in order."""
    blueprint: Blueprint
    answers: ScriptsByText = field(default_factory=dict[str, Scripts])
    """What the model answers to a text at the first and at later requests; else it says `Well.`"""
    texts: tuple[str, ...] = ("One?",)
    """The turns, which are submitted at once."""
    cartridge: Cartridge | None = None
    is_cancelled: bool = False
    """Whether the first turn is cancelled while the model answers."""


PATIENT: Final = build_small_blueprint(retries={"base_seconds": 0})


KINDS: Final[Mapping[str, TurnKind]] = {
    "plain": TurnKind(appends=(CLAIM, PROMPT, "turn-completed"), blueprint=PATIENT),
    "queued": TurnKind(
        appends=(
            *(CLAIM, PROMPT, "turn-completed turn-released"),
            *(CLAIM, PROMPT, "turn-completed"),
        ),
        blueprint=PATIENT,
        texts=("One?", "Two?"),
    ),
    "retried": TurnKind(
        appends=(CLAIM, PROMPT, "attempt-ended attempt-started", "turn-completed"),
        blueprint=PATIENT,
        answers={"One?": (["We", FAILURE], ["Well."])},
    ),
    "failed": TurnKind(
        appends=(
            CLAIM,
            PROMPT,
            "attempt-ended turn-failed turn-released",
            CLAIM,
            PROMPT,
            "turn-completed",
        ),
        blueprint=build_small_blueprint(retries={"max": 0}),
        answers={"One?": [[FAILURE]]},
        texts=("One?", "Two?"),
    ),
    "withheld": TurnKind(
        appends=(
            *(CLAIM, PROMPT, "call-completed reply-redacted turn-released"),
            *(CLAIM, PROMPT, "turn-completed"),
        ),
        blueprint=build_small_blueprint(
            safety={"hold_back": "reply", "rules": [{"name": "r", "pattern": "bad"}]}
        ),
        answers={"One?": [["That is bad."]]},
        texts=("One?", "Two?"),
    ),
    "cancelled": TurnKind(
        # What the attempt cost is tried twice: the first try meets the cancellation on the log.
        appends=(CLAIM, PROMPT, "attempt-ended", "attempt-ended", CLAIM, PROMPT, "turn-completed"),
        blueprint=PATIENT,
        texts=("One?", "Two?"),
        is_cancelled=True,
    ),
    "filtered": TurnKind(
        appends=(CLAIM, PROMPT, "turn-completed turn-excluded"),
        blueprint=PATIENT,
        answers={"One?": [["We", build_finish(finish="content_filter")]]},
    ),
    "signalled": TurnKind(
        appends=(
            *(CLAIM, PROMPT),
            "call-completed tool-called tool-returned turn-completed phase-entered turn-submitted",
            *(CLAIM, PROMPT, "turn-completed phase-entered"),
        ),
        blueprint=build_lesson(),
        answers={"One?": [ask_transition()]},
        cartridge=LESSON,
    ),
    "forced": TurnKind(
        appends=(
            *(CLAIM, PROMPT, "turn-completed turn-released"),
            *(CLAIM, PROMPT, "turn-completed phase-entered turn-submitted"),
            *(CLAIM, PROMPT, "turn-completed phase-entered"),
        ),
        blueprint=build_lesson(),
        texts=("One?", "Two?"),
        cartridge=LESSON,
    ),
    "remembered": TurnKind(
        appends=(CLAIM, "turn-resolved", PROMPT, "turn-completed"),
        blueprint=build_answerer(),
        texts=(RISK,),
    ),
    "fallen back": TurnKind(
        appends=(CLAIM, "turn-resolved", PROMPT, "attempt-ended turn-completed"),
        blueprint=build_answerer(),
        answers={RISK: [[FAILURE]]},
        texts=(RISK,),
    ),
}

CASES = [
    pytest.param(name, at, when, id=f"{name}-{when}-{at}")
    for name, kind in KINDS.items()
    for at in range(1, len(kind.appends) + 1)
    for when in WHEN
]


UNCOMPARED: Final = {"answer", "attempt", "spent", "manifest", "digest", "withheld"}
"""Fields of an attempt, and digests of prompts and withheld replies, which differ by the salt."""


@dataclass(kw_only=True)
class RecordingLog(CrashingLog):
    """A crashing log that knows the appends that its worker made or tried."""

    batches: list[str] = field(default_factory=list[str])

    async def append_batch(self, batch: EventBatch) -> AppendOutcome:
        """See `Log.append`."""
        types = [decode_event(each.payload, 1).envelope.type for each in batch.messages]
        self.batches.append(" ".join(map(format_event_name, types)))
        return await super().append_batch(batch)


async def open_session(kind: TurnKind) -> SessionHarness:
    """Open a session of a kind and submit its turns."""
    house = SessionHarness()
    material = SessionMaterial(blueprint=kind.blueprint, cartridge=kind.cartridge or {})
    blueprint, cartridge = material.blueprint, None
    if kind.cartridge:
        cartridge = await house.blueprints.store_cartridge(TENANT, kind.cartridge)
    opening = OpenSession(
        blueprint=await house.blueprints.store_blueprint(TENANT, blueprint),
        profile=blueprint.default_profile,
        reach=compute_history_reach(blueprint),
        attributes={},
        cartridge=cartridge,
        phases=material.phases,
    )
    commands: list[Command] = [opening]
    commands += (
        SubmitTurn(text=text, policies=blueprint.policies, phases=material.phases)
        for text in kind.texts
    )
    for command in commands:
        await house.sessions.handle(TENANT, "s", command, TESTER)
    cancel = partial(house.sessions.handle, TENANT, "s", CancelTurn(1), TESTER)
    house.model = (
        CancellingModel(cancel=cancel)
        if kind.is_cancelled
        else AttemptKeyedModel(scripts_by_text=kind.answers)
    )
    return house


async def run_kind(
    kind: TurnKind, at: int = 0, when: Literal["before", "after"] = "before"
) -> tuple[SessionHarness, RecordingLog]:
    """Let a worker have all turns of a kind until it dies, and another one what is left."""
    house = await open_session(kind)
    queue, mortal = MemoryQueue(house), RecordingLog(log=house.log, fatal=at, when=when)
    working = asyncio.create_task(queue.deliver_all(build_crashing_worker(house, mortal, "w1")))
    dying = asyncio.create_task(mortal.dead.wait())
    await asyncio.wait({working, dying}, return_when=asyncio.FIRST_COMPLETED)
    if not mortal.dead.is_set():
        working.result()
    await cancel_tasks(working, dying)
    house.tokens.clear_all()
    await queue.deliver_all(house.build_worker("w2"))
    return house, mortal


def list_story(house: SessionHarness) -> list[tuple[str, Any]]:
    """Return what the log says but for attempts: each event by name, and of ends the rest."""
    return [
        (format_event_name(each.envelope.type), describe_event(each))
        for each in house.list_events()
        if not isinstance(each.event, AttemptStarted | AttemptEnded)
    ]


def describe_event(recorded: RecordedEvent) -> dict[str, Any]:
    """Return an event without what depends on the attempt."""
    assert not isinstance(recorded.event, UnknownEvent)
    return recorded.event.model_dump(mode="json", exclude=UNCOMPARED)


def count_attempts(house: SessionHarness, kind: type[Any]) -> Counter[tuple[int, int]]:
    """Count the starts or the ends of each attempt."""
    parts = (find_part(each.event, kind) for each in house.list_events())
    return Counter((part.turn, part.attempt) for part in parts if part)


@pytest.mark.parametrize("name", KINDS)
async def test_each_kind_of_turn_end_has_the_expected_appends(name: str) -> None:
    _, log = await run_kind(KINDS[name])
    assert tuple(log.batches) == KINDS[name].appends


_stories_without_crash: dict[str, list[tuple[str, Any]]] = {}


@pytest.mark.parametrize(("name", "at", "when"), CASES)
async def test_log_after_a_crash_equals_the_log_without_a_crash(
    name: str, at: int, when: Literal["before", "after"]
) -> None:
    kind = KINDS[name]
    if name not in _stories_without_crash:
        _stories_without_crash[name] = list_story((await run_kind(kind))[0])
    house, mortal = await run_kind(kind, at, when)
    assert mortal.dead.is_set()
    assert list_story(house) == _stories_without_crash[name]
    started, ended = (count_attempts(house, each) for each in (AttemptStarted, AttemptEnded))
    # The worker of a cancelled turn adds what its attempt cost, if it lives to say so.
    assert ended.keys() == started.keys() if kind.is_cancelled else ended == started
    state = await house.load_state()
    assert (state.open, state.waiting) == (None, ())
