"""Erased words: no file, row or answer has them, and everything else is whole and reproduces."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from tests.agent_programs.agent_service import answer_with_text
from tests.e2e.test_sealed_sessions import (
    answer_with_picture,
    list_files_with,
    read_blob,
    run_media_turn,
    run_verifier,
)
from tests.services.media.media_samples import PNG
from tests.support.processes.turnlog_up import TurnlogUp
from tests.support.servers.openai_server import OpenAIServer
from turnlog.services.bundle.bundle_unpacking import unpack_bundle

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("a service starts"),
]

SECRET = "qvxsecret"


async def run_turns(up: TurnlogUp, provider: OpenAIServer, *texts: str) -> str:
    """Open a session of the shipped `uderia` and run a turn with each text."""
    session = await up.service.open_session("uderia")
    await add_turns(up, provider, session, *texts)
    return session


async def add_turns(up: TurnlogUp, provider: OpenAIServer, session: str, *texts: str) -> None:
    for text in texts:
        provider.queue_behaviours(answer_with_text(f"I heard: {text}"))
        turn = await up.service.run_turn(session, text)
        assert turn["status"] == "completed", turn


async def erase(up: TurnlogUp, session: str, **form: object) -> dict[str, Any]:
    body = {"reason": "request 4711", **form}
    answer = await up.service.http.post(f"/v1/sessions/{session}/erasures", json=body)
    assert answer.is_success, answer.text
    return dict(answer.json())


async def test_erased_turn_is_in_no_file_and_no_answer_and_the_rest_reproduces(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    service = sealed_up.service
    texts = ("the tide", f"my name is {SECRET}", "the berth", "the crew")
    session = await run_turns(sealed_up, provider, *texts)
    plan = await erase(sealed_up, session, turn=2, dry_run=True)
    assert plan["status"] == "planned"
    receipt = await erase(sealed_up, session, turn=2)
    assert receipt["status"] == "erased", receipt
    assert receipt["at"] <= receipt["sessions"][0]["ended_at"]
    assert receipt["sessions"][0]["calls"] == plan["sessions"][0]["calls"] == ["2.1", "3.1", "4.1"]
    history = await service.get_json(f"/v1/sessions/{session}/history")
    assert [turn["text"] for turn in history["turns"]] == [
        "the tide",
        "[erased]",
        "the berth",
        "the crew",
    ]
    await add_turns(sealed_up, provider, session, "the wind")
    assert "[erased]" in str(provider.exchanges[-1].body["messages"])
    report = await service.get_json(f"/v1/sessions/{session}/verify")
    assert (report["verified"], report["reproduction"]) == (True, "erased"), report
    events = await service.get_json(f"/v1/sessions/{session}/events", stored="true")
    assert SECRET not in str(events)


async def test_erased_picture_and_result_are_read_by_nobody_and_the_bundle_verifies(
    sealed_up: TurnlogUp, provider: OpenAIServer, tmp_path: Path
) -> None:
    service = sealed_up.service
    session = await service.open_session("assistant")
    pictures = [PNG + f"{SECRET} {number}".encode() for number in range(2)]
    for picture in pictures:
        provider.queue_behaviours(answer_with_picture("Here.", picture))
        part = {"type": "image", "data": b64encode(picture).decode()}
        await run_media_turn(sealed_up, session, part)
    turns = (await service.get_json(f"/v1/sessions/{session}/history"))["turns"]
    digests = [(turn["parts"][0]["digest"], turn["reply_parts"][0]["digest"]) for turn in turns]
    assert {await read_blob(sealed_up, each) for each in digests[1]} == {pictures[1]}
    receipt = await erase(sealed_up, session, turn=2)
    assert receipt["status"] == "erased", receipt
    for digest in digests[1]:
        gone = await service.http.get(f"/v1/blobs/{digest}")
        assert gone.json()["code"] == "unknown-blob", gone.text
    assert {await read_blob(sealed_up, each) for each in digests[0]} == {pictures[0]}
    provider.queue_behaviours(answer_with_text("Well."))
    await service.run_turn(session, "And now?")
    sent = str(provider.exchanges[-1].body)
    held = [b64encode(each).decode() in sent for each in pictures]
    assert held == [True, False]
    report = await service.get_json(f"/v1/sessions/{session}/verify")
    assert (report["verified"], report["reproduction"]) == (True, "erased"), report
    exported = await service.http.get(f"/v1/sessions/{session}/export?format=bundle")
    packed, folder = tmp_path / "bundle.zip", tmp_path / "bundle"
    packed.write_bytes(exported.content)
    unpack_bundle(packed, folder)
    assert run_verifier(folder) == (6, "UNWITNESSED")


async def test_erased_session_has_no_words_left_and_its_forks_have_none_either(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    service = sealed_up.service
    session = await run_turns(sealed_up, provider, f"{SECRET} one", "two")
    end = (await service.get_json(f"/v1/sessions/{session}"))["sequence"]
    forked = await service.http.post(f"/v1/sessions/{session}/fork", json={"at": end})
    fork = forked.json()["session"]
    await add_turns(sealed_up, provider, fork, "three")
    receipt = await erase(sealed_up, session)
    assert receipt["status"] == "erased", receipt
    assert [each["session"] for each in receipt["sessions"]] == [session, fork]
    for each in (session, fork):
        history = await service.get_json(f"/v1/sessions/{each}/history")
        assert {turn["text"] for turn in history["turns"]} == {None}
        report = await service.get_json(f"/v1/sessions/{each}/verify")
        assert (report["verified"], report["reproduction"]) == (True, "erased"), report["findings"]
        refused = await service.http.post(f"/v1/sessions/{each}/turns", json={"text": "four"})
        assert refused.json()["code"] == "session-closed"
    database = sealed_up.ready_file.parent
    listed = (await service.http.get("/v1/sessions")).json()["sessions"]
    assert SECRET not in str(listed)
    for method, path, body in (
        ("PATCH", "", {"title": "x"}),
        ("POST", "/redactions", {"turn": 1, "reason": "r"}),
        ("POST", "/turns/1/feedback", {"vote": "up"}),
        ("PUT", "/shares/bob", {"access": "read"}),
        ("POST", "/fork", {"at": end}),
    ):
        refused = await service.http.request(method, f"/v1/sessions/{session}{path}", json=body)
        assert refused.json()["code"] == "already-erased", refused.text
    for path in ("/window", "/memory", "/calls/1.1/proof"):
        gone = await service.http.get(f"/v1/sessions/{session}{path}")
        assert (gone.status_code, gone.json()["code"]) == (410, "erased"), gone.text
    del database


async def test_fork_of_an_erased_turn_shows_what_stands_instead_and_its_prompts_reproduce(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    service = sealed_up.service
    session = await run_turns(sealed_up, provider, f"{SECRET} one", "two")
    end = (await service.get_json(f"/v1/sessions/{session}"))["sequence"]
    forked = await service.http.post(f"/v1/sessions/{session}/fork", json={"at": end})
    fork = forked.json()["session"]
    await add_turns(sealed_up, provider, fork, "three")
    refused = await service.http.post(
        f"/v1/sessions/{fork}/erasures", json={"turn": 1, "reason": "request"}
    )
    assert refused.json()["code"] == "copied-turn"
    receipt = await erase(sealed_up, session, turn=1)
    assert receipt["status"] == "erased", receipt
    assert [each["session"] for each in receipt["sessions"]] == [session, fork]
    assert [each["calls"] for each in receipt["sessions"]] == [
        ["1.1", "2.1"],
        ["1.1", "2.1", "3.1"],
    ]
    await add_turns(sealed_up, provider, fork, "four")
    sent = str(provider.exchanges[-1].body["messages"])
    assert SECRET not in sent
    assert "[erased]" in sent
    for each in (session, fork):
        report = await service.get_json(f"/v1/sessions/{each}/verify")
        assert (report["verified"], report["reproduction"]) == (True, "erased"), report
    early = await service.http.post(f"/v1/sessions/{session}/fork", json={"at": end})
    assert early.json()["code"] == "erased-since"


async def test_replies_of_turns_that_saw_the_words_go_on_request(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    texts = ("one", f"two {SECRET}", "three", "four")
    session = await run_turns(sealed_up, provider, *texts)
    plan = await erase(sealed_up, session, turn=2, dry_run=True)
    assert plan["sessions"][0]["repeating_turns"] == [3, 4]
    text = await erase(sealed_up, session, turn=2, of="text", dry_run=True)
    assert text["sessions"][0]["repeating_turns"] == [2, 3, 4], "its own reply stays too"
    receipt = await erase(sealed_up, session, turn=2, with_replies=True)
    assert receipt["sessions"][0]["turns"] == [
        {"turn": 2, "of": "turn"},
        {"turn": 3, "of": "work"},
        {"turn": 4, "of": "work"},
    ]
    history = await sealed_up.service.get_json(f"/v1/sessions/{session}/history")
    assert [turn["reply"] for turn in history["turns"]] == ["I heard: one", *["[erased]"] * 3]
    assert [turn["text"] for turn in history["turns"]] == ["one", "[erased]", "three", "four"]


async def test_turn_and_session_that_are_deleted_are_erased(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    http = sealed_up.service.http
    session = await run_turns(sealed_up, provider, f"{SECRET} one", "two")
    path = f"/v1/sessions/{session}"
    unexplained = await http.delete(f"{path}/turns/1")
    assert (unexplained.status_code, unexplained.json()["field"]) == (422, "reason")
    plan = await http.delete(f"{path}/turns/1", params={"reason": "request", "dry_run": True})
    assert plan.json()["status"] == "planned", plan.text
    text = await http.delete(f"{path}/turns/1", params={"reason": "request", "of": "text"})
    assert text.json()["sessions"][0]["turns"] == [{"turn": 1, "of": "text"}], text.text
    history = await sealed_up.service.get_json(f"{path}/history")
    assert [turn["text"] for turn in history["turns"]] == ["[erased]", "two"]
    keyed = {"Idempotency-Key": "once"}
    deleted = [
        await http.delete(path, params={"reason": "request"}, headers=keyed) for _ in range(2)
    ]
    for whole in deleted:
        assert (whole.status_code, whole.json()["status"]) == (200, "erased"), whole.text
    assert deleted[0].json()["sessions"][0]["turns"] == []
    assert (await sealed_up.service.get_json(path))["closed"]


async def test_what_cannot_be_erased_is_refused_with_the_way_out(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    service = sealed_up.service
    session = await run_turns(sealed_up, provider, "one")
    for form, code in (
        ({"turn": 9}, "unknown-turn"),
        ({"turn": 9, "dry_run": True}, "unknown-turn"),
        ({"turn": 0}, "invalid"),
        ({"of": "all"}, "invalid"),
        ({"reason": ""}, "invalid"),
    ):
        body = {"reason": "request", **form}
        refused = await service.http.post(f"/v1/sessions/{session}/erasures", json=body)
        assert refused.json()["code"] == code, refused.text
    assert (await erase(sealed_up, session))["status"] == "erased"
    again = await service.http.post(f"/v1/sessions/{session}/erasures", json={"reason": "again"})
    assert again.json()["code"] == "already-erased"


async def test_no_file_of_the_service_has_erased_words_in_the_clear(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    marker = "qvxeverywhere"
    form = {
        "blueprint": "uderia",
        "title": f"{marker} title",
        "labels": [f"{marker}-label"],
        "metadata": {"note": f"{marker} note"},
    }
    opened = await sealed_up.service.http.post("/v1/sessions", json=form)
    session = str(opened.json()["session"])
    await add_turns(sealed_up, provider, session, f"{marker} question")
    folder = sealed_up.ready_file.parent
    assert any(list_files_with(folder, marker.encode())), "the rows have the title"
    assert (await erase(sealed_up, session))["status"] == "erased"
    assert list(list_files_with(folder, marker.encode())) == []


async def test_user_is_erased_in_sessions_of_their_own_and_in_turns_of_others(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    http = sealed_up.service.http
    opened = await http.post("/v1/sessions", json={"blueprint": "uderia", "user": "ann"})
    own = str(opened.json()["session"])
    await add_turns(sealed_up, provider, own, f"{SECRET} of ann")
    shared = await run_turns(sealed_up, provider, "of bob")
    provider.queue_behaviours(answer_with_text("I heard ann"))
    asked = {"text": f"{SECRET} asks", "user": "ann"}
    turn = await http.post(f"/v1/sessions/{shared}/turns?wait=30", json=asked)
    assert turn.json()["status"] == "completed", turn.text
    form = {"user": "ann", "reason": "request 4711"}
    plan = (await http.post("/v1/erasures", json={**form, "dry_run": True})).json()
    assert [each["session"] for each in plan["receipts"]] == [own, shared]
    done = (await http.post("/v1/erasures", json=form)).json()
    assert [each["status"] for each in done["receipts"]] == ["erased", "erased"], done
    assert done["skipped"] == []
    history = await sealed_up.service.get_json(f"/v1/sessions/{shared}/history")
    assert [each["text"] for each in history["turns"]] == ["of bob", "[erased]"]
    for session in (own, shared):
        report = await sealed_up.service.get_json(f"/v1/sessions/{session}/verify")
        assert (report["verified"], report["reproduction"]) == (True, "erased"), report["findings"]


async def test_bundle_of_an_erased_turn_verifies_and_lacks_no_other_key(
    sealed_up: TurnlogUp, provider: OpenAIServer, tmp_path: Path
) -> None:
    session = await run_turns(sealed_up, provider, "one", f"two {SECRET}", "three")
    before = await sealed_up.service.http.get(f"/v1/sessions/{session}/export?format=bundle")
    await erase(sealed_up, session, turn=2)
    after = await sealed_up.service.http.get(f"/v1/sessions/{session}/export?format=bundle")
    for name, packed in (("before", before.content), ("after", after.content)):
        (tmp_path / f"{name}.zip").write_bytes(packed)
        unpack_bundle(tmp_path / f"{name}.zip", tmp_path / name)
        assert run_verifier(tmp_path / name) == (6, "UNWITNESSED"), name
    manifest = tmp_path / "after/manifest.json"
    listed: dict[str, Any] = json.loads(manifest.read_bytes())
    keys = listed["sessions"][0]["keys"]
    del keys[min(keys, key=int)]
    manifest.write_text(json.dumps(listed))
    assert run_verifier(tmp_path / "after") == (5, "NOT VERIFIED")
