"""Blueprint versions: which sessions use which, and upgrades at a turn boundary."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.services.gateway.gateway_service import MemoryBackend, RunningGateway, start_service
from tests.services.what_if.two_versions import (
    CONVERSATION,
    FIRST_VERSION,
    SECOND_VERSION,
    ScriptedTurn,
    list_recorded_prompts,
    open_session,
    run_conversation,
    run_turn,
    write_blueprint_folder,
)
from tests.support.sessions.session_harness import TENANT, TESTER, SessionHarness
from turnlog.events.content import compute_digest
from turnlog.events.errors import Corrupt
from turnlog.events.model.session_events import BlueprintMoved
from turnlog.projections.session.commands import SubmitTurn, SwitchProfile
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders

PERSONA, OTHER = "You are a clerk, and brief.", "You are a clerk with all the time in the world."


@dataclass(frozen=True, slots=True, repr=False)
class UpgradeService:
    """A service, the harness behind it, and the folder of its blueprint."""

    stand: RunningGateway
    house: SessionHarness
    folder: Path

    def write_blueprint_files(self, text: str, **files: str) -> None:
        """Write other blueprint files."""
        write_blueprint_folder(self.folder, text, **files)

    async def upgrade_session(self, session: str, **form: object) -> httpx.Response:
        """Request the upgrade of a session."""
        return await self.stand.http.post(f"/v1/sessions/{session}/blueprint", json=form)

    async def list_pins(self, what: str, sequence: str) -> list[dict[str, Any]]:
        """Return the pins of a kind, once the rows hold an event."""
        await self.stand.fetch_json("/v1/sessions", min_sequence=sequence)
        found = (await self.stand.fetch_json("/v1/pins", blueprint="clerk"))["pins"]
        return [pin for pin in found if pin["what"] == what]


@pytest_asyncio.fixture
async def office(tmp_path: Path) -> AsyncIterator[UpgradeService]:
    backend = MemoryBackend()
    folder = write_blueprint_folder(tmp_path / "library", FIRST_VERSION, persona_md=PERSONA)
    house = SessionHarness(log=backend.log, blobs=backend.blobs, tokens=backend.tokens)
    async with (
        start_service(backend, TENANT, tmp_path, working=False) as stand,
        stand.start_another_gateway(blueprints=(folder,)) as gateway,
    ):
        yield UpgradeService(gateway, house, folder)


async def test_next_call_uses_the_new_version_and_recorded_calls_are_unchanged(
    office: UpgradeService,
) -> None:
    await run_conversation(office.house, office.folder, "s", CONVERSATION[:3], tone="kind")
    before = list_recorded_prompts(office.house, "s")
    office.write_blueprint_files(SECOND_VERSION, persona_md=OTHER)
    answer = await office.upgrade_session("s")
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert (body["moved"], body["version"]) == (True, 2)
    assert office.house.list_event_names()[-1] == "blueprint-moved"
    await run_turn(
        office.house,
        BlueprintFolders((office.folder,)).load_blueprint("clerk"),
        "s",
        CONVERSATION[5],
    )
    after = list_recorded_prompts(office.house, "s")
    assert after[:3] == before
    assert (after[3].kind, after[3].budget) == ("answer", 90)
    prompt = await office.stand.fetch_json("/v1/sessions/s/calls/4.1/prompt")
    assert prompt["messages"][0]["content"] == f"{OTHER}\n\nkind"
    for call in ("1.1", "3.1", "4.1"):
        assert (await office.stand.fetch_json(f"/v1/sessions/s/calls/{call}/prompt"))["verified"]
    assert office.house.list_event_names().count("prompts-snapshotted") == 2


async def test_edited_prompt_file_alone_allows_a_move(office: UpgradeService) -> None:
    await run_conversation(office.house, office.folder, "s", CONVERSATION[:1])
    assert (await office.upgrade_session("s")).json()["moved"] is False
    office.write_blueprint_files(FIRST_VERSION, persona_md=OTHER)
    assert (await office.upgrade_session("s")).json()["moved"] is True
    await run_turn(
        office.house,
        BlueprintFolders((office.folder,)).load_blueprint("clerk"),
        "s",
        CONVERSATION[1],
    )
    assert (await office.upgrade_session("s")).json()["moved"] is False
    last = await office.stand.fetch_json("/v1/sessions/s/calls/2.1/prompt")
    assert last["messages"][0]["content"].startswith(OTHER)


async def test_window_before_a_move_uses_the_files_pinned_before_it(
    office: UpgradeService,
) -> None:
    await run_conversation(office.house, office.folder, "s", CONVERSATION[:1])
    window = await office.stand.fetch_json("/v1/sessions/s/window", at=2)
    for persona in (OTHER, f"{OTHER} {PERSONA}"):
        office.write_blueprint_files(FIRST_VERSION, persona_md=persona)
        assert (await office.upgrade_session("s")).json()["moved"] is True
        await run_turn(
            office.house,
            BlueprintFolders((office.folder,)).load_blueprint("clerk"),
            "s",
            CONVERSATION[1],
        )
        assert await office.stand.fetch_json("/v1/sessions/s/window", at=2) == window
    sent = await office.stand.fetch_json("/v1/sessions/s/calls/1.1/prompt")
    assert sent["messages"][0] == window["messages"][0]


async def test_prompt_file_overridden_by_a_provider_file_is_not_current(
    office: UpgradeService,
) -> None:
    await run_conversation(office.house, office.folder, "s", CONVERSATION[:1])
    position = f"s:{len(office.house.list_events('s'))}"
    (pin,) = await office.list_pins("prompt", position)
    assert pin["current"] is True
    nearer = office.folder / "clerk" / pin["provider"] / "persona.md"
    nearer.parent.mkdir()
    nearer.write_text(OTHER)
    (pin,) = await office.list_pins("prompt", position)
    assert (pin["path"], pin["current"]) == ("persona.md", False)


async def post_with_key(office: UpgradeService, path: str, **form: object) -> dict[str, Any]:
    headers = {"Idempotency-Key": f"once{path}"}
    answer = await office.stand.http.post(f"/v1/sessions{path}", json=form, headers=headers)
    assert answer.is_success, answer.text
    return dict(answer.json())


@pytest.mark.promise("P4")
async def test_move_retried_with_its_key_gets_the_first_response_after_later_moves(
    office: UpgradeService,
) -> None:
    await run_conversation(office.house, office.folder, "s", CONVERSATION[:1])
    office.write_blueprint_files(SECOND_VERSION, persona_md=OTHER)
    first = await post_with_key(office, "/s/blueprint")
    assert await post_with_key(office, "/s/blueprint") == first
    assert office.house.list_event_names().count("blueprint-moved") == 1
    office.write_blueprint_files(SECOND_VERSION.replace("version: 2", "version: 3"))
    assert (await office.upgrade_session("s")).json()["version"] == 3
    assert await post_with_key(office, "/s/blueprint") == first


@pytest.mark.promise("P4")
async def test_open_and_fork_retries_get_the_first_response_after_a_move(
    office: UpgradeService,
) -> None:
    opened = await post_with_key(office, "", blueprint="clerk", attributes={"language": "English"})
    path = f"/{opened['session']}/fork"
    forked = await post_with_key(office, path, at=1)
    office.write_blueprint_files(SECOND_VERSION, persona_md=OTHER)
    for session in (opened["session"], forked["session"]):
        assert (await office.upgrade_session(session)).json()["moved"] is True
    again = await post_with_key(office, "", blueprint="clerk", attributes={"language": "English"})
    assert (again, await post_with_key(office, path, at=1)) == (opened, forked)


async def test_preview_of_a_move_agrees_with_the_move_and_writes_nothing(
    office: UpgradeService,
) -> None:
    await run_conversation(office.house, office.folder, "s", CONVERSATION[:1])
    path = "/v1/sessions/s/blueprint"
    assert (await office.stand.fetch_json(path))["moves"] is False
    office.write_blueprint_files(SECOND_VERSION, persona_md=OTHER)
    events = office.house.list_event_names()
    preview = await office.stand.fetch_json(path)
    assert (preview["moves"], preview["version_before"], preview["version"]) == (True, 1, 2)
    assert office.house.list_event_names() == events
    with pytest.raises(Corrupt, match="it is gone"):
        await office.house.blobs.get_blob(TENANT, preview["digest"])
    assert (await office.upgrade_session("s")).json()["digest"] == preview["digest"]
    await office.house.blobs.get_blob(TENANT, preview["digest"])


async def test_a_session_is_not_moved_while_a_turn_is_open(office: UpgradeService) -> None:
    await run_conversation(office.house, office.folder, "s", ())
    await office.house.sessions.handle(
        TENANT,
        "s",
        SubmitTurn(
            text="Hi", policies=BlueprintFolders((office.folder,)).load_blueprint("clerk").policies
        ),
        TESTER,
    )
    office.write_blueprint_files(SECOND_VERSION, persona_md=OTHER)
    preview = await office.stand.http.get("/v1/sessions/s/blueprint")
    for answer in (preview, await office.upgrade_session("s")):
        assert (answer.status_code, answer.json()["code"]) == (409, "turn-open")
    assert "blueprint-moved" not in office.house.list_event_names()


async def test_move_is_refused_if_the_version_differs_from_the_expected_digest(
    office: UpgradeService,
) -> None:
    await run_conversation(office.house, office.folder, "s", ())
    office.write_blueprint_files(SECOND_VERSION, persona_md=OTHER)
    answer = await office.upgrade_session("s", digest=compute_digest("what somebody looked at"))
    assert (answer.status_code, answer.json()["code"]) == (409, "blueprint-changed")


MISFITS = {
    "attributes.tone": FIRST_VERSION.replace("  tone: {type: text, default: plain}\n", ""),
    "attributes.shop": FIRST_VERSION.replace(
        "inputs:", "  shop: {type: text, required: true}\ninputs:"
    ),
    "profile": FIRST_VERSION.replace("  chat: {def", "  talk: {def"),
}


@pytest.mark.parametrize("field", MISFITS)
async def test_version_that_does_not_fit_is_refused_with_its_field(
    office: UpgradeService, field: str
) -> None:
    await run_conversation(office.house, office.folder, "s", CONVERSATION[:1], tone="kind")
    office.write_blueprint_files(MISFITS[field])
    answer = await office.upgrade_session("s")
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (409, "blueprint-does-not-fit")
    assert problem["field"] == field
    assert "blueprint-moved" not in office.house.list_event_names()


async def test_version_that_forbids_the_current_model_is_refused(
    office: UpgradeService,
) -> None:
    allowing = f"{FIRST_VERSION}models: {{allow: [openai/egret]}}\n"
    office.write_blueprint_files(allowing)
    await run_conversation(office.house, office.folder, "s", CONVERSATION[:1])
    switch = SwitchProfile("chat", {"chat"}, "openai/egret", {"openai/egret"})
    await office.house.sessions.handle(TENANT, "s", switch, TESTER)
    office.write_blueprint_files(FIRST_VERSION)
    answer = await office.upgrade_session("s")
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (409, "blueprint-does-not-fit")
    assert problem["field"] == "model"
    office.write_blueprint_files(allowing.replace("version: 1", "version: 2"))
    assert (await office.upgrade_session("s")).status_code == 200


async def test_default_values_are_replaced_or_removed_by_the_new_version(
    office: UpgradeService,
) -> None:
    await run_conversation(office.house, office.folder, "s", CONVERSATION[:1])
    office.write_blueprint_files(FIRST_VERSION.replace("default: plain", "default: bright"))
    assert (await office.upgrade_session("s")).status_code == 200
    office.write_blueprint_files(MISFITS["attributes.tone"].replace("English}", "Latvian}"))
    sequence = (await office.upgrade_session("s")).json()["sequence"]
    moves = [each.event for each in office.house.list_events("s")]
    assert [each.attributes for each in moves if isinstance(each, BlueprintMoved)] == [
        {"language": "English", "tone": "bright"},
        {"language": "Latvian"},
    ]
    await office.stand.fetch_json("/v1/sessions", min_sequence=f"s:{sequence}")
    for name, value, names in (("language", "Latvian", ["s"]), ("tone", "bright", [])):
        page = await office.stand.fetch_json("/v1/sessions", **{f"attribute.{name}": value})
        assert [each["session"] for each in page["sessions"]] == names


async def test_pins_report_the_number_of_open_sessions_per_version(office: UpgradeService) -> None:
    for session in ("a", "b", "c"):
        await run_conversation(office.house, office.folder, session, CONVERSATION[:1])
    await office.stand.http.post("/v1/sessions/c/close", json={})
    office.write_blueprint_files(SECOND_VERSION, persona_md=OTHER)
    moved = (await office.upgrade_session("a")).json()
    position = f"a:{moved['sequence']}"
    versions = await office.list_pins("blueprint", position)
    assert [(p["version"], p["sessions"], p["current"]) for p in versions] == [
        (1, 1, False), (2, 1, True)
    ] or [(p["version"], p["sessions"], p["current"]) for p in versions] == [
        (2, 1, True), (1, 1, False)
    ]  # fmt: skip
    (prompt,) = await office.list_pins("prompt", position)
    assert (prompt["layer"], prompt["path"]) == ("persona", "persona.md")
    assert (prompt["digest"], prompt["sessions"]) == (compute_digest(PERSONA), 1)
    assert prompt["current"] is False
    await run_turn(
        office.house,
        BlueprintFolders((office.folder,)).load_blueprint("clerk"),
        "a",
        CONVERSATION[1],
    )
    position = f"a:{len(office.house.list_events('a'))}"
    prompts = {p["digest"]: p["current"] for p in await office.list_pins("prompt", position)}
    assert prompts == {compute_digest(PERSONA): False, compute_digest(OTHER): True}
    for digest, expected in ((prompt["digest"], ["b"]), (moved["digest"], ["a"])):
        page = await office.stand.fetch_json("/v1/sessions", digest=digest, open="true")
        assert [each["session"] for each in page["sessions"]] == expected


PHASED = """
blueprint: clerk
version: {version}
attributes:
  task: {{type: id, required: true}}
