"""The profile `genie` of the shipped `uderia`, row by row, read back over HTTP.

Rows U16, U17 and U18 as far as children are concerned, with the numbers of their document.
"""

from __future__ import annotations

import json
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, cast
from zipfile import ZipFile

import pytest
from pydantic import TypeAdapter
from rich.console import Console

from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_plan,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.replay.bundle_copies import BundleCopy
from tests.support.servers.model_behaviours import ModelAnswer
from turnlog.contract.call_payloads import CallList
from turnlog.contract.session_payloads import SessionPage, SessionRow, SessionView
from turnlog.contract.turn_payloads import HistoryView
from turnlog.events.content import PlainText
from turnlog.events.model.child_events import ChildRequested, ChildSettled
from turnlog.events.model.session_events import PhaseEntered, SessionClosed, SessionOpened
from turnlog.events.model.turn_events import TurnSubmitted
from turnlog.projections.audit.explain.turn_explanation import TurnExplanation
from turnlog.projections.blueprint.loading.blueprint_source import BLUEPRINT_FILE
from turnlog.services.api.prompt_payloads import RecordedPromptView
from turnlog.services.bundle import verifier
from turnlog.services.cli.views.session_view import (
    render_session,
    render_session_facts,
    render_sessions,
)
from turnlog.services.cli.views.text_format import format_cost
from turnlog.services.cli.views.why_view import render_why

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUESTION = "Which boats are for sale, and should Ms Vane buy one?"
LOOK_UP = "List all boats for sale with their prices."
THINK = "What speaks for and against buying a boat?"
REPLY = "Three boats; think twice."


def choose_answer(body: dict[str, object]) -> ModelAnswer:
    """Answer by the prompt, since children are asked at the same time."""
    messages = cast("list[dict[str, Any]]", body["messages"])
    asked = [each["content"] for each in messages if each["role"] == "user"][-1]
    system = messages[0]["content"]
    if THINK in asked:
        return answer_with_text("A boat is work.")
    if asked == LOOK_UP:
        is_reply = "# Your task now: reply" in system
        return answer_with_text("Three boats.") if is_reply else answer_with_plan()
    if any(each["role"] == "tool" for each in messages):
        return answer_with_text(REPLY)
    return ask_both()


def ask_both() -> ModelAnswer:
    return answer_with_tool_calls(
        ("tool_enabled", {"query": LOOK_UP}), ("llm_only", {"query": THINK})
    )


async def open_genie(platform: AgentService) -> str:
    platform.provider.choose_behaviour = choose_answer
    return await platform.open_shipped_session("uderia", attributes={}, profile="genie")


async def add_children(platform: AgentService, session: str) -> dict[str, str]:
    """Return the child sessions by profile, and have their calls reproduced as well."""
    requested = await platform.load_events(session, ChildRequested)
    found = {each.profile: each.session for each in requested}
    platform.opened_sessions += [
        each for each in found.values() if each not in platform.opened_sessions
    ]
    return found


async def test_u16_genie_offers_children_as_tools_and_replies_from_their_results(
    platform: AgentService,
) -> None:
    session = await open_genie(platform)
    await platform.complete_turn(session, text=QUESTION)
    children = await add_children(platform, session)
    assert list(children) == ["tool_enabled", "llm_only"]
    first, second = [await platform.fetch_prompt(session, call) for call in ("1.1", "1.2")]
    offered = [each["function"]["name"] for each in first["tools"]]
    assert offered == ["tool_enabled", "llm_only", "rag_focused"]
    assert [(each["role"], each["content"]) for each in first["messages"][1:]] == [
        ("user", QUESTION)
    ]
    told = [(each["role"], each["content"]) for each in second["messages"][3:]]
    assert told == [("tool", "Three boats."), ("tool", "A boat is work.")]
    assert [each.outcome for each in await platform.load_events(session, ChildSettled)] == [
        "answered"
    ] * 2
    for profile, query in (("tool_enabled", LOOK_UP), ("llm_only", THINK)):
        child = children[profile]
        (opened,) = await platform.load_events(child, SessionOpened)
        assert (opened.profile, opened.origin and opened.origin.session) == (profile, session)
        prompt = await platform.fetch_prompt(child, "1.1")
        assert [each["content"] for each in prompt["messages"][1:]] == [query]


