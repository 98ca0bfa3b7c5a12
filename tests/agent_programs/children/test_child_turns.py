"""Children of a coordinator: what their ends mean for its turn, and what bounds them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent_programs.agent_harness import USAGE
from tests.agent_programs.approvals.test_approvals import GUARDED_TOOLS
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
from tests.support.sessions.puppet_model import ScriptStep
from tests.support.sessions.session_harness import TENANT, TESTER, build_delivery
from turnlog.events.content import PlainText
from turnlog.events.errors import Refused
from turnlog.events.model.call_events import AttemptStarted
from turnlog.events.model.child_events import ChildRequested, ChildSettled
from turnlog.events.model.session_events import SessionOpened
from turnlog.events.model.tool_events import ApprovalRequested, ToolCalled, ToolReturned
from turnlog.events.model.turn_events import TurnCancelled, TurnCompleted, TurnFailed, TurnSubmitted
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.blueprint.validation.blueprint_checks import check_blueprint
from turnlog.projections.session.commands import (
    CancelTurn,
    ClaimTurn,
    CloseSession,
    DecideApproval,
    ExcludeTurn,
    SubmitTurn,
    SwitchProfile,
)
from turnlog.projections.session.rules.steps.child_rules import NO_QUERY_DETAIL
from turnlog.projections.session.rules.steps.tool_rules import MALFORMED_DETAIL
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.worker.model.model_types import (
    FinishedAnswer,
    ModelFailure,
    ModelRequest,
    ModelToolCall,
)
from turnlog.services.worker.turn_delivery import DeliveryDeferred, DeliverySettled
from turnlog.services.worker.turn_runner import CHILD_CHECK_SECONDS


def test_coordinator_blueprint_is_valid() -> None:
    assert [*check_blueprint(build_team_blueprint())] == []


DEEP = {**COORDINATOR, "default": False, "children": ["thinker"]}


@pytest.mark.parametrize(
    ("profiles", "finding"),
    [
        ({"head": {**COORDINATOR, "children": ["head"], "summary": "I."}}, "child of itself"),
        (
            {"head": {**COORDINATOR, "children": ["deep"]}, "deep": {**DEEP, "children": ["head"]}},
            "child of itself",
        ),
        ({"head": {**COORDINATOR, "children": ["nobody"]}}, "no profile `nobody`"),
        ({"head": {**COORDINATOR, "children": ["thinker", "thinker"]}}, "stands twice"),
        ({"head": COORDINATOR, "thinker": {"call": "reply"}}, "cannot know what `thinker` is for"),
        (
            {
                "head": {**COORDINATOR, "children": ["a"]},
                "a": {**DEEP, "summary": "A.", "children": ["b"]},
                "b": {**DEEP, "summary": "B.", "children": ["thinker"]},
            },
            "3 levels of children below `head`, 2 are allowed",
        ),
        ({"head": {**COORDINATOR, "call": "reply"}}, "it offers none"),
        ({"head": {"default": True, "call": "reply"}}, "no profile of the program `coordinator`"),
    ],
)
def test_blueprint_check_reports_children_that_cannot_work(
    profiles: dict[str, Any], finding: str
) -> None:
    found = check_blueprint(build_team_blueprint(profiles={**CHILDREN, **profiles}))
    assert any(finding in each.what for each in found)


@pytest.mark.parametrize(
    "profile",
    [{**COORDINATOR, "children": []}, {"default": True, "call": "reply", "children": ["thinker"]}],
)
def test_only_coordinator_profile_may_declare_children(profile: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="has `children`"):
        build_team_blueprint(profiles={**CHILDREN, "head": profile})


async def run_team(team: TeamHarness, text: str = "Is it so?") -> None:
    await team.house.submit_turn(text)
    await team.queue.deliver_all(team.house.build_worker())


async def test_parent_has_no_attempt_or_delivery_while_its_children_run() -> None:
    team = await open_team()
    submitted = await team.house.submit_turn("Is it so?")
    verdict = await team.house.run_turn(submitted)
    assert verdict == DeliveryDeferred(CHILD_CHECK_SECONDS)
    assert len(team.list_events("s", AttemptStarted)) == 1
    opened = (await team.house.load_state()).open
    assert opened is not None
    assert not opened.is_running
    claim = ClaimTurn(1, "w2", Policies())
    assert (await team.house.sessions.handle(TENANT, "s", claim, TESTER)).events == ()
    for child in team.list_children():
        assert [each.turn for each in team.list_events(child, TurnSubmitted)] == [1]


async def test_child_inherits_pins_and_actor_of_its_parent() -> None:
    team = await open_team()
    await team.house.sessions.handle(
        TENANT, "s", SubmitTurn(text="Is it so?", policies=Policies()), CommandMetadata("user:anna")
    )
    await team.queue.deliver_all(team.house.build_worker())
    parent = (await team.house.load_state()).blueprint
    for child in team.list_children():
        first, *_ = events = team.house.list_events(child)
        assert isinstance(first.event, SessionOpened)
        assert first.event.blueprint == parent
        submitted = [each for each in events if isinstance(each.event, TurnSubmitted)]
        assert [each.envelope.actor for each in submitted] == ["user:anna"]


async def test_parent_records_end_of_child_before_message_of_child_is_acknowledged() -> None:
    team = await open_team(ScriptedTeam(ASK_ONE))
    worker = team.house.build_worker()
    await team.queue.deliver(worker, await team.house.submit_turn("Is it so?"))
    (child,) = team.list_children()
    (asked,) = [each for each in team.queue.list_pending() if each.session == child]
    assert await team.house.build_worker("w2").run_turn(build_delivery(asked)) == DeliverySettled()
    assert [each.outcome for each in team.list_events("s", ChildSettled)] == ["answered"]


async def test_two_queries_to_one_child_are_ordered_turns_of_one_session() -> None:
    team = await open_team(ScriptedTeam(ask_children(("thinker", "One."), ("thinker", "Two."))))
    await run_team(team)
    (child,) = team.list_children()
    assert team.agent.house.list_event_names(child).count("turn-queued") == 1
    assert [each.child_turn for each in team.list_events("s", ChildRequested)] == [1, 2]
    assert list_results(team) == ["To One.: yes.", "To Two.: yes."]


class ScriptedTeam(TeamModel):
    """A team whose coordinator begins otherwise, and whose children may do something else."""

    def __init__(self, asking: list[ScriptStep], *child: ScriptStep) -> None:
        super().__init__()
        self.asking, self.child = asking, list(child)

    def choose_script(self, request: ModelRequest) -> list[ScriptStep]:
        """See `TeamModel.choose_script`."""
        if not request.tools:
            return self.child or choose_script(request)
        return choose_script(request) if request.messages[-1]["role"] == "tool" else self.asking


ASK_ONE = ask_children(("thinker", "Think."))


def list_results(team: TeamHarness) -> list[str]:
    """Return the results that the coordinator's last call was sent."""
    last = next(each for each in reversed(team.house.model.requests) if each.tools)
    return [str(each["content"]) for each in last.messages if each["role"] == "tool"]