cartridge:
  file: "{{task}}.yaml"
  requires: [phases]
layers:
  persona: {{text: "{persona}"}}
calls:
  talk: {{messages: [{{system: [persona]}}, {{history: recent}}, {{user: [input]}}]}}
  end: {{messages: [{{system: [persona]}}, {{history: recent}}]}}
history:
  recent: {{}}
phases:
  from: cartridge.phases
  calls: {{freeform: talk, debrief: end}}
  signals: {{understood: on_success}}
profiles:
  lesson: {{default: true, call: by_phase}}
"""

GRAPH = """
phases:
  start: one
  one: {kind: freeform, min_exchanges: 0, max_exchanges: 2,
        ai_transitions: {on_success: two, on_max_exchanges: two}}
  two: {kind: freeform}
"""


async def test_session_of_a_state_machine_moves_only_at_the_start_of_a_phase(
    office: UpgradeService,
) -> None:
    office.write_blueprint_files(PHASED.format(version=1, persona="Begin."), task__yaml="")
    (office.folder / "clerk" / "t.yaml").write_text(GRAPH)
    library = BlueprintFolders((office.folder,))
    blueprint = library.load_blueprint("clerk")
    office.house.library = library
    await open_session(
        house=office.house,
        library=library,
        blueprint=blueprint,
        session="s",
        attributes={"task": "t"},
    )
    await run_turn(office.house, blueprint, "s", ScriptedTurn("One?", "One."))
    office.write_blueprint_files(PHASED.format(version=2, persona="Go on."))
    under_way = await office.upgrade_session("s")
    assert (under_way.status_code, under_way.json()["code"]) == (409, "not-at-a-boundary")
    await run_turn(office.house, blueprint, "s", ScriptedTurn("Two?", "Two."))
    assert (await office.stand.fetch_json("/v1/sessions/s"))["phase"] == "two"
    graph = GRAPH.replace("  two:", "  three:").replace(": two", ": three")
    (office.folder / "clerk" / "t.yaml").write_text(graph)
    response = await office.upgrade_session("s")
    assert (response.status_code, response.json()["field"]) == (409, "phase")
    assert response.json()["code"] == "blueprint-does-not-fit"
    (office.folder / "clerk" / "t.yaml").write_text(GRAPH)
    assert (await office.upgrade_session("s")).json()["moved"] is True
    await run_turn(
        office.house, library.load_blueprint("clerk"), "s", ScriptedTurn("Three?", "Three.")
    )
    prompt = await office.stand.fetch_json("/v1/sessions/s/calls/3.1/prompt")
    assert (prompt["messages"][0]["content"], prompt["verified"]) == ("Go on.", True)
