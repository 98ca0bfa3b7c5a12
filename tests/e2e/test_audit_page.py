"""The audit in a real browser: everything is reachable from the page of a session."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.e2e.browser import CHROMIUM, Browser, clicked, texts, typed
from tests.services.gateway.stand import Stand
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(CHROMIUM is None, reason="no `chromium` on PATH"),
]


def tab(name: str) -> str:
    return clicked(".tabs a", name)


def version_two(folder: Path, name: str) -> Path:
    """Write the next version of the assistant, under a name of its own."""
    shutil.copytree(SHIPPED_BLUEPRINTS / "assistant", folder / name, dirs_exist_ok=True)
    file = folder / name / "blueprint.yaml"
    said = file.read_text().replace("blueprint: assistant", f"blueprint: {name}")
    file.write_text(said.replace("version: 1", "version: 2"))
    return folder / name


async def test_an_auditor_finds_what_was_said_and_why(stand: Stand, browser: Browser) -> None:
    session = await stand.open("assistant")
    await stand.say(session, "Who was it?", "It was Ms. Example.")
    await stand.say(session, "And who else?", "Nobody.")
    await stand.http.put(f"/v1/sessions/{session}/turns/1/exclusion")
    await stand.say(session, "Where was that?", "Here.")
    await browser.open(f"{stand.address}/#/sessions/{session}")

    await browser.until(tab("Why"))
    await browser.until("document.querySelector('.facts') !== null")
    assert await browser.run("location.hash") == f"#/sessions/{session}/calls/3.1/why"
    left_out = await browser.run(texts(".origin p"))
    assert any(line.startswith("turn 1 excluded: event 15 turn-excluded") for line in left_out)

    await browser.until(tab("Difference"))
    await browser.until("document.querySelector('.change') !== null")
    assert await browser.run("location.hash") == f"#/sessions/{session}/calls/2.1/diff/3.1"
    changes = await browser.run(texts(".change .sign"))
    assert changes == ["\N{MINUS SIGN}", "+", "~"]
    first = await browser.run("document.querySelector('.change p').textContent")
    assert first.startswith("excluded: event 15 turn-excluded")

    await browser.click(".change p a")
    await browser.until("document.querySelector('.detail pre') !== null")
    assert await browser.run("location.hash") == f"#/sessions/{session}/events/15"
    await browser.click(".detail .links a")
    await browser.until("document.querySelector('.past strong')?.textContent === 'event 15'")
    await browser.until(f"{texts('.bubble')}.length === 4")
    assert await browser.run(texts(".turn .badge")) == ["excluded"]
    await browser.run(typed(".past input", 9, "input"))
    await browser.until("document.querySelector('.past strong')?.textContent === 'event 9'")
    await browser.click(".past .now")
    await browser.until("document.querySelector('.composer') !== null")

    links = await browser.run(
        "[...document.querySelectorAll('.exports a')].map((each) => each.href)"
    )
    assert len(links) == 4
    for link in (each for each in links if "parquet" not in each):
        assert (await stand.http.get(link)).status_code == 200, link


async def test_calls_of_another_session_are_compared_by_typing_its_id(
    stand: Stand, browser: Browser
) -> None:
    one = await stand.open("assistant", attributes={"instructions": "Prefer miles."})
    await stand.open("assistant", session="other", attributes={"instructions": "Prefer metres."})
    for session in (one, "other"):
        await stand.say(session, "How far is it?", "Ten.")
    await browser.open(f"{stand.address}/#/sessions/{one}/calls/1.1/diff/1.1")
    await browser.until("document.querySelector('.sum')?.textContent === 'the very same request'")
    await browser.run(typed(".pick input", "other", "change"))
    await browser.until(f"{texts('.change .layer')}.join() === 'instructions'")
    assert await browser.run("location.hash") == f"#/sessions/{one}/calls/1.1/diff/1.1?other=other"


async def test_a_smaller_budget_is_supposed_and_can_be_sent_on(
    stand: Stand, browser: Browser
) -> None:
    session = await stand.open("assistant")
    await stand.say(session, "Tell me about boats.", "They float. " * 40)
    await stand.say(session, "Go on.", "They sink.")
    await browser.open(f"{stand.address}/#/sessions/{session}")
    await browser.until(tab("What if"))
    await browser.until("document.querySelector('.pick [type=number]') !== null")
    await browser.run(typed(".pick [type=number]", 150, "input"))
    await browser.click(".pick [type=submit]")
    await browser.until("document.querySelector('.exact') !== null")
    assert await browser.run("location.hash") == f"#/sessions/{session}/what-if?budget=150"
    assert "exact for context, not for behaviour" in (await exactly(browser)).lower()
    await browser.open(f"{stand.address}/#/sessions/{session}/what-if?budget=150")
    await browser.until("document.querySelector('.exact') !== null")
    cells = await browser.run(texts(".plain tbody td"))
    assert cells == ["history", "cut", "drop_oldest_pairs", "1", "1"]
    assert await browser.run(texts(".origin h3 a")) == ["call 2.1"]
    assert await browser.run(texts(".origin p")) == ["turn 1 cut by drop_oldest_pairs"]


async def exactly(browser: Browser) -> str:
    return str(await browser.run("document.querySelector('.exact').textContent"))


async def test_the_folder_of_another_version_is_brought_along(
    stand: Stand, browser: Browser, tmp_path: Path
) -> None:
    session = await stand.open("assistant")
    await stand.say(session, "Who are you?", "An assistant.")
    folder = tmp_path / "assistant"
    shutil.copytree(SHIPPED_BLUEPRINTS / "assistant", folder)
    (folder / "persona.md").write_text("You are brief.\n")
    (folder / "picture.png").write_bytes(b"\x89PNG\xff")
    await browser.open(f"{stand.address}/#/sessions/{session}/what-if")
    await browser.until("document.querySelector('.pick [type=file]') !== null")
    field = await browser.ask(
        "Runtime.evaluate", expression="document.querySelector('[type=file]')"
    )
    chosen = {"files": [str(folder)], "objectId": field["result"]["objectId"]}
    await browser.ask("DOM.setFileInputFiles", **chosen)
    await browser.until(f"{texts('.pick button')}.includes('blueprint assistant')")
    await browser.click(".pick [type=submit]")
    await browser.until("document.querySelector('.exact') !== null")
    cells = await browser.run(texts(".plain tbody td"))
    assert cells == ["persona", "changed", "", "1", "1"]


async def test_growth_is_drawn_call_by_call(stand: Stand, browser: Browser) -> None:
    session = await stand.open("assistant")
    for _ in range(2):
        await stand.say(session, "Who are you?", "An assistant.")
    await browser.open(f"{stand.address}/#/sessions/{session}")
    await browser.until(tab("Growth"))
    await browser.until("document.querySelector('.ledger .strip') !== null")
    assert await browser.run(texts(".ledger tbody a")) == ["1.1", "2.1"]
    told = await stand.get("/v1/growth", session=session)
    tokens = [str(call["tokens"]) for call in told["calls"]]
    assert await browser.run(texts(".ledger .right")) == tokens
    (summary,) = await browser.run(texts(".ledger h2"))
    assert "history grows by" in summary


async def test_the_proof_is_told_promise_by_promise(stand: Stand, browser: Browser) -> None:
    session = await stand.open("assistant")
    await stand.say(session, "Hi", "Hello.")
    await browser.open(f"{stand.address}/#/sessions/{session}")
    await browser.until(tab("Proof"))
    await browser.until("document.querySelector('.promises') !== null")
    told = dict(
        zip(
            await browser.run(texts(".promises strong")),
            await browser.run(texts(".promises dt")),
            strict=True,
        )
    )
    proven = {"integrity": "✓", "completeness": "\N{EN DASH}", "reproduction": "✓", "totals": "✓"}
    assert told == proven
    verified = await stand.get(f"/v1/sessions/{session}/verify")
    assert await browser.run("document.querySelector('.digest').textContent") == verified["head"]
    await stand.http.post(f"/v1/sessions/{session}/close", json={})
    await browser.until("document.querySelector('.verify').textContent === 'verify'")
    await browser.click(".verify")
    await browser.until("document.querySelector('.verify').textContent === '✓ 9 events, 1 prompt'")


async def test_a_session_is_forked_where_one_stands_in_its_past(
    stand: Stand, browser: Browser
) -> None:
    session = await stand.open("assistant", session="forked")
    await stand.say(session, "Left or right?", "Left.")
    await stand.say(session, "And then?", "You are lost.")
    await browser.open(f"{stand.address}/#/sessions/{session}/at/8")
    await browser.click(".past .fork")
    await browser.until("document.querySelector('.name .id a')?.textContent === 'forked, event 8'")
    made = (await browser.run("location.hash")).removeprefix("#/sessions/")
    history = await stand.get(f"/v1/sessions/{made}/history")
    assert [turn["reply"] for turn in history["turns"]] == ["Left."]
    await browser.open(f"{stand.address}/#/sessions/{session}")
    await browser.click(".name .id a")
    await browser.until(f"{texts('.list .id')}.join() === '{made}'")
    assert await browser.run("location.hash") == "#/?origin=forked"
    # In the middle of a turn nothing can be forked, and it is said why; the browser notes the 409
    await browser.open(f"{stand.address}/#/sessions/{session}/at/2")
    await browser.click(".past .fork")
    assert "open" in await browser.until("document.querySelector('.past .fault').textContent")
    browser.seen.clear()


async def test_a_session_is_moved_to_the_version_that_was_looked_at(
    stand: Stand, browser: Browser, tmp_path: Path
) -> None:
    folder = version_two(tmp_path, "moving")
    stand.desk.blueprint_folders.folders = (tmp_path, *stand.desk.blueprint_folders.folders)
    session = await stand.open("moving")
    file = folder / "blueprint.yaml"
    file.write_text(file.read_text().replace("version: 2", "version: 3"))
    await browser.open(f"{stand.address}/#/sessions/{session}")
    await browser.until(tab("Version"))
    await browser.until(clicked(".version button", "Go on by the files, v3"))
    await browser.until("document.querySelector('.version .verdict')?.textContent.includes('v3')")
    await browser.until(f"{texts('.head dd')}[0] === 'moving v3'")
    assert (await stand.get(f"/v1/sessions/{session}"))["version"] == 3
    await browser.until("document.querySelector('.version button') === null")
    await browser.until(f"{texts('.version .badge')}.join() === 'this session'")
    await browser.click(".version .number a")
    await browser.until(f"{texts('.list .id')}.join() === '{session}'")