FAULT = ModelFailure("unauthorised", "no key")


async def test_failed_child_returns_its_failure_as_tool_result() -> None:
    team = await open_team(ScriptedTeam(ASK_ONE, FAULT))
    await run_team(team)
    (settled,) = team.list_events("s", ChildSettled)
    assert (settled.outcome, settled.detail) == ("failed", "its turn failed: unauthorised: no key")
    assert list_results(team) == ["failed: its turn failed: unauthorised: no key"]
    assert len(team.list_events("s", TurnCompleted)) == 1


async def test_lone_surrogate_in_a_query_is_replaced_for_the_child_and_kept_as_written() -> None:
    team = await open_team(ScriptedTeam(ask_children(("thinker", "Is a\ud800b so?"))))
    await run_team(team)
    assert len(team.list_events("s", TurnCompleted)) == 1
    (child,) = team.list_children()
    (asked,) = team.list_events(child, TurnSubmitted)
    assert asked.text == PlainText(text="Is a\ufffdb so?")
    (called,) = team.list_events("s", ToolCalled)
    assert called.arguments == '{"query": "Is a\\ud800b so?"}'


async def test_fail_policy_fails_turn_with_its_child_and_withdraws_other_children() -> None:
    asking = ask_children(("thinker", "Think."), ("seeker", "Seek."))
    team = await open_team(ScriptedTeam(asking, FAULT), policies={"children": {"failed": "fail"}})
    await run_team(team)
    (failed,) = team.list_events("s", TurnFailed)
    assert failed.code == "child-failed"
    outcomes = sorted(each.outcome for each in team.list_events("s", ChildSettled))
    assert outcomes == ["failed", "withdrawn"]


