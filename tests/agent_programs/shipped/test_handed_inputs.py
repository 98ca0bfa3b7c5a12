"""The input `material` of the shipped `uderia`: a genie hands it to its child `llm_only`.

It is sent over HTTP, and read back from prompts, explanations, uses and bundles.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.agent_programs.agent_service import AgentService
from tests.agent_programs.shipped.test_genie_rows import (
    LOOK_UP,
    QUESTION,
    THINK,
    add_children,
    choose_answer,
    open_genie,
    print_why,
    read_all,
)
from tests.replay.bundle_copies import BundleCopy
from turnlog.events.content import compute_digest
from turnlog.events.model.child_events import ChildRequested
from turnlog.events.model.turn_events import TurnFailed, TurnSubmitted
from turnlog.services.bundle import verifier

pytestmark = pytest.mark.asyncio(loop_scope="module")

MATERIAL = "Contract of sale\n\n§ 1 The boat leaks.\n§ 2 The buyer knows it. Signed ✒ Vane."


async def ask_about_material(platform: AgentService) -> tuple[str, dict[str, str]]:
    """Return a genie's session after a turn with material, and its children by profile."""
    session = await open_genie(platform)
    await platform.complete_turn(session, text=QUESTION, inputs={"material": MATERIAL})
    return session, await add_children(platform, session)


async def test_material_reaches_the_child_by_reference_and_not_the_others(
    platform: AgentService,
) -> None:
    session, children = await ask_about_material(platform)
    child = children["llm_only"]
    first = (await read_all(platform, session, "1.1"))[1:]
    assert first == [f"{MATERIAL}\n\n{QUESTION}"]
    assert (await read_all(platform, child, "1.1"))[1:] == [f"{MATERIAL}\n\n{THINK}"]
    assert (await read_all(platform, children["tool_enabled"], "1.1"))[1:] == [LOOK_UP]
    (asked,) = await platform.load_events(session, TurnSubmitted)
    (given,) = await platform.load_events(child, TurnSubmitted)
    assert (asked.inputs["material"], given.inputs) == (MATERIAL, {})
    (reference,) = given.parent_inputs
    assert (reference.session, reference.turn) == (session, 1)
    assert reference.digest == compute_digest(MATERIAL)
    assert MATERIAL[:20] not in given.model_dump_json()
    for each in (session, *children.values()):
        report = await platform.fetch_json(f"/v1/sessions/{each}/verify")
        assert report["verified"], report


async def test_later_turn_without_material_hands_none_on(platform: AgentService) -> None:
    session, children = await ask_about_material(platform)
    await platform.complete_turn(session, text=QUESTION)
    texts = (await read_all(platform, children["llm_only"], "2.1"))[1:]
    assert texts == [THINK, "A boat is work.", THINK]


async def test_why_and_uses_lead_from_the_child_to_the_turn_of_the_parent(
    platform: AgentService,
) -> None:
    session, children = await ask_about_material(platform)
    child = children["llm_only"]
    why = await platform.fetch_json(f"/v1/sessions/{child}/calls/1.1/why")
    (part,) = [each for each in why["parts"] if each["part"]["layer"] == "material"]
    source = part["part"]["source"]
    assert (source["session"], source["turn"], source["input"]) == (session, 1, "material")
    assert [each["event"] for each in part["by"]] == ["turn-submitted"]
    lines = " ".join(await print_why(platform, child, "1.1"))
    assert "input material of the parent" in lines
    assert f"turn 1 of {session}" in lines
    found = await platform.fetch_json("/v1/uses", source=f"turn:{session}/1")
    calls = {(each["session"], each["call"]) for each in found["uses"]}
    assert (child, "1.1") in calls
    by_digest = await platform.fetch_json("/v1/uses", source=compute_digest(MATERIAL))
    direct = {(each["session"], each["call"]) for each in by_digest["uses"] if not each["through"]}
    assert (child, "1.1") in direct
    assert all(name.startswith("child-") for name, _ in direct), "only children refer to it so"


async def unpack(platform: AgentService, session: str, folder: Path) -> Path:
    packed = await platform.http.get(f"/v1/sessions/{session}/export", params={"format": "bundle"})
    with ZipFile(BytesIO(packed.content)) as archive:
        archive.extractall(folder)
    return folder


