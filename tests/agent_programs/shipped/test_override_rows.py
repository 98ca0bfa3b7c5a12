"""U17: prompts that a user has in place of those of the shipped `uderia`, read back over HTTP."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, cast
from zipfile import ZipFile

import httpx
import pytest

from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_plan,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.agent_programs.shipped.test_genie_rows import QUESTION, add_children, open_genie
from tests.agent_programs.shipped.test_prompt_rows import (
    BASE,
    LIMIT,
    PLAN_FORM,
    TALK,
    TOOLS,
    UDERIA,
    include_in_tactic,
    join_layers,
    read_messages,
)
from tests.services.gateway.gateway_service import start_service
from tests.support.knowledge.fixed_search import FixedSearch, build_found
from tests.support.servers.model_behaviours import ModelAnswer
from turnlog.events.model.turn_events import TurnQueued, TurnSubmitted
from turnlog.services.bundle import verifier

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def send_override(
    platform: AgentService, user: str, category: str, text: str, **place: str
) -> httpx.Response:
    path = f"/v1/overrides/uderia/{category}/{user}"
    return await platform.http.put(path, json={"text": text, **place})


async def set_override(
    platform: AgentService, user: str, category: str, text: str, **place: str
) -> dict[str, Any]:
    answer = await send_override(platform, user, category, text, **place)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def remove_override(
    platform: AgentService, user: str, category: str, **place: str
) -> httpx.Response:
    path = f"/v1/overrides/uderia/{category}/{user}"
    return await platform.http.delete(path, params=place)


async def open_chat(platform: AgentService) -> str:
    return await platform.open_shipped_session("uderia", profile="llm_only")


async def talk(platform: AgentService, session: str, user: str | None = None) -> str:
    """Run a turn of a chat, and return the text of its system message."""
    named = {} if user is None else {"user": user}
    await platform.complete_turn(session, answer_with_text("Well."), text="Hm?", **named)
    turn = len(await platform.load_events(session, TurnSubmitted))
    return (await read_messages(platform, session, f"{turn}.1"))[0][1]


async def find_source(platform: AgentService, session: str, call: str) -> Mapping[str, Any]:
    """Return the source of the base prompt of a call."""
    parts = (await platform.fetch_prompt(session, call))["manifest"]["parts"]
    (source,) = [each["source"] for each in parts if each["layer"] == "base"]
    return cast("Mapping[str, Any]", source)


async def test_u17_user_overrides_every_prompt_file_of_tool_enabled(
    platform: AgentService,
) -> None:
    words = {
        "master_system": "You are Ann's.",
        "workflow_classification": 'Ann plans so: {tools_text} as {"steps": []}.',
        "error_recovery": "Ann tries another tool.",
        "visualization": "Ann draws bars.",
    }
    for category, text in words.items():
        shown = await set_override(platform, "ann", category, text)
        assert (shown["text"], shown["version"], shown["path"]) == (text, 1, f"{category}.md")
    session = await platform.open_shipped_session(
        "uderia", attributes={"charting": True}, profile="tool_enabled"
    )
    platform.shop.failing_tools = ["look"]
    look = answer_with_tool_calls(("harbour_look", {"what": "boat"}))
    plan = answer_with_plan(("Find boats.", ["harbour_look"]))
    await platform.complete_turn(
        session, plan, look, look, answer_with_text("Three."), text="Hm?", user="ann"
    )
    base, strategy, recovery, charts = words.values()
    (system, _) = await read_messages(platform, session, "1.1")
    planned = strategy.replace("{tools_text}", TOOLS)
    assert system[1] == join_layers(base, planned, LIMIT, charts, PLAN_FORM)
    failed = 'harbour_look {"what": "boat"}\n  failed: the shelf is locked'
    (system, _) = await read_messages(platform, session, "1.3")
    assert system[1] == join_layers(base, include_in_tactic("Find boats."), failed, recovery)


async def test_u17_each_user_of_a_session_gets_only_their_own_overrides(
    platform: AgentService,
) -> None:
    await set_override(platform, "bea", "master_system", "You are Bea's.")
    await set_override(platform, "bea", "conversation_execution", "Bea is terse.")
    await set_override(platform, "cid", "conversation_execution", "Cid rambles.")
    session = await open_chat(platform)
    prompts = [await talk(platform, session, user) for user in ("bea", "cid", "dot", None, "bea")]
    own = join_layers("You are Bea's.", "Bea is terse.")
    plain = join_layers(BASE, TALK)
    assert prompts == [own, join_layers(BASE, "Cid rambles."), plain, plain, own]
    submitted = await platform.load_events(session, TurnSubmitted)
    assert [len(each.overrides) for each in submitted] == [2, 1, 0, 0, 2]


async def test_u17_user_overrides_retrieval_prompt_of_rag_focused(platform: AgentService) -> None:
    await set_override(platform, "eva", "rag_focused_execution", "Eva wants sources.")
    platform.worker.knowledge = FixedSearch(
        [build_found("berths", "Berth 4 is free.", 0.9, collection="knowledge")]
    )
    session = await platform.open_shipped_session("uderia", profile="rag_focused")
    await platform.complete_turn(session, answer_with_text("Four."), text="Which?", user="eva")
    (system, user) = await read_messages(platform, session, "1.1")
    assert system[1].startswith(join_layers(BASE, "Eva wants sources."))
    assert system[1].endswith("Berth 4 is free.")
    assert user == ("user", "Which?")


async def test_u17_user_overrides_coordination_prompt_of_genie_and_prompts_of_its_children(
    platform: AgentService,
) -> None:
    await set_override(platform, "fay", "genie_coordination", "# Your task now: coordinate for Fay")
    await set_override(platform, "fay", "conversation_execution", "Fay is terse.")
    await set_override(platform, "fay", "master_system", "Fay's own.", profile="tool_enabled")
    session = await open_genie(platform)
    await platform.complete_turn(session, text=QUESTION, user="fay")
    children = await add_children(platform, session)
    systems = {
        profile: (await read_messages(platform, each, "1.1"))[0][1]
        for profile, each in {"genie": session, **children}.items()
    }
    assert systems["genie"].startswith(join_layers(BASE, "# Your task now: coordinate for Fay"))
    assert systems["llm_only"] == join_layers(BASE, "Fay is terse.")
    assert systems["tool_enabled"].startswith("Fay's own.\n\n")
    for each in children.values():
        (asked,) = await platform.load_events(each, TurnSubmitted)
        (parent,) = await platform.load_events(session, TurnSubmitted)
        assert (asked.user, asked.overrides) == ("fay", parent.overrides)
    verified = await platform.fetch_json(f"/v1/sessions/{session}/verify")
    assert (verified["verified"], len(verified["children"])) == (True, 2)


async def test_u17_profile_override_of_a_user_takes_precedence_over_provider_override(
    platform: AgentService,
) -> None:
    session = await open_chat(platform)
    places: list[tuple[dict[str, str], str]] = [
        ({"provider": "anthropic"}, "of nobody here"),
        ({}, "master_system.md"),
        ({"provider": "openai"}, "openai/master_system.md"),
        ({"profile": "llm_only"}, "overrides/llm_only/master_system.md"),
        (
            {"profile": "llm_only", "provider": "openai"},
            "overrides/llm_only/openai/master_system.md",
        ),
        ({"profile": "tool_enabled", "provider": "openai"}, "of another profile"),
    ]
    prompts, paths = list[str](), list[object]()
    for number, (place, path) in enumerate(places, 1):
        await set_override(platform, "gil", "master_system", f"Gil: {path}", **place)
        prompts.append((await talk(platform, session, "gil")).partition("\n\n")[0])
        source = await find_source(platform, session, f"{number}.1")
        paths.append((source["path"], source.get("user"), source.get("version")))
    best = [path for _, path in places[1:5]]
    assert prompts == [BASE.partition("\n\n")[0], *(f"Gil: {path}" for path in (*best, best[-1]))]
    assert paths == [
        ("master_system.md", None, None),
        *((path, "gil", 1) for path in (*best, best[-1])),
    ]


async def test_u17_prompts_with_overrides_reproduce_and_are_explained_after_edit_and_removal(
    platform: AgentService,
) -> None:
    session = await open_chat(platform)
    await set_override(platform, "hal", "master_system", "Hal, first.")
    first = await talk(platform, session, "hal")
    edited = await set_override(platform, "hal", "master_system", "Hal, second.\n")
    assert (edited["version"], edited["text"]) == (2, "Hal, second."), "as a file is read"
    second = await talk(platform, session, "hal")
    assert (await remove_override(platform, "hal", "master_system")).status_code == 200
    third = await talk(platform, session, "hal")
    again = await set_override(platform, "hal", "master_system", "Hal, third.")
    assert again["version"] == 3, "a version is of one text only"
    wanted = [join_layers(text, TALK) for text in ("Hal, first.", "Hal, second.", BASE)]
    assert [first, second, third] == wanted
    for number, system in enumerate(wanted, 1):
        assert (await read_messages(platform, session, f"{number}.1"))[0][1] == system
    sources = [await find_source(platform, session, f"{n}.1") for n in (1, 2, 3)]
    assert [each.get("version") for each in sources] == [1, 2, None]
    why = await platform.fetch_json(f"/v1/sessions/{session}/calls/2.1/why")
    (base,) = [each for each in why["parts"] if each["part"]["layer"] == "base"]
    assert base["part"]["source"]["user"] == "hal"
    submitted = [
        each.sequence
        for each in await platform.load_recorded_events(session)
        if isinstance(each.event, TurnSubmitted)
    ]
    assert submitted[1] in [each["sequence"] for each in base["by"]]
    for pair in ("1.1/diff/2.1", "2.1/diff/3.1"):
        diff = await platform.fetch_json(f"/v1/sessions/{session}/calls/{pair}")
        (change,) = [each for each in diff["changes"] if each["layer"] == "base"]
        assert [each["what"] for each in change["because"]] == ["override"]
        assert {each["event"] for each in change["because"][0]["by"]} == {"turn-submitted"}
    verified = await platform.fetch_json(f"/v1/sessions/{session}/verify")
    assert (verified["verified"], verified["prompts"]["calls"]) == (True, 3)


async def test_u17_user_override_takes_precedence_over_blueprint_files(
    platform: AgentService, operator_files: dict[str, str]
) -> None:
    await set_override(platform, "ida", "master_system", "Ida's own.")
    session = await open_chat(platform)
    assert await talk(platform, session, "ida") == join_layers("Ida's own.", TALK)
    assert await talk(platform, session) == join_layers(*operator_files.values(), TALK)


@pytest.fixture
def operator_files(platform: AgentService) -> Iterator[dict[str, str]]:
    """The shipped blueprint with a prompt of its operator for profile and provider."""
    folder = platform.folder / "uderia"
    shutil.copytree(UDERIA, folder)
    words = {"overrides/llm_only/openai/master_system.md": "The operator's."}
    for name, text in words.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)
    yield words
    shutil.rmtree(folder)


REFUSALS: Mapping[str, tuple[str, dict[str, str], int, str, str]] = {
    "a profile without the category": (
        *("genie_coordination", {"profile": "llm_only"}),
        *(422, "profile", "only profiles of program coordinator have it"),
    ),
    "no profile": ("master_system", {"profile": "llm_onyl"}, 422, "profile", "llm_only"),
    "no category": ("masters_system", {}, 422, "category", ""),
    "a category without providers": (
        *("visualization", {"provider": "openai"}),
        *(422, "category", "visualization.md"),
    ),
    "no provider": ("master_system", {"provider": "../x"}, 422, "provider", ""),
    "an empty text": ("master_system", {"text": " \n"}, 422, "text", "remove the override"),
    "NUL": ("master_system", {"text": "a\0b"}, 422, "", "remove the character"),
    "a text that is too long": ("master_system", {"text": "x" * 500_001}, 413, "", ""),
    "another field": ("master_system", {"model": "openai/x"}, 422, "model", ""),
}


async def test_u17_override_is_refused_for_the_same_faults_as_a_prompt_file(
    platform: AgentService,
) -> None:
    for case, (category, form, status, field, fix) in REFUSALS.items():
        refused = await send_override(platform, "jon", category, **{"text": "Hm."} | form)
        problem = refused.json()
        assert refused.status_code == status, (case, problem)
        assert field in problem.get("field", ""), (case, problem)
        assert fix in problem.get("fix", ""), (case, problem)
    assert (await platform.fetch_json("/v1/overrides", user="jon"))["overrides"] == []


async def test_u17_override_includes_layers_by_name_and_reports_unknown_names(
    platform: AgentService,
) -> None:
    text = "Use {tools_text}, and {tool_text} or {}."
    shown = await set_override(platform, "kim", "workflow_classification", text)
    assert (shown["includes"], shown["unknown_names"]) == (["tools_text"], ["tool_text"])


async def test_u17_overrides_are_listed_shown_and_removed_by_user(platform: AgentService) -> None:
    place = {"profile": "llm_only", "provider": "openai"}
    await set_override(platform, "team%2Flea l", "master_system", "Lea.", **place)
    await set_override(platform, "team%2Flea l", "visualization", "Bars.")
    await set_override(platform, "mia", "visualization", "Mia's bars.")
    page = await platform.fetch_json("/v1/overrides", user="team/lea l")
    assert [(each["path"], each["version"]) for each in page["overrides"]] == [
        ("overrides/llm_only/openai/master_system.md", 1),
        ("visualization.md", 1),
    ]
    assert "Mia" not in str(page)
    other = await platform.fetch_json("/v1/overrides", user="team/lea l", blueprint="assistant")
    assert other["overrides"] == []
    path = "/v1/overrides/uderia/master_system/team%2Flea l"
    assert (await platform.fetch_json(path, **place))["text"] == "Lea."
    missing = await platform.http.get(path)
    assert (missing.status_code, missing.json()["code"]) == (404, "unknown-override")
    assert (await platform.http.delete(path)).status_code == 404, "it is for one profile"
    empty = await platform.http.delete(path, params={"profile": ""})
    assert (empty.status_code, empty.json()["field"]) == (422, "profile")
    assert (await platform.http.delete(path, params=place)).status_code == 200
    gone = await platform.http.get(path, params=place)
    assert gone.status_code == 404
    unnamed = await platform.http.get("/v1/overrides")
    assert (unnamed.status_code, unnamed.json()["field"]) == (422, "user")


async def test_u17_repeated_override_request_creates_one_version(platform: AgentService) -> None:
    path, body = "/v1/overrides/uderia/master_system/nia", {"text": "Nia."}
    answers = [
        await platform.http.put(path, json=body, headers={"Idempotency-Key": "o-1"})
        for _ in range(2)
    ]
    same = await platform.http.put(path, json=body)
    versions = [each.json()["version"] for each in (*answers, same)]
    assert versions == [1, 1, 1]
    await set_override(platform, "nia", "master_system", "Nia, edited.")
    assert (await remove_override(platform, "nia", "master_system")).status_code == 200
    again = await platform.http.put(path, json=body, headers={"Idempotency-Key": "o-1"})
    assert (again.status_code, again.json()["text"]) == (200, "Nia."), "the same answer for good"
    assert (await platform.fetch_json("/v1/overrides", user="nia"))["overrides"] == []
    other = await platform.http.put(path, json={"text": "N."}, headers={"Idempotency-Key": "o-1"})
    assert (other.status_code, other.json()["code"]) == (409, "key-reused")


async def test_u18_override_reaches_no_other_user_tenant_or_preview(
    platform: AgentService, tmp_path: Path
) -> None:
    secret = "Olga's code name is Heron."
    await set_override(platform, "olga", "master_system", secret)
    session = await open_chat(platform)
    assert secret in await talk(platform, session, "olga")
    for user in ("paul", "olga2", "Olga", None):
        assert secret not in await talk(platform, session, user)
    path = f"/v1/sessions/{session}/window"
    previews = [
        (await platform.http.post(path, json={"text": "Hm?", **named})).text
        for named in ({"user": "olga"}, {"user": "paul"}, {})
    ]
    assert [secret in each for each in previews] == [True, False, False]
    async with start_service(platform.backend, "others", tmp_path, working=False) as other:
        mine = "/v1/overrides/uderia/master_system/olga"
        assert (await other.http.get(mine)).status_code == 404
        assert (await other.fetch_json("/v1/overrides", user="olga"))["overrides"] == []
        opened = await other.open_session("uderia", profile="llm_only")
        preview = await other.http.post(
            f"/v1/sessions/{opened}/window", json={"text": "Hm?", "user": "olga"}
        )
        assert preview.status_code == 200
        assert secret not in preview.text


async def test_u17_queued_turn_uses_the_overrides_at_its_submission(
    platform: AgentService,
) -> None:
    await set_override(platform, "tom", "master_system", "Tom, first.")
    session = await open_chat(platform)
    held, path = asyncio.Event(), f"/v1/sessions/{session}/turns"
    first = ModelAnswer(tokens=("One.",), gates={0: held})
    platform.provider.queue_behaviours(first, answer_with_text("Two."))
    for text in ("One?", "Two?"):
        answer = await platform.http.post(path, json={"text": text, "user": "tom"})
        assert answer.status_code == 202, answer.text
    await set_override(platform, "tom", "master_system", "Tom, second.")
    held.set()
    await platform.http.get(f"{path}/2/stream", headers={"Accept": "text/event-stream"})
    (waited,) = await platform.load_events(session, TurnQueued)
    assert [each.version for each in waited.overrides] == [1]
    for call in ("1.1", "2.1"):
        (system, *_) = await read_messages(platform, session, call)
        assert system[1] == join_layers("Tom, first.", TALK)
    platform.provider.queue_behaviours(answer_with_text("Three."))
    await platform.complete_turn(session, text="Three?", user="tom")
    assert (await find_source(platform, session, "3.1"))["version"] == 2


async def test_u17_fork_bundle_and_redaction_keep_overrides_of_recorded_prompts(
    platform: AgentService, tmp_path: Path
) -> None:
    await set_override(platform, "quin", "master_system", "Quin's own.")
    await set_override(platform, "quin", "visualization", "Quin draws bars.")
    session = await open_chat(platform)
    await talk(platform, session, "quin")
    await remove_override(platform, "quin", "master_system")
    head = (await platform.load_recorded_events(session))[-1].sequence
    forked = await platform.http.post(f"/v1/sessions/{session}/fork", json={"at": head})
    fork = str(forked.json()["session"])
    platform.opened_sessions.append(fork)
    assert await talk(platform, fork, "quin") == join_layers(BASE, TALK)
    own = join_layers("Quin's own.", TALK)
    redaction = {"turn": 1, "reason": "a test"}
    path = f"/v1/sessions/{session}/redactions"
    assert (await platform.http.post(path, json=redaction)).status_code == 200
    for each in (session, fork):
        assert (await read_messages(platform, each, "1.1"))[0][1] == own
    packed = await platform.http.get(f"/v1/sessions/{fork}/export", params={"format": "bundle"})
    with ZipFile(BytesIO(packed.content)) as archive:
        archive.extractall(tmp_path)
    assert verifier.main(tmp_path, ()) == verifier.EXIT_UNWITNESSED


async def test_u17_what_if_uses_overrides_of_the_turns_user(platform: AgentService) -> None:
    await set_override(platform, "rae", "master_system", "One.", provider="openai")
    await set_override(platform, "rae", "master_system", "One two.")
    session = await open_chat(platform)
    await talk(platform, session, "rae")
    form = {"sessions": [session], "model": "anthropic/heron"}
    answer = await platform.http.post("/v1/what-if", json=form)
    lines = [json.loads(line) for line in answer.text.splitlines()]
    (found,) = [each for each in lines if each["line"] == "session"]
    assert [(each["layer"], each["how"]) for each in found["altered"]] == [("base", "changed")]
    assert found["worst"][0]["after"]["tokens"] == found["worst"][0]["before"]["tokens"] + 1


async def test_u17_turn_with_missing_override_blob_fails_and_verify_reports_it(
    platform: AgentService,
) -> None:
    shown = await set_override(platform, "sue", "master_system", "Sue's own.")
    session = await open_chat(platform)
    stored, key = platform.backend.blobs.blobs, (platform.gateway.tenant, shown["digest"])
    lost = stored.pop(key)
    turn = await platform.submit_turn(session, answer_with_text("Well."), text="Hm?", user="sue")
    assert (turn["status"], turn["reason"]) == ("failed", "corrupt")
    assert shown["digest"] in turn["detail"]
    verified = await platform.fetch_json(f"/v1/sessions/{session}/verify")
    assert (verified["integrity"], verified["completeness"]) == ("intact", "incomplete")
    assert [shown["digest"] in each["detail"] for each in verified["findings"]] == [True]
    stored[key] = lost