async def test_child_over_its_time_limit_is_cancelled_and_the_turn_continues() -> None:
    team = await open_team(ScriptedTeam(ASK_ONE), policies={"children": {"seconds": 20}})
    submitted = await team.house.submit_turn("Is it so?")
    worker = team.house.build_worker()
    seconds = await team.queue.deliver(worker, submitted)
    assert 19 < seconds < 20, "its message comes again when the child has taken too long"
    team.house.clock.advance_time(seconds)
    await team.queue.deliver(worker, submitted)
    for pending in reversed(tuple(team.queue.list_pending())):
        await team.queue.deliver(worker, pending)
    await team.queue.deliver_all(worker)
    (child,) = team.list_children()
    assert [each.reason for each in team.list_events(child, TurnCancelled)] == ["cancelled"]
    assert list_results(team) == ["failed: no reply in 20 s"]


async def test_child_turn_cancelled_on_its_own_is_reported_as_tool_result() -> None:
    team = await open_team(ScriptedTeam(ASK_ONE))
    await team.queue.deliver(team.house.build_worker(), await team.house.submit_turn("Is it so?"))
    (child,) = team.list_children()
    await team.house.sessions.handle(TENANT, child, CancelTurn(1), TESTER)
    await team.queue.deliver_all(team.house.build_worker())
    assert list_results(team) == ["failed: its turn was cancelled"]
    assert len(team.list_events("s", TurnCompleted)) == 1


async def test_closed_child_is_reported_as_tool_result() -> None:
    team = await open_team(ScriptedTeam(ASK_ONE))
    await run_team(team)
    (child,) = team.list_children()
    await team.house.sessions.handle(TENANT, child, CloseSession("enough"), TESTER)
    await run_team(team)
    assert list_results(team) == ["failed: its session is closed"]


async def test_closing_parent_cancels_turns_of_its_children() -> None:
    team = await open_team()
    worker = team.house.build_worker()
    await team.queue.deliver(worker, await team.house.submit_turn("Is it so?"))
    await team.house.sessions.handle(TENANT, "s", CloseSession("enough"), TESTER)
    for pending in reversed(tuple(team.queue.list_pending())):
        await team.queue.deliver(worker, pending)
    await team.queue.deliver_all(worker)
    for child in team.list_children():
        assert len(team.list_events(child, TurnCancelled)) == 1
        assert team.list_events(child, TurnCompleted) == []


