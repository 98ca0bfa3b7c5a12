"""Session records: every call is assembled again as it was recorded."""

from __future__ import annotations

import pytest

from tests.parts.house import BY, TENANT, House
from turnlog.events.errors import Corrupt
from turnlog.projections.audit.record.session_replay import RecordedCallInputs, SessionReplay
from turnlog.projections.prompt.assemble import assemble
from turnlog.projections.session.commands import ExcludeTurn, RedactReply
from turnlog.projections.session.state import UNBOUNDED_REACH
from turnlog.services.auditing.session_record import SessionRecord, SessionRecordLoader
from turnlog.services.blueprints.plugins import collect_installed

SAID = ("Where am I?", "And now?", "What is behind me?", "Go on.")


@pytest.fixture
async def house() -> House:
    house = House()
    await house.open()
    for text in SAID:
        await house.answer(await house.submit(text))
    return house


async def record_of(house: House) -> SessionRecord:
    return await SessionRecordLoader(house.sessions).load_record(TENANT, "s")


def made_in(record: SessionRecord) -> list[RecordedCallInputs]:
    telling = SessionReplay(record.blobs, collect_installed())
    calls: list[RecordedCallInputs] = []
    for recorded in record.events:
        calls += filter(None, [telling.rebuild_inputs(recorded)])
        telling.apply_event(recorded)
    return calls


def same(made: RecordedCallInputs) -> bool:
    found = assemble(made.material, made.state, made.call_request, made.texts)
    return found.manifest == made.call.manifest


async def test_every_call_is_assembled_again_to_the_manifest_that_was_recorded(
    house: House,
) -> None:
    calls = made_in(await record_of(house))
    assert [made.call.call for made in calls] == ["1.1", "2.1", "3.1", "4.1"]
    assert all(map(same, calls))


async def test_what_was_taken_back_later_changes_no_earlier_call(house: House) -> None:
    state = await house.state()
    await house.sessions.handle(TENANT, "s", ExcludeTurn(1), BY)
    await house.sessions.handle(TENANT, "s", RedactReply(2, "unsafe", "pattern", "(withheld)"), BY)
    await house.answer(await house.submit("And then?"))
    calls = made_in(await record_of(house))
    assert len(calls) == len(SAID) + 1
    assert all(map(same, calls))
    assert calls[-1].state.head.sequence > state.head.sequence


async def test_a_call_that_reached_further_back_than_the_state_is_had_again(house: House) -> None:
    for number in range(5, 11):
        await house.answer(await house.submit(f"Turn {number}. " + "Tell me more. " * 100))
    for turn in range(7, 11):
        await house.sessions.handle(TENANT, "s", ExcludeTurn(turn), BY)
    await house.answer(await house.submit("And then?"))
    calls = made_in(await record_of(house))
    assert [made.state.reach for made in calls][-2:] == [calls[0].state.reach, UNBOUNDED_REACH]
    assert all(map(same, calls))


async def test_a_record_up_to_a_sequence_tells_the_calls_up_to_it(house: House) -> None:
    (first, *_) = made_in(await record_of(house))
    upto = await SessionRecordLoader(house.sessions).load_record(
        TENANT, "s", first.recorded.sequence
    )
    assert [made.call.call for made in made_in(upto)] == ["1.1"]


async def test_a_blueprint_that_is_gone_is_named(house: House) -> None:
    record = await record_of(house)
    with pytest.raises(Corrupt, match="blob sha256:"):
        made_in(SessionRecord(record.events, {}))
