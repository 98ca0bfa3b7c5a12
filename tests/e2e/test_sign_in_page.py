"""The page where a gateway asks for keys: signing in, seeing what one may, and being signed out."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.e2e.axe_checks import AXE_SCRIPT, COLOUR_RULES, RULES, list_violations, load_axe
from tests.e2e.browser import CHROMIUM, Browser, build_input_script, build_texts_script
from tests.services.gateway.gateway_service import MemoryBackend, RunningGateway, start_service
from tests.services.gateway.keys.key_gateway import (
    ROOT,
    create_key,
    open_session,
    send,
    start_key_gateway,
)

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(CHROMIUM is None, reason="no `chromium` on PATH"),
    pytest.mark.slow("it drives a browser on a service of its own"),
]

FORM_SHOWN = "document.querySelector('.sign-in') !== null"
LINKS = build_texts_script("a.section:not([hidden])")
SIGN_OUT = "document.querySelector('#signed-in button')?.textContent ?? ''"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stand(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    """A gateway that asks for keys."""
    folder = tmp_path_factory.mktemp("locked")
    async with (
        start_service(MemoryBackend(), "locked", folder) as service,
        start_key_gateway(service) as gateway,
    ):
        yield gateway


@pytest.fixture
def visitor(browser: Browser) -> Iterator[Browser]:
    """A browser that may complain of answers that say to sign in, and of nothing else."""
    yield browser
    browser.events[:] = [each for each in browser.events if "401" not in json.dumps(each)]


async def sign_in_with(browser: Browser, key: str) -> None:
    """Fill in the form and send it."""
    await browser.wait_for(FORM_SHOWN)
    await browser.run_script(build_input_script("#key", key, "input"))
    await browser.run_script("document.querySelector('.sign-in form').requestSubmit()")


async def test_a_browser_signs_in_sees_what_it_may_and_is_out_when_its_key_is_revoked(
    stand: RunningGateway, visitor: Browser
) -> None:
    caller = await create_key(stand, "page-caller", "caller")
    watcher = await create_key(stand, "page-watcher", "watcher", "caller")
    await visitor.open_page(f"{stand.address}/#/sessions")
    await sign_in_with(visitor, "tlk_000000000000_" + "A" * 43)
    await visitor.wait_for("document.querySelector('.sign-in .fault').textContent.length > 0")
    await sign_in_with(visitor, caller)
    await visitor.wait_for(f"({SIGN_OUT}).startsWith('page-caller')")
    assert await visitor.run_script(LINKS) == ["sessions"]
    assert await visitor.run_script("document.cookie") == ""
    await visitor.run_script("document.querySelector('#signed-in button').click()")
    await visitor.wait_for(FORM_SHOWN)
    await sign_in_with(visitor, watcher)
    await visitor.wait_for(f"({SIGN_OUT}).startsWith('page-watcher')")
    assert "overview" in await visitor.run_script(LINKS)
    await stand.http.delete("/v1/keys/page-watcher", headers=ROOT)
    while (await send(stand, watcher, "GET", "/v1/principal")).status_code == 200:
        pass
    await visitor.open_page(f"{stand.address}/#/sessions?order=last")
    await visitor.wait_for(FORM_SHOWN)


@pytest.mark.parametrize(
    ("role", "tabs"),
    [
        ("caller", ["Record", "Timeline", "Past", "Proof"]),
        ("watcher", ["Record", "Timeline", "Past", "Growth", "Proof"]),
        (
            "auditor",
            ["Record", "Prompts", "Timeline", "Why", "Past", "What if", "Growth", "Proof"],
        ),
    ],
)
async def test_what_a_role_may_not_do_in_a_session_is_not_shown(
    stand: RunningGateway, visitor: Browser, role: str, tabs: list[str]
) -> None:
    session = await open_answered_session(stand, await create_key(stand, f"app-{role}", "caller"))
    key = await create_key(stand, f"sees-{role}", role)
    await visitor.open_page(f"{stand.address}/#/sessions/{session}")
    await sign_in_with(visitor, key)
    await visitor.wait_for("document.querySelectorAll('.tabs a').length > 3")
    shown = set(await visitor.run_script(build_texts_script(".tabs a")))
    assert set(tabs) <= shown <= {*tabs, "Version"}
    assert ("Version" in shown) == (role == "auditor")
    assert await is_visible(visitor, ".composer") == (role == "caller")
    assert await is_visible(visitor, "button.action") == (role == "caller")
    assert await is_visible(visitor, "a[href*='/calls/']") == (role == "auditor")
    exports = await visitor.run_script(build_texts_script(".exports a"))
    assert any("bundle" in each for each in exports) == (role == "auditor")
    await visitor.run_script("document.querySelector('#signed-in button').click()")
    await visitor.wait_for(FORM_SHOWN)


async def test_who_may_only_read_a_shared_session_is_offered_no_more(
    stand: RunningGateway, visitor: Browser
) -> None:
    ada = await create_key(stand, "shares-ada", "caller", user="ada")
    bo = await create_key(stand, "shares-bo", "caller", user="bo")
    session = await open_answered_session(stand, ada)
    share = f"/v1/sessions/{session}/shares/bo"
    assert (await send(stand, ada, "PUT", share)).status_code == 200
    await visitor.open_page(f"{stand.address}/#/sessions/{session}")
    await sign_in_with(visitor, bo)
    await visitor.wait_for("document.querySelectorAll('.tabs a').length > 2")
    assert not await is_visible(visitor, ".composer")
    facts = await visitor.run_script("document.querySelector('.session dl').textContent")
    assert "shared withbo (read)" in facts
    assert (await send(stand, ada, "PUT", share, json={"access": "submit"})).status_code == 200
    await visitor.wait_for("document.querySelector('.composer').checkVisibility()")
    await visitor.run_script("document.querySelector('#signed-in button').click()")
    await visitor.wait_for(FORM_SHOWN)


async def open_answered_session(stand: RunningGateway, key: str) -> str:
    """Open a session and complete a turn in it."""
    session = await open_session(stand, key)
    turns = f"/v1/sessions/{session}/turns"
    answer = await send(stand, key, "POST", turns, json={"text": "Hi"}, params={"wait": 30})
    assert answer.json()["status"] == "completed", answer.text
    return session


async def is_visible(browser: Browser, selector: str) -> bool:
    """Return whether an element is shown."""
    script = f"document.querySelector({json.dumps(selector)})?.checkVisibility() ?? false"
    return bool(await browser.run_script(script))


@pytest.mark.skipif(not AXE_SCRIPT.exists(), reason="npm did not bring axe: see the Makefile")
async def test_the_form_has_no_violation_of_accessibility(
    stand: RunningGateway, visitor: Browser
) -> None:
    await visitor.open_page(f"{stand.address}/#/usage")
    await visitor.wait_for(FORM_SHOWN)
    await load_axe(visitor)
    for scheme in ("light", "dark"):
        await visitor.show_as(scheme, 390, 844)
        rules = RULES if scheme == "light" else COLOUR_RULES
        assert await list_violations(visitor, rules) == []
    await visitor.show_as_opened()


async def test_cookies_of_a_sign_in_are_read_by_no_script_and_by_no_other_page(
    stand: RunningGateway,
) -> None:
    key = await create_key(stand, "page-cookie", "caller")
    encrypted = stand.address.replace("http:", "https:")
    for origin, is_secure in ((stand.address, False), (encrypted, True)):
        answer = await stand.http.post("/v1/sign-in", json={"key": key}, headers={"Origin": origin})
        assert answer.status_code == 200, answer.text
        cookie = answer.headers["Set-Cookie"]
        for term in ("HttpOnly", "SameSite=strict", "Path=/"):
            assert term in cookie
        assert ("Secure" in cookie) == is_secure
    signed = await stand.http.get("/v1/principal", headers={"Cookie": f"a=b; turnlog-key={key}"})
    assert signed.json()["actor"] == "key:page-cookie"
    foreign = {"Cookie": f"turnlog-key={key}", "Origin": "http://elsewhere.example"}
    refused = await stand.http.post("/v1/sessions", json={"blueprint": "clerk"}, headers=foreign)
    assert (refused.status_code, refused.json()["code"]) == (403, "cross-site")
    gone = await stand.http.delete("/v1/sign-in")
    assert "Max-Age=0" in gone.headers["Set-Cookie"]
