"""Inputs of a parent's turn that a child is given by reference, and how an audit checks them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.agent_programs.children.child_harness import (
    CHILDREN,
    COORDINATOR,
    TeamHarness,
    TeamModel,
    ask_children,
    build_team_blueprint,
    choose_script,
    open_team,
)
from tests.agent_programs.children.test_child_crashes import APPENDS, run_crashing_team
from tests.agent_programs.turns.test_turn_crashes import WHEN
from tests.support.sessions.puppet_model import PuppetModel, ScriptStep
from tests.support.sessions.reproduction_checks import get_verification_means, verify_session_log
from tests.support.sessions.session_harness import TENANT, TESTER
from turnlog.events.content import compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import CallCompleted, ContextAssembled
from turnlog.events.model.child_events import ChildRequested, ParentInput
from turnlog.events.model.manifest import ParentInputSource
from turnlog.events.model.quota_events import QuotaEdited, QuotaLimits
from turnlog.events.model.session_events import SessionOpened, SessionOrigin
from turnlog.events.model.turn_events import TurnCompleted, TurnFailed, TurnSubmitted
from turnlog.projections.audit.verify.audit_findings import AuditFinding
from turnlog.projections.audit.verify.child_checks import (
    check_parent_inputs,
    collect_child_claims,
    collect_child_turns,
    compare_child,
)
from turnlog.projections.audit.verify.session_verification import verify_session
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.blueprint.validation.blueprint_checks import check_blueprint
from turnlog.projections.quotas.quota_decisions import format_period
from turnlog.projections.quotas.turn_bound import UNBUDGETED_INPUT_TOKENS, compute_turn_bound
from turnlog.projections.session.commands import SubmitTurn
from turnlog.services.quotas.quota_service import QuotaService
from turnlog.services.worker.model.model_types import ModelRequest

DIFF = "--- a/boat.py\n+++ b/boat.py\n+sail()\n"

INPUTS = {"diff": {"type": "text"}, "count": {"type": "int"}}

LAYERS = {"rules": {"text": "Help.", "keep": "always"}, "diff": {"input": "diff"}}

CALLS = {
    "coordinate": {
        "messages": [{"system": ["rules"]}, {"user": ["diff", "input"]}],
        "tools": ["children"],
    },
    "reply": {"messages": [{"system": ["rules"]}, {"user": ["diff", "input"]}]},
}

THINKER = {**CHILDREN["thinker"], "parent_inputs": ["diff"]}

REVIEWERS = {"head": COORDINATOR, **CHILDREN, "thinker": THINKER}

BOTH = {**REVIEWERS, "seeker": {**CHILDREN["seeker"], "parent_inputs": ["diff"]}}


def build_review_blueprint(**changes: Any) -> Blueprint:  # noqa: ANN401 - pieces of a blueprint
    """Return a coordinator whose thinker is given the diff of its turn."""
    pieces = {"inputs": INPUTS, "layers": LAYERS, "calls": CALLS, "profiles": REVIEWERS}
    return build_team_blueprint(**{**pieces, **changes})


async def open_review(model: PuppetModel | None = None, **changes: Any) -> TeamHarness:  # noqa: ANN401
    pieces = {"inputs": INPUTS, "layers": LAYERS, "calls": CALLS, "profiles": REVIEWERS}
    return await open_team(model, **{**pieces, **changes})


async def run_review(team: TeamHarness, diff: str | None = DIFF) -> None:
    await team.house.submit_turn("Is it so?", inputs={"diff": diff} if diff else {})
    await team.queue.deliver_all(team.house.build_worker())


def find_child(team: TeamHarness, profile: str, parent: str = "s") -> str:
    requested = team.list_events(parent, ChildRequested)
    return str(next(each.session for each in requested if each.profile == profile))


def get_reference(team: TeamHarness, session: str, parent: str = "s") -> ParentInput:
    """Return the only reference of a child's first turn, after a check that it is the parent's."""
    (reference,) = team.list_events(session, TurnSubmitted)[0].parent_inputs
    submitted = next(
        each for each in team.house.list_events(parent) if isinstance(each.event, TurnSubmitted)
    )
    place = (reference.name, reference.session, reference.turn, reference.sequence)
    assert place == ("diff", parent, 1, submitted.sequence)
    return ParentInput.model_validate(reference)


def list_user_messages(model: PuppetModel, ending: str) -> list[str]:
    """Return the user messages of requests that end with a text."""
    asked = [each.messages[-1]["content"] for each in model.requests]
    return [str(each) for each in asked if str(each).endswith(ending)]


async def test_child_prompt_has_the_input_of_the_parent_and_its_record_only_a_reference() -> None:
    team = await open_review()
    await run_review(team)
    thinker, seeker = find_child(team, "thinker"), find_child(team, "seeker")
    assert list_user_messages(team.house.model, "Think.") == [f"{DIFF}\n\nThink."]
    assert list_user_messages(team.house.model, "Seek.") == ["Seek."], "it is given nothing"
    reference = get_reference(team, thinker)
    assert reference.digest == compute_digest(DIFF)
    assert await team.house.blobs.get_blob(TENANT, reference.digest) == DIFF.encode()
    (asked,) = team.list_events(thinker, TurnSubmitted)
    assert "sail()" not in asked.model_dump_json()
    assert team.list_events(seeker, TurnSubmitted)[0].parent_inputs == ()
    (call,) = team.list_events(thinker, ContextAssembled)
    (source,) = [
        each.source for each in call.manifest.parts if isinstance(each.source, ParentInputSource)
    ]
    assert (source.session, source.turn, source.input) == ("s", 1, "diff")


async def test_model_of_the_parent_is_shown_which_inputs_a_child_reads_itself() -> None:
    team = await open_review()
    await run_review(team)
    offered = team.house.model.requests[0].tools
    described = {
        tool["function"]["name"]: tool["function"]["parameters"]["properties"]["query"][
            "description"
        ]
        for tool in (dict[str, Any](each) for each in offered)
    }
    assert "the input `diff` of this turn as sent" in described["thinker"]
    assert "input" not in described["seeker"]


async def test_turn_without_the_input_hands_nothing_on() -> None:
    team = await open_review()
    await run_review(team, None)
    thinker = find_child(team, "thinker")
    assert team.list_events(thinker, TurnSubmitted)[0].parent_inputs == ()
    assert list_user_messages(team.house.model, "Think.") == ["Think."]


async def test_children_of_one_turn_refer_to_the_same_bytes() -> None:
    team = await open_review(profiles=BOTH)
    before = len(team.house.blobs.blobs)
    await run_review(team)
    thinker, seeker = find_child(team, "thinker"), find_child(team, "seeker")
    assert get_reference(team, thinker) == get_reference(team, seeker)
    texts = [*team.house.blobs.blobs.values()][before:]
    assert texts.count(DIFF.encode()) == 1


async def test_child_that_coordinates_hands_the_input_on_as_its_own() -> None:
    team = await open_review(
        NestedReview(),
        profiles={
            **REVIEWERS,
            "head": {**COORDINATOR, "children": ["deep"]},
            "deep": {
                **COORDINATOR,
                "default": False,
                "children": ["thinker"],
                "summary": "Coordinates.",
                "parent_inputs": ["diff"],
            },
        },
    )
    await run_review(team)
    deep = find_child(team, "deep")
    thinker = find_child(team, "thinker", deep)
    first, second = get_reference(team, deep), get_reference(team, thinker, deep)
    assert (first.session, second.session) == ("s", deep)
    assert first.digest == second.digest
    assert list_user_messages(team.house.model, "Deeper.") == [f"{DIFF}\n\nDeeper."]
    for parent, child in (("s", deep), (deep, thinker)):
        assert compare_sessions(team, parent, child) == []


class NestedReview(TeamModel):
    """A coordinator that asks another, which asks a child."""

    def choose_script(self, request: ModelRequest) -> list[ScriptStep]:
        """See `TeamModel.choose_script`."""
        if not request.tools:
            return choose_script(request)
        if request.messages[-1]["role"] == "tool":
            return ["Done."]
        is_first = "Coordinates." in str(request.tools)
        return ask_children(("deep", "Think.") if is_first else ("thinker", "Deeper."))


def compare_sessions(
    team: TeamHarness,
    parent: str,
    child: str,
    change: Callable[[Sequence[RecordedEvent]], Sequence[RecordedEvent]] = tuple,
) -> list[AuditFinding]:
    """Return what an audit finds of references to the parent in the events of a child."""
    claims = collect_child_claims(team.house.list_events(parent))
    events = change(team.house.list_events(child))
    compared = compare_child(claims, child, collect_child_turns(events))
    return [*check_parent_inputs(events), *compared]


def replace_reference(**changes: Any) -> Callable[[Sequence[RecordedEvent]], list[RecordedEvent]]:  # noqa: ANN401
    """Return a forgery of a child's references."""

    def change(events: Sequence[RecordedEvent]) -> list[RecordedEvent]:
        return [
            replace(each, event=each.event.model_copy(update={"parent_inputs": forge(each.event)}))
            if isinstance(each.event, TurnSubmitted)
            else each
            for each in events
        ]

    def forge(submitted: TurnSubmitted) -> tuple[ParentInput, ...]:
        return tuple(each.model_copy(update=changes) for each in submitted.parent_inputs)

    return change


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({"digest": compute_digest("Other.")}, "refers to input diff of its parent's turn 1"),
        ({"sequence": 1}, "refers to input diff of its parent's turn 1"),
        ({"turn": 2}, "refers to input diff of its parent's turn 2"),
        ({"name": "count"}, "refers to input count of its parent's turn 1"),
        ({"session": "other"}, "it refers to input diff of other, not its parent"),
    ],
)
async def test_audit_reports_a_forged_reference_as_one_finding(
    changes: dict[str, Any], finding: str
) -> None:
    team = await open_review()
    await run_review(team)
    thinker = find_child(team, "thinker")
    assert compare_sessions(team, "s", thinker) == []
    (found,) = compare_sessions(team, "s", thinker, replace_reference(**changes))
    assert finding in found.detail


