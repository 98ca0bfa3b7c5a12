"""Cuts that last, over HTTP: a session at its limit is cut seldom, and the log says why."""

from __future__ import annotations

from typing import Any

import pytest

from tests.services.gateway.gateway_service import RunningGateway
from tests.support.processes.service_connection import connect_service
from turnlog.services.cli.actions.prompt_explanations import print_diff, print_explanation

TURNS = 15
"""Of a prompt of `cutting`: 9 tokens of the persona, 20 a turn and 10 of the question."""

CUTS = [11, 14]
"""The eleventh turn is one too many: 219 tokens, and 159 without the oldest three."""


async def run_turns(stand: RunningGateway, session: str, turns: range) -> None:
    for turn in turns:
        await stand.submit_and_answer(session, f"{turn:010}", "r" * 10)


async def fetch_manifest(stand: RunningGateway, session: str, turn: int) -> dict[str, Any]:
    prompt = await stand.fetch_json(f"/v1/sessions/{session}/calls/{turn}.1/prompt")
    assert prompt["verified"]
    return dict(prompt["manifest"])


async def test_session_at_its_limit_is_cut_seldom_and_keeps_its_prefix_between_cuts(
    stand: RunningGateway,
) -> None:
    session = await stand.open_session("cutting")
    await run_turns(stand, session, range(1, TURNS + 1))
    ended = dict[int, str | None]()
    for turn in range(2, TURNS + 1):
        manifest = await fetch_manifest(stand, session, turn)
        assert manifest["tokens"] <= 200
        ended[turn] = manifest["prefix"].get("ended_by")
    assert [turn for turn, layer in ended.items() if layer] == CUTS
    assert (await stand.fetch_json(f"/v1/sessions/{session}/verify"))["verified"]


async def test_why_and_diff_name_the_call_whose_cut_is_kept(
    stand: RunningGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    session = await stand.open_session("cutting")
    await run_turns(stand, session, range(1, 13))
    path = f"/v1/sessions/{session}"
    explained = await stand.fetch_json(f"{path}/turns/12/why")
    (step,) = explained["steps"]
    assert (step["step"], step["on"]) == ("drop_oldest_pairs", "recent")
    assert (step["limit"], step["through"], step["since"]) == (200, 3, "11.1")
    removed = [each for part in explained["parts"] for each in part["removed"]]
    made = await stand.fetch_json(f"{path}/calls/11.1/why")
    dropped = [each for each in removed if each["rule"] == "drop_oldest_pairs"]
    assert {each["by"]["sequence"] for each in dropped} == {made["fixed"]["sequence"]}
    assert {each["last"] for each in dropped} == {3}
    service = connect_service(stand.http)
    await print_explanation(service, session, "12", "table")
    words = " ".join(capsys.readouterr().out.split())
    assert "turns up to 3 cut by call 11.1, stay out until 200 are exceeded" in words
    await print_explanation(service, session, "11", "table")
    words = " ".join(capsys.readouterr().out.split())
    assert "of 200; turns up to 3 stay out until 200 are exceeded" in words
    found = await stand.fetch_json(f"{path}/calls/10.1/diff/12.1")
    gone = [each for each in found["changes"] if each["what"] == "removed"]
    assert [(each["first"], each["last"]) for each in gone] == [(1, 1), (2, 3)]
    reasons = [[each["what"] for each in change["because"]] for change in gone]
    assert reasons == [["limit"], ["cut"]], "the state of a session has no turn beyond its limit"
    await print_diff(service, session, ("10.1", "12.1"), None, "table")
    assert "an earlier call's cut lasts" in capsys.readouterr().out


async def test_preview_fork_and_origin_have_the_same_cut(stand: RunningGateway) -> None:
    session = await stand.open_session("cutting")
    await run_turns(stand, session, range(1, 12))
    at = (await stand.fetch_json(f"/v1/sessions/{session}"))["sequence"]
    answer = await stand.http.post(f"/v1/sessions/{session}/fork", json={"at": at})
    fork = str(answer.json()["session"])
    form = {"text": f"{12:010}"}
    preview = (await stand.http.post(f"/v1/sessions/{session}/window", json=form)).json()
    for each in (session, fork):
        await run_turns(stand, each, range(12, 14))
        manifest = await fetch_manifest(stand, each, 12)
        assert manifest["digest"] == preview["manifest"]["digest"]
        assert manifest["steps"] == preview["manifest"]["steps"]
        assert [step["since"] for step in manifest["steps"]] == ["11.1"]
        assert (await stand.fetch_json(f"/v1/sessions/{each}/verify"))["verified"]


async def test_what_happens_between_the_calls_leaves_the_session_verifiable(
    stand: RunningGateway,
) -> None:
    session = await stand.open_session("cutting")
    await run_turns(stand, session, range(1, 12))
    path = f"/v1/sessions/{session}"
    await stand.http.put(f"{path}/turns/9/exclusion")
    form = {"turn": 10, "reason": "not ours to say"}
    await stand.http.post(f"{path}/redactions", json=form)
    await run_turns(stand, session, range(12, 14))
    await stand.http.put(f"{path}/turns/2/exclusion")
    await run_turns(stand, session, range(14, 15))
    await stand.http.delete(f"{path}/turns/2/exclusion")
    await run_turns(stand, session, range(15, 17))
    assert (await stand.fetch_json(f"{path}/verify"))["verified"]
