"""The audit in a real browser: everything is reachable from the page of a session."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.e2e.browser import (
    CHROMIUM,
    Browser,
    build_click_script,
    build_input_script,
    build_texts_script,
)
from tests.services.gateway.gateway_service import RunningGateway
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(CHROMIUM is None, reason="no `chromium` on PATH"),
]


def open_tab(name: str) -> str:
    return build_click_script(".tabs a", name)


def write_version_two(folder: Path, name: str) -> Path:
    """Write the next version of the assistant, under a name of its own."""
    shutil.copytree(SHIPPED_BLUEPRINTS / "assistant", folder / name, dirs_exist_ok=True)
    file = folder / name / "blueprint.yaml"
    text = file.read_text().replace("blueprint: assistant", f"blueprint: {name}")
    file.write_text(text.replace("version: 1", "version: 2"))
    return folder / name


async def test_auditor_finds_texts_of_a_session_and_their_explanations(
    stand: RunningGateway, browser: Browser
) -> None:
    session = await stand.open_session("assistant")
    await stand.submit_and_answer(session, "Who was it?", "It was Ms. Example.")
    await stand.submit_and_answer(session, "And who else?", "Nobody.")
    await stand.http.put(f"/v1/sessions/{session}/turns/1/exclusion")
    await stand.submit_and_answer(session, "Where was that?", "Here.")
    await browser.open_page(f"{stand.address}/#/sessions/{session}")

    await browser.wait_for(open_tab("Why"))
    await browser.wait_for("document.querySelector('.facts') !== null")
    assert await browser.run_script("location.hash") == f"#/sessions/{session}/calls/3.1/why"
    left_out = await browser.run_script(build_texts_script(".origin p"))
    assert any(line.startswith("turn 1 excluded: event 11 turn-excluded") for line in left_out)

    await browser.wait_for(open_tab("Difference"))
    await browser.wait_for("document.querySelector('.change') !== null")
    assert await browser.run_script("location.hash") == f"#/sessions/{session}/calls/2.1/diff/3.1"
    changes = await browser.run_script(build_texts_script(".change .sign"))
    assert changes == ["\N{MINUS SIGN}", "+", "~"]
    first = await browser.run_script("document.querySelector('.change p').textContent")
    assert first.startswith("excluded: event 11 turn-excluded")

    await browser.trigger_click(".change p a")
    await browser.wait_for("document.querySelector('.detail pre') !== null")
    assert await browser.run_script("location.hash") == f"#/sessions/{session}/events/11"
    await browser.trigger_click(".detail .links a")
    await browser.wait_for("document.querySelector('.past strong')?.textContent === 'event 11'")
    await browser.wait_for(f"{build_texts_script('.bubble')}.length === 4")
    assert await browser.run_script(build_texts_script(".turn .badge")) == ["excluded"]
    await browser.run_script(build_input_script(".past input", 7, "input"))
    await browser.wait_for("document.querySelector('.past strong')?.textContent === 'event 7'")
    await browser.trigger_click(".past .now")
    await browser.wait_for("document.querySelector('.composer') !== null")

    links = await browser.run_script(
        "[...document.querySelectorAll('.exports a')].map((each) => each.href)"
    )
    assert len(links) == 4
    for link in (each for each in links if "parquet" not in each):
        assert (await stand.http.get(link)).status_code == 200, link


async def test_source_of_a_prompt_leads_to_the_calls_that_used_it(
    stand: RunningGateway, browser: Browser
) -> None:
    session = await stand.open_session("assistant")
    for text in ("Who was it?", "And who else?"):
        await stand.submit_and_answer(session, text, "Ms. Example.")
    await browser.open_page(f"{stand.address}/#/sessions/{session}/calls/2.1")
    await browser.wait_for(build_click_script(".passage .margin a", "uses"))
    await browser.wait_for("document.querySelector('.usage tbody') !== null")
    assert await browser.run_script("location.hash") == (f"#/uses?source=turn%3A{session}%2F1")
    cells = await browser.run_script(build_texts_script(".usage tbody td"))
    assert [cell for cell in cells if "call" in cell] == [
        "call 1.1 → the reply of turn 1",
        "call 2.1 → the reply of turn 2",
    ]
    await browser.run_script(build_input_script(".usage input", "segment:9", "input"))
    await browser.trigger_click(".usage form button")
    await browser.wait_for("document.querySelector('.usage .empty') !== null")


async def test_calls_of_another_session_are_compared_by_entering_its_id(
    stand: RunningGateway, browser: Browser
) -> None:
    one = await stand.open_session("assistant", attributes={"instructions": "Prefer miles."})
    await stand.open_session(
        "assistant", session="other", attributes={"instructions": "Prefer metres."}
    )
    for session in (one, "other"):
        await stand.submit_and_answer(session, "How far is it?", "Ten.")
    await browser.open_page(f"{stand.address}/#/sessions/{one}/calls/1.1/diff/1.1")
    await browser.wait_for("document.querySelector('.sum')?.textContent === 'identical requests'")
    await browser.run_script(build_input_script(".pick input", "other", "change"))
    await browser.wait_for(f"{build_texts_script('.change .layer')}.join() === 'instructions'")
    assert (
        await browser.run_script("location.hash")
        == f"#/sessions/{one}/calls/1.1/diff/1.1?other=other"
    )


@pytest.mark.slow("it drives a browser on a service of its own")
async def test_what_if_with_a_smaller_budget_shows_its_effects_and_has_an_address(
    stand: RunningGateway, browser: Browser
) -> None:
    session = await stand.open_session("assistant")
    await stand.submit_and_answer(session, "Tell me about boats.", "They float. " * 40)
    await stand.submit_and_answer(session, "Go on.", "They sink.")
    await browser.open_page(f"{stand.address}/#/sessions/{session}")
    await browser.wait_for(open_tab("What if"))
    await browser.wait_for("document.querySelector('.pick [type=number]') !== null")
    await browser.run_script(build_input_script(".pick [type=number]", 150, "input"))
    await browser.trigger_click(".pick [type=submit]")
    await browser.wait_for("document.querySelector('.exact') !== null")
    assert await browser.run_script("location.hash") == f"#/sessions/{session}/what-if?budget=150"
    assert "exact for context, not for behaviour" in (await read_exact_prompt(browser)).lower()
    await browser.open_page(f"{stand.address}/#/sessions/{session}/what-if?budget=150")
    await browser.wait_for("document.querySelector('.exact') !== null")
    cells = await browser.run_script(build_texts_script(".plain tbody td"))
    assert cells == ["history", "cut", "drop_oldest_pairs", "1", "1"]
    assert await browser.run_script(build_texts_script(".origin h3 a")) == ["call 2.1"]
    assert await browser.run_script(build_texts_script(".origin p")) == [
        "turn 1 cut by drop_oldest_pairs"
    ]


async def read_exact_prompt(browser: Browser) -> str:
    return str(await browser.run_script("document.querySelector('.exact').textContent"))


async def test_what_if_accepts_the_folder_of_another_version(
    stand: RunningGateway, browser: Browser, tmp_path: Path
) -> None:
    session = await stand.open_session("assistant")
    await stand.submit_and_answer(session, "Who are you?", "An assistant.")
    folder = tmp_path / "assistant"
    shutil.copytree(SHIPPED_BLUEPRINTS / "assistant", folder)
    (folder / "persona.md").write_text("You are brief.\n")
    (folder / "picture.png").write_bytes(b"\x89PNG\xff")
    await browser.open_page(f"{stand.address}/#/sessions/{session}/what-if")
    await browser.wait_for("document.querySelector('.pick [type=file]') !== null")
    field = await browser.send_command(
        "Runtime.evaluate", expression="document.querySelector('.pick [type=file]')"
    )
    chosen = {"files": [str(folder)], "objectId": field["result"]["objectId"]}
    await browser.send_command("DOM.setFileInputFiles", **chosen)
    await browser.wait_for(f"{build_texts_script('.pick button')}.includes('blueprint assistant')")
    await browser.trigger_click(".pick [type=submit]")
    await browser.wait_for("document.querySelector('.exact') !== null")
    cells = await browser.run_script(build_texts_script(".plain tbody td"))
    assert cells == ["persona", "changed", "", "1", "1"]


async def test_growth_is_shown_call_by_call(stand: RunningGateway, browser: Browser) -> None:
    session = await stand.open_session("assistant")
    for _ in range(2):
        await stand.submit_and_answer(session, "Who are you?", "An assistant.")
    await browser.open_page(f"{stand.address}/#/sessions/{session}")
    await browser.wait_for(open_tab("Growth"))
    await browser.wait_for("document.querySelector('.ledger .strip') !== null")
    assert await browser.run_script(build_texts_script(".ledger tbody a")) == ["1.1", "2.1"]
    growth = await stand.fetch_json("/v1/growth", session=session)
    tokens = [str(call["tokens"]) for call in growth["calls"]]
    assert await browser.run_script(build_texts_script(".ledger .right")) == tokens
    (summary,) = await browser.run_script(build_texts_script(".ledger h2"))
    assert "history grows by" in summary
    await browser.show_as("light", 390, 844)
    assert await browser.run_script("document.querySelector('.ledger .bar').clientWidth") > 300
    await browser.show_as_opened()

    at = (await stand.fetch_json(f"/v1/sessions/{session}"))["sequence"]
    forked = await stand.http.post(f"/v1/sessions/{session}/fork", json={"at": at})
    await browser.open_page(f"{stand.address}/#/sessions/{forked.json()['session']}/growth")
    await browser.wait_for("document.querySelector('.ledger .strip') !== null")
    (summary,) = await browser.run_script(build_texts_script(".ledger h2"))
    assert summary.startswith("2 calls 2 copied from the original")
    rows = await browser.run_script(build_texts_script(".ledger tbody tr td:nth-child(2)"))
    assert rows == ["reply copied", "reply copied"]


@pytest.mark.slow("it drives a browser on a service of its own")
async def test_proof_tab_shows_the_verdict_of_each_check(
    stand: RunningGateway, browser: Browser
) -> None:
    session = await stand.open_session("assistant")
    await stand.submit_and_answer(session, "Hi", "Hello.")
    await browser.open_page(f"{stand.address}/#/sessions/{session}")
    await browser.wait_for(open_tab("Proof"))
    await browser.wait_for("document.querySelector('.promises') !== null")
    verdicts = dict(
        zip(
            await browser.run_script(build_texts_script(".promises strong")),
            await browser.run_script(build_texts_script(".promises dt")),
            strict=True,
        )
    )
    proven = {"integrity": "✓", "completeness": "\N{EN DASH}", "reproduction": "✓", "totals": "✓"}
    assert verdicts == proven
    verified = await stand.fetch_json(f"/v1/sessions/{session}/verify")
    assert (
        await browser.run_script("document.querySelector('.digest').textContent")
        == verified["head"]
    )
    await stand.http.post(f"/v1/sessions/{session}/close", json={})
    await browser.wait_for("document.querySelector('.verify').textContent === 'verify'")
    await browser.trigger_click(".verify")
    await browser.wait_for(
        "document.querySelector('.verify').textContent === '✓ 7 events, 1 prompt'"
    )


@pytest.mark.slow("it drives a browser on a service of its own")
async def test_session_is_forked_at_the_event_shown(
    stand: RunningGateway, browser: Browser
) -> None:
    session = await stand.open_session("assistant", session="forked")
    await stand.submit_and_answer(session, "Left or right?", "Left.")
    await stand.submit_and_answer(session, "And then?", "You are lost.")
    await browser.open_page(f"{stand.address}/#/sessions/{session}/at/6")
    await browser.trigger_click(".past .fork")
    await browser.wait_for(
        "document.querySelector('.name .id a')?.textContent === 'forked, event 6'"
    )
    made = (await browser.run_script("location.hash")).removeprefix("#/sessions/")
    history = await stand.fetch_json(f"/v1/sessions/{made}/history")
    assert [turn["reply"] for turn in history["turns"]] == ["Left."]
    await browser.open_page(f"{stand.address}/#/sessions/{session}")
    await browser.trigger_click(".name .id a")
    await browser.wait_for(f"{build_texts_script('.list .id')}.join() === '{made}'")
    assert await browser.run_script("location.hash") == "#/sessions?origin=forked"
    # In the middle of a turn nothing can be forked, and it is said why; the browser notes the 409
    await browser.open_page(f"{stand.address}/#/sessions/{session}/at/2")
    await browser.trigger_click(".past .fork")
    assert "open" in await browser.wait_for("document.querySelector('.past .fault').textContent")
    browser.events.clear()


@pytest.mark.slow("it drives a browser on a service of its own")
async def test_session_is_moved_to_the_version_shown(
    stand: RunningGateway, browser: Browser, tmp_path: Path
) -> None:
    folder = write_version_two(tmp_path, "moving")
    stand.parts.blueprint_folders.folders = (
        tmp_path,
        *stand.parts.blueprint_folders.folders,
    )
    session = await stand.open_session("moving")
    file = folder / "blueprint.yaml"
    file.write_text(file.read_text().replace("version: 2", "version: 3"))
    await browser.open_page(f"{stand.address}/#/sessions/{session}")
    await browser.wait_for(open_tab("Version"))
    await browser.wait_for(build_click_script(".version button", "Move to the files, v3"))
    await browser.wait_for(
        "document.querySelector('.version .verdict')?.textContent.includes('v3')"
    )
    await browser.wait_for(f"{build_texts_script('.head dd')}[0] === 'moving v3'")
    assert (await stand.fetch_json(f"/v1/sessions/{session}"))["version"] == 3
    await browser.wait_for("document.querySelector('.version button') === null")
    await browser.wait_for(f"{build_texts_script('.version .badge')}.join() === 'this session'")
    await browser.trigger_click(".version .number a")
    await browser.wait_for(f"{build_texts_script('.list .id')}.join() === '{session}'")


@pytest.mark.slow("twelve turns, until the second prompt after a cut")
async def test_why_says_which_cut_is_kept_and_until_when(
    stand: RunningGateway, browser: Browser
) -> None:
    session = await stand.open_session("cutting")
    for turn in range(1, 13):
        await stand.submit_and_answer(session, f"{turn:010}", "r" * 10)
    await browser.open_page(f"{stand.address}/#/sessions/{session}/calls/12.1/why")
    await browser.wait_for("document.querySelector('.facts') !== null")
    words = str(await browser.run_script("document.querySelector('main').innerText")).split()
    kept = "turns up to 3 cut by call 11.1, stay out until 200 are exceeded"
    assert kept in " ".join(words)