async def test_audit_reports_references_in_a_session_without_a_parent() -> None:
    team = await open_review()
    await run_review(team)
    events = team.house.list_events(find_child(team, "thinker"))

    def set_origin(origin: SessionOrigin | None) -> list[RecordedEvent]:
        opened = events[0].event
        assert isinstance(opened, SessionOpened)
        first = replace(events[0], event=opened.model_copy(update={"origin": origin}))
        return [first, *events[1:]]

    report = verify_session(set_origin(None), {}, get_verification_means())
    (found,) = [each for each in report.findings if each.check == "children"]
    assert found.detail == "it refers to input diff of s, not its parent"
    fork = SessionOrigin(kind="fork", session="child", sequence=9)
    assert [*check_parent_inputs(set_origin(fork))] == [], "a fork has those of its original"


async def test_lost_bytes_are_one_finding_and_fail_the_turn_of_the_child() -> None:
    team = await open_review()
    submitted = await team.house.submit_turn("Is it so?", inputs={"diff": DIFF})
    worker = team.house.build_worker()
    await team.queue.deliver(worker, submitted)
    thinker = find_child(team, "thinker")
    kept = team.house.blobs.blobs.pop((TENANT, compute_digest(DIFF)))
    (asked,) = [each for each in team.queue.list_pending() if each.session == thinker]
    await team.queue.deliver(worker, asked)
    (failed,) = team.list_events(thinker, TurnFailed)
    assert failed.code == "corrupt"
    blobs = {digest: data for (_, digest), data in team.house.blobs.blobs.items()}
    (found,) = verify_session_log([*team.house.list_events(thinker)], blobs)
    assert "which is gone" in found
    team.house.blobs.blobs[TENANT, compute_digest(DIFF)] = kept
    await team.queue.deliver_all(worker)
    assert len(team.list_events("s", TurnCompleted)) == 1, "the parent reads why there is no reply"