async def test_u16_child_is_reused_per_parent_and_profile_with_its_history(
    platform: AgentService,
) -> None:
    session = await open_genie(platform)
    await platform.complete_turn(session, text=QUESTION)
    await platform.complete_turn(session, text=QUESTION)
    children = await add_children(platform, session)
    requested = await platform.load_events(session, ChildRequested)
    assert len(children) == 2, "one session for each profile"
    assert [(each.turn, each.child_turn) for each in requested] == [(1, 1), (1, 1), (2, 2), (2, 2)]
    prompt = await platform.fetch_prompt(children["llm_only"], "2.1")
    assert [each["content"] for each in prompt["messages"][1:]] == [
        *(THINK, "A boat is work.", THINK)
    ]
    other = await open_genie(platform)
    await platform.complete_turn(other, text=QUESTION)
    assert not set(children.values()) & set((await add_children(platform, other)).values())


async def test_u16_genie_selects_last_10_messages_before_dropping_excluded_and_priming_turns(
    platform: AgentService,
) -> None:
    session = await platform.open_shipped_session("uderia", attributes={}, profile="genie")
    said = [(f"Question {n}.", f"Answer {n}.") for n in range(1, 8)]
    said[3] = ("You are a helpful assistant.", "Understood.")
    for text, reply in said:
        await platform.complete_turn(session, answer_with_text(reply), text=text)
    path = f"/v1/sessions/{session}/turns/6/exclusion"
    assert (await platform.http.put(path)).status_code == 200
    await platform.complete_turn(session, answer_with_text("So."), text="And now?")
    prompt = await platform.fetch_prompt(session, "8.1")
    shown = [text for turn in (3, 5, 7) for text in said[turn - 1]]
    assert [each["content"] for each in prompt["messages"][1:]] == [*shown, "And now?"], (
        "of the last 10 messages, 6 are left, and no older one takes the place of the others"
    )


async def test_u17_genie_has_coordination_prompt_and_its_children_do_not(
    platform: AgentService,
) -> None:
    session = await open_genie(platform)
    await platform.complete_turn(session, text=QUESTION)
    children = await add_children(platform, session)
    systems = [
        (await platform.fetch_prompt(each, "1.1"))["messages"][0]["content"]
        for each in (session, *children.values())
    ]
    assert ["# Your task now: coordinate" in each for each in systems] == [True, False, False]


async def test_u18_text_not_handed_over_reaches_neither_children_nor_parent(
    platform: AgentService,
) -> None:
    session = await open_genie(platform)
    secret, kept = "My number is 4711.", "A private aside."
    platform.provider.choose_behaviour = None
    await platform.complete_turn(session, answer_with_text(kept), text=secret)
    platform.provider.choose_behaviour = choose_answer
    await platform.complete_turn(session, text=QUESTION)
    children = await add_children(platform, session)
    for child in children.values():
        calls = [each["call"] for each in await platform.list_calls(child)]
        texts = [text for call in calls for text in await read_all(platform, child, call)]
        assert texts
        assert not [text for text in texts if secret in text or kept in text or QUESTION in text]
    plan = await read_all(platform, children["tool_enabled"], "1.1")
    for call in ("2.1", "2.2"):
        told = await read_all(platform, session, call)
        assert plan[0] not in told
        assert not [text for text in told if "steps" in text and "harbour" in text]


async def read_all(platform: AgentService, session: str, call: str) -> list[str]:
    """Return the texts of a recorded call."""
    messages = (await platform.fetch_prompt(session, call))["messages"]
    return [str(each["content"]) for each in messages]


@pytest.mark.slow("turns of several calls run over HTTP")
async def test_u18_child_window_follows_phase_visibility_of_its_parent(
    platform: AgentService,
) -> None:
    session = await open_genie(platform)
    await platform.complete_turn(session, text=QUESTION)
    answer = await platform.http.post(f"/v1/sessions/{session}/phase", json={"to": "operate"})
    assert answer.status_code == 200, answer.text
    answer = await platform.http.post(f"/v1/sessions/{session}/profile", json={"profile": "genie"})
    assert answer.status_code == 200, answer.text
    await platform.complete_turn(session, text=QUESTION)
    children = await add_children(platform, session)
    entered = await platform.load_events(children["llm_only"], PhaseEntered)
    assert [(each.phase, each.signal, each.hidden) for each in entered] == [
        *(("ideate", None, ()), ("operate", "parent", ("ideate",)))
    ]
    assert [await read_all(platform, child, "2.1") for child in children.values()][1][1:] == [THINK]


async def test_child_session_refuses_turns_and_phases_from_clients(platform: AgentService) -> None:
    session = await open_genie(platform)
    await platform.complete_turn(session, text=QUESTION)
    child = (await add_children(platform, session))["llm_only"]
    for path, body in (("turns", {"text": "Hello?"}), ("phase", {"to": "focus"})):
        answer = await platform.http.post(f"/v1/sessions/{child}/{path}", json=body)
        assert (answer.status_code, answer.json()["code"]) == (409, "child-session")


