"""Sessions played in memory by a puppet model, and their forecasts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pydantic import JsonValue

from tests.agent_programs.agent_harness import FakeToolServer
from tests.support.sessions.puppet_model import ScriptStep, build_finish
from tests.support.sessions.session_harness import TENANT, TESTER, SessionHarness
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import ContextAssembled
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, compute_history_reach
from turnlog.projections.forecast.session_forecast import (
    BandWidening,
    ForecastInputs,
    SessionForecast,
    forecast_session,
)
from turnlog.projections.session.commands import OpenSession
from turnlog.services.audit.session_record import SessionRecord, SessionRecordLoader
from turnlog.services.extensions.plugins import collect_installed

MODEL = "puppet/one"


def build_chat_blueprint(
    tokens: int | None = 400, step: Mapping[str, JsonValue] = {}, **changes: JsonValue
) -> Blueprint:
    """Build a blueprint of one call; a character is a token."""
    call: dict[str, JsonValue] = {
        "messages": [{"system": ["rules"]}, {"history": "recent"}, {"user": ["state", "input"]}]
    }
    window: dict[str, JsonValue] = {
        "tokens": tokens,
        "counter": {"chars_per_token": 1},
        "ladder": [{"drop_oldest_pairs": {"history": "recent", **step}}],
    }
    body: dict[str, JsonValue] = {
        "blueprint": "chat",
        "version": 1,
        "inputs": {"state": {"type": "text"}},
        "layers": {
            "rules": {"text": "Be brief.", "keep": "always"},
            "state": {"input": "state"},
        },
        "calls": {"reply": call if tokens is None else {**call, "budget": "window"}},
        "history": {"recent": {}},
        "profiles": {"one": {"default": True, "call": "reply"}},
        **({} if tokens is None else {"budget": {"window": window}}),
        **changes,
    }
    return Blueprint.model_validate(body)


async def open_played_session(blueprint: Blueprint, session: str = "s") -> SessionHarness:
    """Open a session of a blueprint, whose model reports no usage."""
    house = SessionHarness(servers=FakeToolServer())
    house.model.end = replace(build_finish(), usage=None)
    await open_another(house, blueprint, session)
    return house


async def open_another(house: SessionHarness, blueprint: Blueprint, session: str) -> None:
    """Open another session of the same log."""
    ref = await house.blueprints.store_blueprint(TENANT, blueprint)
    command = OpenSession(
        blueprint=ref, profile=blueprint.default_profile, reach=compute_history_reach(blueprint)
    )
    await house.sessions.handle(TENANT, session, command, TESTER)


async def play_turn(
    house: SessionHarness,
    characters: int,
    session: str = "s",
    *scripts: list[ScriptStep],
    inputs: Mapping[str, JsonValue] | None = None,
) -> None:
    """Play a turn whose text and reply have so many characters."""
    house.model.scripts = [*scripts, ["r" * characters]]
    await house.run_turn(await house.submit_turn("t" * characters, session, inputs=inputs))


async def load_record(house: SessionHarness, session: str = "s") -> SessionRecord:
    """Return the record of a session."""
    return await SessionRecordLoader(house.sessions).load_record(TENANT, session)


async def run_forecast(
    house: SessionHarness,
    session: str = "s",
    others: Sequence[str] = (),
    change: Callable[[RecordedEvent], RecordedEvent] = lambda each: each,
) -> SessionForecast:
    """Forecast a session from its record and those of others, whose events may be changed."""
    record = await load_record(house, session)
    records = [await load_record(house, each) for each in others]
    blobs = dict(record.blobs)
    for each in records:
        blobs |= each.blobs
    inputs = ForecastInputs(
        events=record.events,
        others=tuple(tuple(map(change, each.events)) for each in records),
        blobs=blobs,
        installed=collect_installed(),
        default_model=MODEL,
    )
    return forecast_session(inputs, BandWidening())


def find_first_cut(events: Sequence[RecordedEvent], after: int) -> int:
    """Return the number of turns after one until a prompt was cut anew."""
    calls = (each.event for each in events if isinstance(each.event, ContextAssembled))
    return next(
        call.turn - after
        for call in calls
        if call.turn > after and any(step.since is None for step in call.manifest.steps)
    )