@pytest.mark.parametrize("at", range(1, APPENDS + 1))
@pytest.mark.parametrize("when", WHEN)
async def test_crash_at_any_append_hands_the_input_to_each_child_once(at: int, when: Any) -> None:  # noqa: ANN401
    team = await open_review(profiles=BOTH)
    assert await run_crashing_team(team, at, when, inputs={"diff": DIFF})
    assert len(team.list_events("s", TurnCompleted)) == 1
    for profile in ("thinker", "seeker"):
        child = find_child(team, profile)
        assert len(team.list_events(child, TurnSubmitted)) == 1
        assert get_reference(team, child).digest == compute_digest(DIFF)
        assert len(team.list_events(child, CallCompleted)) == 1


async def test_two_workers_that_ask_at_once_submit_one_turn_with_one_reference() -> None:
    team = await open_review(profiles=BOTH)
    submitted = await team.house.submit_turn("Is it so?", inputs={"diff": DIFF})
    workers = [team.house.build_worker(name) for name in ("w1", "w2")]
    await team.queue.deliver(workers[0], submitted)
    await asyncio.gather(*(team.queue.deliver(each, submitted) for each in workers))
    await team.queue.deliver_all(workers[1])
    for profile in ("thinker", "seeker"):
        child = find_child(team, profile)
        assert len(team.list_events(child, TurnSubmitted)) == 1
        get_reference(team, child)


