"""What an audit finds of children whose record does not fit that of their parent."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.agent_programs.children.child_harness import TeamHarness, open_team
from tests.agent_programs.children.test_child_inputs import find_child, open_review, run_review
from tests.services.audit.test_verify_pool import build_verify_service
from tests.support.sessions.session_harness import TENANT
from turnlog.events.content import PlainText, compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.child_events import ChildRequested, ChildSettled
from turnlog.events.model.turn_events import TurnCompleted, TurnSubmitted
from turnlog.projections.audit.verify.audit_findings import AuditFinding
from turnlog.projections.audit.verify.child_checks import (
    check_children,
    collect_child_claims,
    collect_child_turns,
    compare_child,
)
from turnlog.projections.store.engine import ReadModelStore, open_store
from turnlog.projections.store.schema.schema_migration import prepare_schema
from turnlog.services.audit.chain_scan import LocatedFinding
from turnlog.services.audit.verify_pool import open_best_verifier
from turnlog.services.audit.verify_service import VerifyOutcome, VerifyService

Events = Sequence[RecordedEvent]


async def run_team_events() -> tuple[Events, str, Events]:
    """Return the events of a parent, and those of one of its children."""
    team = await open_team()
    await team.house.submit_turn("Is it so?")
    await team.queue.deliver_all(team.house.build_worker())
    child = team.list_children()[0]
    return team.house.list_events(), child, team.house.list_events(child)


def drop(kind: type) -> Callable[[Events], Events]:
    def change(events: Events) -> Events:
        found = next(each for each in events if isinstance(each.event, kind))
        return [each for each in events if each is not found]

    return change


def repeat(kind: type) -> Callable[[Events], Events]:
    def change(events: Events) -> Events:
        found = next(each for each in events if isinstance(each.event, kind))
        return [another for each in events for another in ([each] * (1 + (each is found)))]

    return change


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (drop(ChildSettled), "was never settled, and turn 1 is over"),
        (repeat(ChildSettled), "was settled, and nobody waited for it"),
        (drop(ChildRequested), "was settled, and nobody waited for it"),
        (repeat(ChildRequested), "was requested out of order"),
    ],
)
async def test_audit_reports_children_not_requested_and_settled_exactly_once(
    change: Callable[[Events], Events], finding: str
) -> None:
    parent, _, _ = await run_team_events()
    assert [*check_children(parent)] == []
    assert any(finding in each.detail for each in check_children(change(parent)))


def compare_events(parent: Events, session: str, child: Events) -> list[AuditFinding]:
    """Return what differs between a parent's record and that of a child."""
    claims, turns = collect_child_claims(parent), collect_child_turns(child)
    return [*compare_child(claims, session, turns)]


@pytest.mark.parametrize(
    ("kind", "finding"),
    [
        (TurnSubmitted, "was asked something else than its parent wrote"),
        (TurnCompleted, "did not reply what its parent recorded"),
    ],
)
async def test_audit_reports_child_events_that_differ_from_the_parent(
    kind: type[TurnSubmitted | TurnCompleted], finding: str
) -> None:
    parent, session, child = await run_team_events()
    assert compare_events(parent, session, child) == []
    other = PlainText(text="Something else.")
    altered = [
        replace(each, event=each.event.model_copy(update={"text": other}))
        if isinstance(each.event, kind)
        else each
        for each in child
    ]
    (found,) = compare_events(parent, session, altered)
    assert finding in found.detail


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[ReadModelStore]:
    store = open_store(f"sqlite:///{tmp_path / 'rows.db'}")
    await prepare_schema(store)
    yield store
    await store.close()


def replace_reply(team: TeamHarness, child: str) -> None:
    """Give a child another reply, in a chain of its own that is whole."""
    stored, before = team.house.log.stored, None
    for place, raw in enumerate(stored):
        if raw is None or f".{child}." not in raw.subject:
            continue
        event = json.loads(raw.stored.replace(b": yes.", b": no."))
        event |= {"prevhash": before} if before else {}
        changed = json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()
        stored[place] = replace(raw, stored=changed)
        before = compute_digest(changed)


def remove_session(team: TeamHarness, child: str) -> None:
    stored = team.house.log.stored
    stored[:] = [raw if raw and f".{child}." not in raw.subject else None for raw in stored]


@pytest.mark.tampers
@pytest.mark.parametrize("tamper", [replace_reply, remove_session])
async def test_verification_of_whole_log_compares_parents_with_children(
    tamper: Callable[[TeamHarness, str], None], store: ReadModelStore
) -> None:
    team = await open_team()
    await team.house.submit_turn("Is it so?")
    await team.queue.deliver_all(team.house.build_worker())
    child = team.list_children()[0]
    verifying = build_verify_service(team.house, store, open_best_verifier)
    *found, outcome = [step async for step in verifying.verify_log(None)]
    assert [each for each in found if isinstance(each, LocatedFinding)] == []
    assert isinstance(outcome, VerifyOutcome)
    tamper(team, child)
    steps = [step async for step in verifying.verify_log(None)]
    located = [
        each
        for each in steps
        if isinstance(each, LocatedFinding) and each.key and each.finding.check == "children"
    ]
    assert [each.key for each in located] == [(TENANT, "s")]
    assert located[0].finding.detail == f"turn 1 of {child} did not reply what its parent recorded"


@pytest.mark.tampers
async def test_verification_of_whole_log_reports_a_reference_to_a_lost_parent(
    store: ReadModelStore,
) -> None:
    team = await open_review()
    await run_review(team)
    thinker = find_child(team, "thinker")
    verifying = build_verify_service(team.house, store, open_best_verifier)
    assert await list_child_findings(verifying) == []
    remove_session(team, "s")
    (found,) = await list_child_findings(verifying)
    assert found.key == (TENANT, thinker)
    assert found.finding.detail == "turn 1 refers to input diff of s, which is gone"


async def list_child_findings(verifying: VerifyService) -> list[LocatedFinding]:
    steps = [step async for step in verifying.verify_log(None)]
    found = [each for each in steps if isinstance(each, LocatedFinding)]
    return [each for each in found if each.finding.check == "children"]