async def test_next_turn_reuses_child_of_cancelled_turn() -> None:
    team = await open_team(ScriptedTeam(ASK_ONE))
    worker = team.house.build_worker()
    await team.queue.deliver(worker, await team.house.submit_turn("Is it so?"))
    await team.house.sessions.handle(TENANT, "s", CancelTurn(1), TESTER)
    await run_team(team)
    (child,) = team.list_children()
    assert [each.child_turn for each in team.list_events("s", ChildRequested)] == [1, 2]
    assert [each.turn for each in team.list_events(child, TurnSubmitted)] == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "detail"),
    [
        *((each, NO_QUERY_DETAIL) for each in ("{}", "no JSON", '{"query": ""}', '{"query": 3}')),
        ('{"query": "One?", "query": "Two?"}', MALFORMED_DETAIL),
    ],
)
async def test_child_request_without_one_query_is_refused(arguments: str, detail: str) -> None:
    call = ModelToolCall("c1", "thinker", arguments)
    asking: list[ScriptStep] = [
        FinishedAnswer(
            finish_reason="tool_calls",
            tool_calls=(call,),
            usage=USAGE,
            model="puppet/one",
            response_id=None,
        )
    ]
    team = await open_team(ScriptedTeam(asking))
    await run_team(team)
    assert list_results(team) == [f"refused: {detail}"]
    assert team.list_children() == []


async def test_child_requests_over_the_policy_limit_are_refused() -> None:
    asking = ask_children(*((("thinker", f"{number}.")) for number in range(3)))
    team = await open_team(ScriptedTeam(asking), policies={"children": {"most_at_once": 2}})
    await run_team(team)
    assert len(team.list_events("s", ChildRequested)) == 2
    outcomes = [each.outcome for each in team.list_events("s", ToolReturned)]
    assert sorted(outcomes) == ["answered", "answered", "refused"]


async def test_coordinator_can_be_child_of_a_coordinator() -> None:
    profiles = {
        **CHILDREN,
        "head": {**COORDINATOR, "children": ["deep"]},
        "deep": {**DEEP, "summary": "Coordinates."},
    }
    team = await open_team(NestedTeam(), profiles=profiles)
    await run_team(team)
    assert len(team.list_children()) == 2
    assert list_results(team) == ["deep: To Think.: yes."]


class NestedTeam(TeamModel):
    """A coordinator that asks another, which asks a child."""

    def choose_script(self, request: ModelRequest) -> list[ScriptStep]:
        """See `TeamModel.choose_script`."""
        if not request.tools:
            return choose_script(request)
        result, offered = request.messages[-1], str(request.tools)
        if "Coordinates." in offered:
            return ["Done."] if result["role"] == "tool" else ask_children(("deep", "Deeper."))
        return [f"deep: {result['content']}"] if result["role"] == "tool" else ASK_ONE


async def test_child_session_refuses_turns_and_profile_switches_but_allows_exclusions() -> None:
    team = await open_team(ScriptedTeam(ASK_ONE))
    await run_team(team)
    (child,) = team.list_children()
    for command in (
        SubmitTurn(text="Hello?", policies=Policies()),
        SwitchProfile("seeker", ["seeker"]),
    ):
        with pytest.raises(Refused, match="submits its turns"):
            await team.house.sessions.handle(TENANT, child, command, TESTER)
    await team.house.sessions.handle(TENANT, child, ExcludeTurn(1), TESTER)


PAY = ModelToolCall("p1", "shop_pay", '{"what": "boat"}')


def build_guarded_team(approval: str) -> dict[str, Any]:
    """Return the changes of a blueprint whose one child needs approval of its tool."""
    messages = [{"system": ["rules"]}, {"history": "recent"}, {"user": ["input"]}]
    return {
        "calls": {
            "coordinate": {"messages": messages, "tools": ["children"]},
            "reply": {"messages": messages, "tools": ["all"]},
        },
        "tools": GUARDED_TOOLS,
        "policies": {"children": {"approval": approval, "seconds": 20}},
        "profiles": {
            "head": {**COORDINATOR, "children": ["thinker"]},
            "thinker": {"program": "loop", "call": "reply", "summary": "Buys."},
        },
    }


class BuyingTeam(ScriptedTeam):
    """A team whose child pays before it replies."""

    def choose_script(self, request: ModelRequest) -> list[ScriptStep]:
        """See `TeamModel.choose_script`."""
        if "shop_pay" not in str(request.tools):
            return super().choose_script(request)
        if request.messages[-1]["role"] == "tool":
            return ["Bought."]
        return [
            FinishedAnswer(
                finish_reason="tool_calls",
                tool_calls=(PAY,),
                usage=USAGE,
                model="puppet/one",
                response_id=None,
            )
        ]


