"""Session records: every call is assembled again as it was recorded."""

from __future__ import annotations

import pytest

from tests.support.sessions.session_harness import TENANT, TESTER, SessionHarness
from turnlog.events.errors import Corrupt
from turnlog.projections.audit.record.session_replay import RecordedCallInputs, SessionReplay
from turnlog.projections.prompt.assemble import assemble, plan_prompt
from turnlog.projections.session.commands import ExcludeTurn
from turnlog.projections.session.state import UNBOUNDED_REACH
from turnlog.projections.session.turn_commands import RedactReply
from turnlog.services.audit.session_record import SessionRecord, SessionRecordLoader
from turnlog.services.extensions.plugins import collect_installed

SAID = ("Where am I?", "And now?", "What is behind me?", "Go on.")


@pytest.fixture
async def house() -> SessionHarness:
    house = SessionHarness()
    await house.open_session()
    for text in SAID:
        await house.run_turn(await house.submit_turn(text))
    return house


async def load_record(house: SessionHarness) -> SessionRecord:
    return await SessionRecordLoader(house.sessions).load_record(TENANT, "s")


def list_call_inputs(record: SessionRecord) -> list[RecordedCallInputs]:
    replay = SessionReplay(blobs=record.blobs, installed=collect_installed())
    calls: list[RecordedCallInputs] = []
    for recorded in record.events:
        calls += filter(None, [replay.rebuild_inputs(recorded)])
        replay.apply_event(recorded)
    return calls


def is_same_manifest(made: RecordedCallInputs) -> bool:
    found = assemble(plan_prompt(made.material, made.state, made.call_request), made.texts)
    return found.manifest == made.call.manifest


async def test_reassembling_every_call_gives_its_recorded_manifest(
    house: SessionHarness,
) -> None:
    calls = list_call_inputs(await load_record(house))
    assert [made.call.call for made in calls] == ["1.1", "2.1", "3.1", "4.1"]
    assert all(map(is_same_manifest, calls))


async def test_later_exclusion_or_redaction_does_not_change_earlier_calls(
    house: SessionHarness,
) -> None:
    state = await house.load_state()
    await house.sessions.handle(TENANT, "s", ExcludeTurn(1), TESTER)
    await house.sessions.handle(
        TENANT, "s", RedactReply(2, "unsafe", "pattern", "(withheld)"), TESTER
    )
    await house.run_turn(await house.submit_turn("And then?"))
    calls = list_call_inputs(await load_record(house))
    assert len(calls) == len(SAID) + 1
    assert all(map(is_same_manifest, calls))
    assert calls[-1].state.head.sequence > state.head.sequence


async def test_call_with_longer_reach_than_its_session_state_is_reassembled(
    house: SessionHarness,
) -> None:
    for number in range(5, 11):
        await house.run_turn(await house.submit_turn(f"Turn {number}. " + "Tell me more. " * 100))
    for turn in range(7, 11):
        await house.sessions.handle(TENANT, "s", ExcludeTurn(turn), TESTER)
    await house.run_turn(await house.submit_turn("And then?"))
    calls = list_call_inputs(await load_record(house))
    assert [made.state.reach for made in calls][-2:] == [calls[0].state.reach, UNBOUNDED_REACH]
    assert all(map(is_same_manifest, calls))


async def test_record_up_to_a_sequence_lists_only_the_calls_up_to_it(house: SessionHarness) -> None:
    (first, *_) = list_call_inputs(await load_record(house))
    upto = await SessionRecordLoader(house.sessions).load_record(
        TENANT, "s", first.recorded.sequence
    )
    assert [made.call.call for made in list_call_inputs(upto)] == ["1.1"]


async def test_missing_blueprint_blob_is_reported_by_digest(house: SessionHarness) -> None:
    record = await load_record(house)
    with pytest.raises(Corrupt, match="blob sha256:"):
        list_call_inputs(SessionRecord(record.events, {}))