async def test_u23_children_use_quota_of_their_parents_user(
    platform: AgentService,
) -> None:
    answer = await platform.http.put("/v1/quotas/gus", json={"requests_per_day": 1})
    assert answer.status_code == 200, answer.text
    session = await open_genie(platform)
    await platform.complete_turn(session, text=QUESTION, user="gus")
    children = (await add_children(platform, session)).values()
    for child in children:
        (asked,) = await platform.load_events(child, TurnSubmitted)
        assert asked.user == "gus"
        assert asked.reservation is not None
    calls = [call for each in (session, *children) for call in await platform.list_calls(each)]
    quota = await platform.fetch_json("/v1/quotas/gus")
    assert quota["input_tokens"] == sum(call["input_tokens"] for call in calls) > 0
    assert quota["output_tokens"] == sum(call["output_tokens"] for call in calls)
    assert quota["unsettled_turns"] == 0
    (use,) = quota["uses"]
    assert use["used"] == 1, "what a coordinator asks is no request of the user"


async def test_why_lists_child_turns_and_verify_covers_their_calls(
    platform: AgentService,
) -> None:
    session = await open_genie(platform)
    await platform.complete_turn(session, text=QUESTION)
    children = await add_children(platform, session)
    why = await platform.fetch_json(f"/v1/sessions/{session}/calls/1.2/why")
    asked = [(each["profile"], each["session"], each["turn"]) for each in why["children"]]
    assert asked == [(profile, child, 1) for profile, child in children.items()]
    assert [each["outcome"] for each in why["children"]] == ["answered"] * 2
    (turn,) = (await platform.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
    assert [each["child"]["session"] for each in turn["tools"]] == [*children.values()]
    verified = await platform.fetch_json(f"/v1/sessions/{session}/verify")
    assert verified["verified"]
    covered = {each["session"]: each["prompts"]["calls"] for each in verified["children"]}
    assert covered == {children["tool_enabled"]: 2, children["llm_only"]: 1}


async def test_why_of_child_names_parent_turn_and_source_of_its_text(
    platform: AgentService,
) -> None:
    session = await open_genie(platform)
    await platform.complete_turn(session, text=QUESTION)
    await platform.complete_turn(session, text=QUESTION)
    children = await add_children(platform, session)
    for profile, query in (("tool_enabled", LOOK_UP), ("llm_only", THINK)):
        for turn in (1, 2):
            why = await platform.fetch_json(f"/v1/sessions/{children[profile]}/turns/{turn}/why")
            parent = why["parent"]
            assert (parent["session"], parent["turn"]) == (session, turn)
            assert parent["call"] == f"{turn}.1"
            asked = f"/v1/sessions/{session}/calls/{parent['call']}/tools/{parent['id']}"
            arguments = (await platform.fetch_json(asked))["arguments"]
            assert json.loads(arguments) == {"query": query}
    assert (await platform.fetch_json(f"/v1/sessions/{session}/turns/1/why"))["parent"] is None
    child = children["llm_only"]
    head = (await platform.fetch_json(f"/v1/sessions/{child}"))["sequence"]
    forked = await platform.http.post(f"/v1/sessions/{child}/fork", json={"at": head})
    fork = forked.json()["session"]
    platform.opened_sessions.append(fork)
    why = await platform.fetch_json(f"/v1/sessions/{fork}/turns/1/why")
    assert why["parent"] is None, "a fork of a child is an ordinary session"


async def test_why_prints_commands_for_children_and_parents_within_80_columns(
    platform: AgentService,
) -> None:
    session = await open_genie(platform)
    await platform.complete_turn(session, text=QUESTION)
    children = await add_children(platform, session)
    down = await print_why(platform, session, "1.2")
    for child in children.values():
        assert f"└ turnlog why {child} 1" in down
    up = await print_why(platform, children["llm_only"], "1.1")
    at = up.index(f"child of  {session}, turn 1")
    assert [line.split()[0] for line in up[at + 1 : at + 3]] == ["└"] * 2
    assert up[at + 1].endswith("of call 1.1")
    assert up[at + 2] == f"└ turnlog why {session} 1"


async def print_why(platform: AgentService, session: str, call: str) -> list[str]:
    """Return the lines that `turnlog why` prints at a terminal of 80 columns."""
    path = f"/v1/sessions/{session}/calls/{call}"
    why = TypeAdapter(TurnExplanation).validate_python(await platform.fetch_json(f"{path}/why"))
    prompt = RecordedPromptView.model_validate(await platform.fetch_prompt(session, call))
    console = Console(record=True, width=80, file=StringIO())
    console.print(render_why(why, prompt))
    return [line.strip() for line in console.export_text().splitlines()]


async def test_bundle_includes_children_and_its_verifier_checks_them(
    platform: AgentService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = await open_genie(platform)
    await platform.complete_turn(session, text=QUESTION)
    children = await add_children(platform, session)
    path = f"/v1/sessions/{session}/export"
    packed = await platform.http.get(path, params={"format": "bundle"})
    with ZipFile(BytesIO(packed.content)) as archive:
        archive.extractall(tmp_path)
    listed = json.loads((tmp_path / "manifest.json").read_text())
    assert [each["session"] for each in listed["sessions"]] == [session, *children.values()]
    assert verifier.main(tmp_path, ()) == verifier.EXIT_UNWITNESSED
    capsys.readouterr()
    copy, child = BundleCopy.read_bundle(tmp_path), children["llm_only"]
    at = next(at for at, line in enumerate(copy.sessions[child], 1) if b"turn-completed" in line)
    copy.change_event(child, at, lambda event: event["data"]["text"].update(text="Buy it."))
    copy.rewrite_chain(child)
    copy.rewrite_manifest()
    assert verifier.main(copy.write_bundle(tmp_path), ()) == verifier.EXIT_FAILED
    (line,) = [each for each in capsys.readouterr().out.splitlines() if "FAILED" in each]
    assert line.endswith(f"turn 1 of {child} did not reply what its parent recorded")


@pytest.mark.promise("P7", "P17", "P22")
async def test_half_a_surrogate_pair_in_a_query_leaves_everything_answerable_and_verifiable(
    platform: AgentService, tmp_path: Path
) -> None:
    session = await open_genie(platform)

    def ask_badly(body: dict[str, object]) -> ModelAnswer:
        answer = choose_answer(body)
        if answer != ask_both():
            return answer
        return answer_with_tool_calls(("llm_only", {"query": f"{THINK}\ud800"}))

    platform.provider.choose_behaviour = ask_badly
    await platform.complete_turn(session, text=QUESTION)
    children = await add_children(platform, session)
    (asked,) = await platform.load_events(children["llm_only"], TurnSubmitted)
    assert asked.text == PlainText(text=f"{THINK}\ufffd")
    for each in (session, *children.values()):
        report = await platform.fetch_json(f"/v1/sessions/{each}/verify")
        assert report["verified"], report
        await platform.fetch_json(f"/v1/sessions/{each}/turns/1/why")
    packed = await platform.http.get(f"/v1/sessions/{session}/export", params={"format": "bundle"})
    with ZipFile(BytesIO(packed.content)) as archive:
        archive.extractall(tmp_path)
    assert verifier.main(tmp_path, ()) == verifier.EXIT_UNWITNESSED
    answer = await platform.http.get("/v1/verify")
    assert answer.status_code == 200
    assert json.loads(answer.text.splitlines()[-1])["verified"], answer.text


async def test_cost_of_children_is_listed_beside_parent_and_counted_once(
    platform: AgentService,
) -> None:
    session = await open_genie(platform)
    await platform.complete_turn(session, text=QUESTION)
    children = await add_children(platform, session)
    calls = {each: await platform.list_calls(each) for each in (session, *children.values())}
    listed = (await platform.fetch_json("/v1/sessions", origin=session))["sessions"]
    totals = {each["session"]: each["usage"]["input_tokens"] for each in listed}
    assert totals == {
        child: sum(call["input_tokens"] for call in calls[child]) for child in children.values()
    }
    (own,) = [
        each
        for each in (await platform.fetch_json("/v1/sessions"))["sessions"]
        if each["session"] == session
    ]
    assert own["usage"]["input_tokens"] == sum(call["input_tokens"] for call in calls[session])
    assert own["children_usage"]["input_tokens"] == sum(totals.values())
    summed = own["usage"]["input_tokens"] + sum(totals.values())
    assert own["total_usage"]["input_tokens"] == summed
    answer = await platform.fetch_json(f"/v1/sessions/{session}/calls")
    (asked,) = answer["turns"]
    assert (asked["turn"], asked["usage"]) == (1, own["usage"])
    assert (asked["children_usage"], asked["total_usage"]) == (
        own["children_usage"],
        own["total_usage"],
    )
    printed = Console(record=True, width=200, file=StringIO())
    page = await platform.fetch_json("/v1/sessions", q=session)
    printed.print(render_sessions(SessionPage.model_validate(page), "opened"))
    history = await platform.fetch_json(f"/v1/sessions/{session}/history")
    view = SessionView.model_validate(await platform.fetch_json(f"/v1/sessions/{session}"))
    read = (HistoryView.model_validate(history), CallList.model_validate(answer))
    printed.print(render_session(view, *read))
    row = TypeAdapter(SessionRow).validate_python(own)
    assert row.children_usage
    assert row.total_usage
    costs = [row.usage.cost, row.children_usage.cost, row.total_usage.cost]
    first, theirs, both = map(format_cost, costs)
    lines = printed.export_text()
    assert f"{first} + {theirs}" in lines
    assert f"turn 1 {first} · its children {theirs} · with them {both}" in lines
    head = (await platform.fetch_json(f"/v1/sessions/{session}"))["sequence"]
    forked = await platform.http.post(f"/v1/sessions/{session}/fork", json={"at": head})
    fork = forked.json()["session"]
    platform.opened_sessions.append(fork)
    await platform.list_calls(fork)
    (copy,) = (await platform.fetch_json("/v1/sessions", q=fork))["sessions"]
    assert (copy["usage"]["input_tokens"], copy["children_usage"]) == (0, None), "not paid again"
    shown = SessionView.model_validate(await platform.fetch_json(f"/v1/sessions/{session}"))
    rows = TypeAdapter(tuple[SessionRow, ...]).validate_python(listed)
    console = Console(record=True, width=160, file=StringIO())
    console.print(render_session_facts(shown, rows))
    text = console.export_text()
    for child in children.values():
        assert f"{child} at sequence" in text
    assert text.count("· 1 turn · $") == 2


async def test_closing_a_coordinator_closes_its_children_and_repeating_it_closes_what_is_left(
    platform: AgentService,
) -> None:
    session = await open_genie(platform)
    await platform.complete_turn(session, text=QUESTION)
    children = await add_children(platform, session)
    http = platform.http
    last = (await http.get(f"/v1/sessions/{session}")).json()["sequence"]
    copied = await http.post(f"/v1/sessions/{session}/fork", json={"at": last})
    assert copied.status_code == 201, copied.text
    closed = await http.post(f"/v1/sessions/{copied.json()['session']}/close")
    assert closed.json()["children"] == [], "a fork has asked nobody"
    for _ in range(2):
        closed = await http.post(f"/v1/sessions/{session}/close", json={"reason": "done"})
        assert closed.status_code == 200, closed.text
        assert closed.json()["children"] == [
            {"session": each, "closed": True} for each in children.values()
        ]
    for each in (session, *children.values()):
        (event,) = await platform.load_events(each, SessionClosed)
        assert event.reason == "done"
        assert (await http.get(f"/v1/sessions/{each}/verify")).json()["findings"] == []


async def test_child_that_cannot_be_read_is_named_as_left_and_stops_no_other(
    platform: AgentService,
) -> None:
    session = await open_genie(platform)
    await platform.complete_turn(session, text=QUESTION)
    damaged, sound = (await add_children(platform, session)).values()
    platform.opened_sessions = [
        each for each in platform.opened_sessions if each not in {session, damaged}
    ]
    lost = (await platform.load_recorded_events(damaged))[-1]
    platform.backend.log.drop_event(lost.stream_sequence)
    closed = await platform.http.post(f"/v1/sessions/{session}/close")
    assert closed.status_code == 200, closed.text
    assert closed.json()["children"] == [
        {"session": damaged, "closed": False},
        {"session": sound, "closed": True},
    ]


async def test_move_of_a_coordinator_names_the_children_that_stay_with_the_version_before(
    platform: AgentService,
) -> None:
    folder = platform.copy_shipped_blueprint("uderia", "uderia-moving")
    platform.provider.choose_behaviour = choose_answer
    session = await platform.open_shipped_session("uderia-moving", attributes={}, profile="genie")
    await platform.complete_turn(session, text=QUESTION)
    children = await add_children(platform, session)
    path, http = f"/v1/sessions/{session}/blueprint", platform.http
    unmoved = (await http.post(path)).json()
    assert (unmoved["moved"], unmoved["children_left"]) == (False, [])
    file = folder / BLUEPRINT_FILE
    file.write_text(file.read_text().replace("version: 1", "version: 2", 1))
    await http.post(f"/v1/sessions/{session}/phase", json={"to": "focus"})
    moved = (await http.post(path)).json()
    assert (moved["moved"], moved["children_left"]) == (True, [*children.values()])