async def test_bundle_of_parent_or_child_has_the_material_and_a_forged_reference_fails(
    platform: AgentService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session, children = await ask_about_material(platform)
    child = children["llm_only"]
    alone = await unpack(platform, child, tmp_path / "child")
    assert verifier.main(alone, ("--prompt", child, "1.1")) == verifier.EXIT_UNWITNESSED
    assert "The boat leaks." in capsys.readouterr().out
    whole = await unpack(platform, session, tmp_path / "parent")
    assert verifier.main(whole, ()) == verifier.EXIT_UNWITNESSED
    assert (whole / "blobs" / compute_digest(MATERIAL).replace(":", "-")).read_text() == MATERIAL
    capsys.readouterr()
    copy = BundleCopy.read_bundle(whole)
    lines = copy.sessions[child]
    at = next(at for at, line in enumerate(lines, 1) if b"turn-submitted" in line)
    copy.change_event(child, at, lambda event: event["data"]["parent_inputs"][0].update(turn=2))
    copy.rewrite_chain(child)
    copy.rewrite_manifest()
    assert verifier.main(copy.write_bundle(whole), ()) == verifier.EXIT_FAILED
    (line,) = [each for each in capsys.readouterr().out.splitlines() if "FAILED" in each]
    assert line.endswith("refers to input material of its parent's turn 1, not as it is")


async def test_forks_of_parent_and_child_stay_verifiable_and_in_their_bundles(
    platform: AgentService, tmp_path: Path
) -> None:
    session, children = await ask_about_material(platform)
    for each in (session, children["llm_only"]):
        head = (await platform.fetch_json(f"/v1/sessions/{each}"))["sequence"]
        forked = await platform.http.post(f"/v1/sessions/{each}/fork", json={"at": head})
        fork = forked.json()["session"]
        platform.opened_sessions.append(fork)
        report = await platform.fetch_json(f"/v1/sessions/{fork}/verify")
        assert report["verified"], report
        folder = await unpack(platform, fork, tmp_path / fork)
        assert verifier.main(folder, ()) == verifier.EXIT_UNWITNESSED


async def test_withheld_replies_leave_the_material_to_readers_of_parent_and_child_alike(
    platform: AgentService,
) -> None:
    session, children = await ask_about_material(platform)
    child = children["llm_only"]
    for each in (session, child):
        form = {"turn": 1, "reason": "it said a name"}
        answer = await platform.http.post(f"/v1/sessions/{each}/redactions", json=form)
        assert answer.status_code == 200, answer.text
    asked, given = [
        next(
            each["data"]
            for each in (await platform.fetch_json(f"/v1/sessions/{name}/events"))["events"]
            if each["type"] == "turnlog.turn-submitted.v1"
        )
        for name in (session, child)
    ]
    assert asked["inputs"] == {"material": MATERIAL}
    assert given["parent_inputs"][0]["digest"] == compute_digest(MATERIAL)
    await platform.complete_turn(session, text=QUESTION, inputs={"material": MATERIAL})
    assert (await read_all(platform, child, "2.1"))[-1] == f"{MATERIAL}\n\n{THINK}"


async def test_material_beyond_its_limit_fails_the_turn_and_names_the_layer(
    platform: AgentService,
) -> None:
    session = await open_genie(platform)
    turn = await platform.submit_turn(session, text=QUESTION, inputs={"material": "leak " * 4_000})
    assert turn["status"] == "failed", turn
    (failed,) = await platform.load_events(session, TurnFailed)
    assert "material" in failed.detail
    assert await platform.load_events(session, ChildRequested) == []


async def test_masked_material_is_handed_on_as_it_was_recorded(platform: AgentService) -> None:
    folder = platform.copy_shipped_blueprint("uderia", "uderia-guarded")
    file = folder / "blueprint.yaml"
    rule = "policies:\n  input_safety: [{name: cards, check: cards, action: mask}]\n"
    file.write_text(file.read_text().replace("policies:\n", rule, 1))
    platform.provider.choose_behaviour = choose_answer
    session = await platform.open_shipped_session("uderia-guarded", attributes={}, profile="genie")
    await platform.complete_turn(
        session, text=QUESTION, inputs={"material": "Pay with 4111 1111 1111 1111."}
    )
    child = (await add_children(platform, session))["llm_only"]
    (text,) = (await read_all(platform, child, "1.1"))[1:]
    assert "4111" not in text
    assert text.startswith("Pay with ")


async def test_tokens_of_the_material_count_in_the_child_that_reads_it(
    platform: AgentService,
) -> None:
    answer = await platform.http.put("/v1/quotas/ida", json={"requests_per_day": 5})
    assert answer.status_code == 200, answer.text
    session = await open_genie(platform)
    await platform.complete_turn(session, text=QUESTION, user="ida", inputs={"material": MATERIAL})
    children = await add_children(platform, session)
    (given,) = await platform.load_events(children["llm_only"], TurnSubmitted)
    assert given.reservation is not None
    used = [
        call["input_tokens"]
        for each in (session, *children.values())
        for call in await platform.list_calls(each)
    ]
    quota = await platform.fetch_json("/v1/quotas/ida")
    assert (quota["input_tokens"], quota["unsettled_turns"]) == (sum(used), 0)
