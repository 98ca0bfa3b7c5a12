"""Strategies for sequences of actions in a tutor session: clients, models and crashing workers.

A request that the session refuses is skipped, so every list of actions is a valid session.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final, Literal

from hypothesis import strategies as st
from pydantic import JsonValue

from tests.layered_prompts.crashing_workers import SESSION, CrashingSession, remove_retry_delays
from tests.layered_prompts.tutor_service import FORBIDDEN
from tests.layered_prompts.tutor_sessions import load_shipped_material, require_phase_graph
from turnlog.events.errors import Refused
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import (
    CancelTurn,
    Command,
    ExcludeTurn,
    RecordChoice,
    RestoreTurn,
    SendSignal,
)
from turnlog.projections.session.turn_commands import RedactReply
from turnlog.services.worker.model.model_types import ModelFailure

RequestKind = Literal["say", "choose", "signal", "redact", "exclude", "restore", "cancel"]

SIGNALS: Final = ("understood", "partial", "max_reached", "victory", "")

REPLIES: Final = ("Sure.", "", "Hm. And then? ", FORBIDDEN, f"Sure. {FORBIDDEN}", "x" * 90)

FORBIDDEN_HERE: Final = "trick@example.org"

PHASES: Final[dict[str, JsonValue]] = {
    "start": "choose",
    "choose": {
        "kind": "static",
        "choices": {
            "share": {"context_label": "Shared it", "next": "talk"},
            "read": {"next": "short"},
            "leave": {"next": "choose"},
        },
    },
    "talk": {
        "kind": "freeform",
        "min_exchanges": 1,
        "max_exchanges": 4,
        "ai_transitions": {
            "on_success": "debrief", "on_partial": "short", "on_max_exchanges": "choose",
        },
    },
    "short": {
        "kind": "freeform",
        "max_exchanges": 1,
        "ai_transitions": {"on_success": "talk", "on_max_exchanges": "debrief"},
    },
    "debrief": {"kind": "debrief", "next": "choose"},
}  # fmt: skip
"""A phase graph with cycles, so that a session does not end early."""

CARTRIDGE: Final[dict[str, JsonValue]] = {
    "phases": PHASES,
    "safety": {"content_boundaries": ["weapons"], "intensity_ceiling": "low"},
}


@dataclass(frozen=True, slots=True)
class UserRequest:
    """A request of a client; `number` is reduced to a valid turn or choice."""

    what: RequestKind
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerAction:
    """A worker answers the open turn; after some steps another request comes or the worker dies.

    Where no turn is open, a choice is sent and then a text.
    """

    reply: str
    signals: tuple[str, ...] = ()
    failures: int = 0
    steps: int = 0
    meanwhile: UserRequest | None = None
    dies: bool = False


Action = UserRequest | AnswerAction

REQUESTS = st.builds(
    UserRequest,
    st.sampled_from(["say", "say", "choose", "signal", "redact", "exclude", "restore", "cancel"]),
    st.integers(0, 20),
)

PLAIN_ANSWERS = st.builds(AnswerAction, reply=st.sampled_from(REPLIES))

SIGNALLED_ANSWERS = st.builds(
    AnswerAction,
    reply=st.sampled_from(REPLIES),
    signals=st.lists(st.sampled_from(SIGNALS), min_size=1, max_size=2).map(tuple),
)

DISTURBED_ANSWERS = st.builds(
    AnswerAction,
    reply=st.sampled_from(REPLIES),
    signals=st.lists(st.sampled_from(SIGNALS), max_size=1).map(tuple),
    failures=st.sampled_from([0, 0, 1, 3]),
    steps=st.integers(0, 60),
    meanwhile=st.none() | REQUESTS,
    dies=st.booleans(),
)

ACTIONS: st.SearchStrategy[list[Action]] = st.lists(
    st.one_of(
        PLAIN_ANSWERS,
        PLAIN_ANSWERS,
        SIGNALLED_ANSWERS,
        DISTURBED_ANSWERS,
        DISTURBED_ANSWERS,
        REQUESTS,
    ),
    min_size=12,
    max_size=24,
)


def shrink_budget(blueprint: Blueprint) -> Blueprint:
    """Return the same blueprint with a budget of 700 tokens, so that much is trimmed."""
    written = remove_retry_delays(blueprint).model_dump(
        mode="json", by_alias=True, exclude_unset=True
    )
    written["budget"]["window"]["tokens"] = 700
    return Blueprint.model_validate(written)


TIGHT_MATERIAL: Final = SessionMaterial(
    blueprint=shrink_budget(load_shipped_material("lucky-draw").blueprint), cartridge=CARTRIDGE
)


async def play_actions(actions: list[Action]) -> CrashingSession:
    """Open a session and run all actions."""
    play = CrashingSession(TIGHT_MATERIAL)
    await play.open_session()
    for action in actions:
        if isinstance(action, UserRequest):
            await _send_request(play, action)
        else:
            await _run_answer(play, action)
    return play


async def _send_request(play: CrashingSession, request: UserRequest) -> None:
    state = await play.house.load_state(SESSION)
    turn = 1 + request.number % max(1, state.submitted)
    try:
        if request.what == "say":
            await play.submit_text(f"Said {request.number}, {'so ' * request.number}")
        else:
            await play.send_command(_build_command(play, request, turn))
    except Refused:
        return


def _build_command(play: CrashingSession, request: UserRequest, turn: int) -> Command:
    phases = require_phase_graph(play.material)
    choices = ("share", "read", "leave", "burn")
    match request.what:
        case "choose":
            return RecordChoice(choices[request.number % len(choices)], phases)
        case "signal":
            return SendSignal(SIGNALS[request.number % len(SIGNALS)], phases)
        case "redact":
            return RedactReply(turn, "wrong", "operator", "(Withheld.)")
        case "exclude":
            return ExcludeTurn(turn)
        case "restore":
            return RestoreTurn(turn)
        case "cancel":
            return CancelTurn()
        case "say":
            raise AssertionError(request.what)


async def _run_answer(play: CrashingSession, action: AnswerAction) -> None:
    for what in ("choose", "say"):
        if (await play.house.load_state(SESSION)).open is None:
            await _send_request(play, UserRequest(what, len(action.reply) + len(action.signals)))
    if (await play.house.load_state(SESSION)).open is None:
        return
    failures = [[ModelFailure("server_error", "down")]] * action.failures
    play.house.model.scripts = [
        *failures,
        [play.build_transition_script(*action.signals), action.reply],
    ]
    working = play.start_answer()
    for _ in range(action.steps):
        await asyncio.sleep(0)
    if action.meanwhile:
        await _send_request(play, action.meanwhile)
    if action.dies:
        working.cancel()
    await asyncio.gather(working, return_exceptions=action.dies)