def test_bound_of_a_turn_without_a_budget_counts_its_texts() -> None:
    blueprint = build_review_blueprint()
    without = compute_turn_bound(blueprint, "thinker", {})
    assert without.input_tokens == UNBUDGETED_INPUT_TOKENS
    bound = compute_turn_bound(blueprint, "thinker", {"diff": "x" * 4_000})
    assert bound.input_tokens == UNBUDGETED_INPUT_TOKENS + 1_000


async def test_turn_of_a_child_reserves_for_the_input_that_it_is_given() -> None:
    team, long = await open_review(), "x" * 4_000
    quotas = QuotaService(team.house.build_library_parts("/test/quotas"))
    limits = QuotaEdited(user="ann", limits=QuotaLimits(requests_per_day=5))
    await quotas.edit_limits(TENANT, limits, TESTER)
    asking = SubmitTurn(text="?", policies=Policies(), inputs={"diff": long}, user="ann")
    (submitted,) = (await team.house.sessions.handle(TENANT, "s", asking, TESTER)).events
    await team.queue.deliver(team.house.build_worker(), submitted)
    period = format_period(team.house.clock())
    balance = (await quotas.load_balance(TENANT, "ann", period)).balance
    reserved = {each.session: each.input_tokens for each in balance.reservations}
    assert {session: reserved[session] for session in team.list_children()} == {
        find_child(team, "thinker"): UNBUDGETED_INPUT_TOKENS + 1_000,
        find_child(team, "seeker"): UNBUDGETED_INPUT_TOKENS,
    }


def test_review_blueprint_is_valid() -> None:
    assert [*check_blueprint(build_review_blueprint())] == []


@pytest.mark.parametrize(
    ("thinker", "finding", "fix"),
    [
        ({"parent_inputs": ["dif"]}, "there is no input `dif`", "diff"),
        ({"parent_inputs": ["count"]}, "has the type `int`, and only a text", "type: text"),
        ({"parent_inputs": ["diff", "diff"]}, "`diff` stands twice", "keep one"),
        ({"call": "plain"}, "no call of `thinker` includes `inputs.diff`", "{input: diff}"),
    ],
)
def test_blueprint_check_reports_inputs_that_cannot_be_handed_on(
    thinker: dict[str, Any], finding: str, fix: str
) -> None:
    plain = {"messages": [{"system": ["rules"]}, {"user": ["input"]}]}
    profiles = {**REVIEWERS, "thinker": {**THINKER, **thinker}}
    blueprint = build_review_blueprint(profiles=profiles, calls={**CALLS, "plain": plain})
    (found,) = check_blueprint(blueprint)
    assert finding in found.what
    assert fix in found.fix
    assert found.path[:3] == ("profiles", "thinker", "parent_inputs")


def test_blueprint_check_reports_inputs_for_a_profile_that_no_coordinator_asks() -> None:
    head = {**COORDINATOR, "parent_inputs": ["diff"]}
    (found,) = check_blueprint(build_review_blueprint(profiles={**REVIEWERS, "head": head}))
    assert "no coordinator asks `head`" in found.what