async def wait_for_approval(team: TeamHarness) -> str:
    """Let a child wait for an approval of its payment; return its session."""
    worker = team.house.build_worker()
    await team.queue.deliver(worker, await team.house.submit_turn("A boat?"))
    (child,) = team.list_children()
    for _ in range(3):
        for pending in tuple(team.queue.list_pending()):
            await team.queue.deliver(worker, pending)
    assert len(team.list_events(child, ApprovalRequested)) == 1
    return child


async def test_parent_waits_while_child_awaits_approval() -> None:
    team = await open_team(BuyingTeam(ASK_ONE), **build_guarded_team("wait"))
    child = await wait_for_approval(team)
    team.house.clock.advance_time(60)
    for pending in tuple(team.queue.list_pending()):
        await team.queue.deliver(team.house.build_worker(), pending)
    assert team.list_events("s", ChildSettled) == [], "its own time does not run meanwhile"
    decision = DecideApproval(turn=1, approval=1, decision="approve")
    await team.house.sessions.handle(TENANT, child, decision, TESTER)
    await team.queue.deliver_all(team.house.build_worker())
    assert [each.outcome for each in team.list_events("s", ChildSettled)] == ["answered"]
    assert list_results(team) == ["Bought."]


@pytest.mark.parametrize("command", [CancelTurn(1), CancelTurn(), CloseSession("enough")])
async def test_ending_child_turn_that_awaits_approval_settles_it_for_parent_at_once(
    command: CancelTurn | CloseSession,
) -> None:
    team = await open_team(BuyingTeam(ASK_ONE), **build_guarded_team("wait"))
    child = await wait_for_approval(team)
    await team.house.sessions.handle(TENANT, child, command, TESTER)
    await deliver_new(team)
    assert [each.outcome for each in team.list_events("s", ChildSettled)] == ["cancelled"]


async def test_cancelling_queued_child_turn_settles_it_for_parent_at_once() -> None:
    team = await open_team(ScriptedTeam(ask_children(("thinker", "One."), ("thinker", "Two."))))
    await team.queue.deliver(team.house.build_worker(), await team.house.submit_turn("Is it so?"))
    (child,) = team.list_children()
    first = next(each for each in team.queue.list_pending() if each.session == child)
    await team.house.sessions.handle(TENANT, child, CancelTurn(2), TESTER)
    team.queue.delivered.add(first.stream_sequence)
    await deliver_new(team)
    (settled,) = team.list_events("s", ChildSettled)
    assert (settled.child_turn, settled.outcome) == (2, "cancelled")


async def deliver_new(team: TeamHarness) -> None:
    """Deliver what was not delivered before; what was, comes again much later."""
    pending = tuple(team.queue.list_pending())
    new = [each for each in pending if each.stream_sequence not in team.queue.delivered]
    for each in new:
        await team.queue.deliver(team.house.build_worker(), each)


async def test_report_policy_completes_parent_while_child_can_still_be_approved() -> None:
    team = await open_team(BuyingTeam(ASK_ONE), **build_guarded_team("report"))
    child = await wait_for_approval(team)
    assert [each.outcome for each in team.list_events("s", ChildSettled)] == ["waiting"]
    assert list_results(team) == ["failed: it waits for a person's approval of shop_pay"]
    assert len(team.list_events("s", TurnCompleted)) == 1
    decision = DecideApproval(turn=1, approval=1, decision="approve")
    await team.house.sessions.handle(TENANT, child, decision, TESTER)
    await team.queue.deliver_all(team.house.build_worker())
    assert len(team.list_events(child, TurnCompleted)) == 1
    assert len(team.list_events("s", ChildSettled)) == 1
