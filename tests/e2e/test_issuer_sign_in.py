"""Browsers sign in at an OpenID Connect issuer: the code flow with PKCE, and attacks on it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from http.cookies import SimpleCookie
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import pytest
import pytest_asyncio

from tests.e2e.browser import CHROMIUM, Browser
from tests.support.processes.process_host import find_free_port, run_process_host
from tests.support.processes.separate_roles import build_settings
from tests.support.processes.turnlog_up import run_turnlog_up
from tests.support.servers.oidc_issuer import AUDIENCE, OidcIssuer, run_oidc_issuer
from tests.support.servers.openai_server import OpenAIServer

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("it starts the whole service"),
]

SECRET = "a secret: of the client & more"

PENDING = "turnlog-sign-in"


@dataclass(repr=False)
class Stand:
    """A service, the issuer that signs its people in, and a client without cookies."""

    issuer: OidcIssuer
    http: httpx.AsyncClient

    async def begin(self, place: str = "") -> tuple[str, dict[str, str]]:
        """Begin a sign-in; return where the browser is sent, and the cookie that it keeps."""
        path = f"/v1/sign-in/issuer?{urlencode({'place': place})}"
        answer = await self.http.get(path)
        assert answer.status_code == 303, answer.text
        self.http.cookies.clear()
        cookie = SimpleCookie(answer.headers["Set-Cookie"])[PENDING]
        assert (cookie["httponly"], cookie["samesite"]) == (True, "lax")
        return answer.headers["Location"], {"Cookie": f"{PENDING}={cookie.value}"}

    async def come_back(self, address: str) -> str:
        """Sign in at the issuer; return the address that it sends the browser back to."""
        async with httpx.AsyncClient(trust_env=False) as http:
            answer = await http.get(address)
        assert answer.status_code == 303
        return answer.headers["Location"]

    async def finish(self, address: str, cookie: dict[str, str]) -> httpx.Response:
        """Follow the issuer back to the service."""
        answer = await self.http.get(address, headers=cookie)
        self.http.cookies.clear()
        return answer


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stand(
    provider: OpenAIServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Stand]:
    """A service whose people sign in at an issuer."""
    address = f"127.0.0.1:{find_free_port()}"
    async with run_oidc_issuer() as issuer:
        issuer.client_secret = SECRET
        settings = build_settings(provider) | {
            "TURNLOG_OIDC_ISSUER": issuer.address,
            "TURNLOG_OIDC_AUDIENCE": AUDIENCE,
            "TURNLOG_OIDC_CLIENT_ID": AUDIENCE,
            "TURNLOG_OIDC_CLIENT_SECRET": SECRET,
            "TURNLOG_OIDC_PAGE": f"http://{address}",
        }
        async with (
            run_process_host(tmp_path_factory.mktemp("issuer"), settings) as host,
            run_turnlog_up(host, address=address),
            httpx.AsyncClient(base_url=f"http://{address}", trust_env=False) as http,
        ):
            yield Stand(issuer, http)


@pytest.fixture(autouse=True)
def faultless(stand: Stand) -> Iterator[None]:
    """An issuer without a fault when a test begins."""
    stand.issuer.denies, stand.issuer.token_changes = False, {}
    yield
    assert stand.issuer.gate.is_set()


async def test_a_code_becomes_a_cookie_that_signs_in(stand: Stand) -> None:
    assert (await stand.http.get("/v1/sessions")).status_code == 401
    ways = (await stand.http.get("/v1/sign-in")).json()
    assert ways == {"key": False, "issuer": stand.issuer.address}
    address, cookie = await stand.begin("#/sessions?order=last")
    back = await stand.finish(await stand.come_back(address), cookie)
    assert (back.status_code, back.headers["Location"]) == (303, "/#/sessions?order=last")
    kept = SimpleCookie("; ".join(back.headers.get_list("Set-Cookie")))["turnlog-key"]
    set_cookies = " ".join(back.headers.get_list("Set-Cookie"))
    assert ("HttpOnly" in set_cookies, "SameSite=strict" in set_cookies) == (True, True)
    signed = {"Cookie": f"turnlog-key={kept.value}"}
    principal = (await stand.http.get("/v1/principal", headers=signed)).json()
    assert (principal["actor"], principal["sign_in"]) == ("user:ada", "oidc")
    assert (await stand.http.get("/v1/sessions", headers=signed)).status_code == 200


@pytest.mark.parametrize(
    "attack",
    ["no cookie", "another browser", "another state", "no state", "used twice", "made up", "torn"],
)
async def test_nobody_is_signed_in_by_what_belongs_to_another_sign_in(
    stand: Stand, attack: str
) -> None:
    address, cookie = await stand.begin()
    returned = await stand.come_back(address)
    path, query = returned.split("?")[0], dict(parse_qsl(urlsplit(returned).query))
    if attack == "no cookie":
        cookie = {}
    elif attack == "another browser":
        _, cookie = await stand.begin()
    elif attack == "another state":
        query["state"] = "x" * len(query["state"])
    elif attack == "no state":
        del query["state"]
    elif attack == "used twice":
        first = await stand.finish(returned, cookie)
        assert first.headers["Location"] == "/"
    elif attack == "made up":
        query["code"] = "a-code-that-nobody-made"
    else:
        cookie = {"Cookie": cookie["Cookie"][:-9]}
    answer = await stand.finish(f"{path}?{urlencode(query)}", cookie)
    unusable = "unavailable" if attack in {"used twice", "made up"} else "refused"
    assert answer.headers["Location"] == f"/#sign-in-{unusable}"
    assert "turnlog-key" not in str(answer.headers.get_list("set-cookie"))


@pytest.mark.parametrize(
    "change",
    [{"nonce": "of-another-sign-in"}, {"aud": "elsewhere"}, {"exp": 1}, {"pad": "x" * 4_000}],
    ids=str,
)
async def test_a_token_that_is_not_for_this_sign_in_counts_for_nothing(
    stand: Stand, change: dict[str, object]
) -> None:
    stand.issuer.token_changes = change
    address, cookie = await stand.begin()
    answer = await stand.finish(await stand.come_back(address), cookie)
    assert answer.headers["Location"] == "/#sign-in-refused"
    assert "turnlog-key" not in str(answer.headers.get_list("set-cookie"))


async def test_a_person_who_says_no_is_told_so(stand: Stand) -> None:
    stand.issuer.denies = True
    address, cookie = await stand.begin()
    answer = await stand.finish(await stand.come_back(address), cookie)
    assert answer.headers["Location"] == "/#sign-in-denied"


@pytest.mark.parametrize(
    "place", ["//evil.example", "https://evil.example", "/x", "#a b", "#\r\nX: y"]
)
async def test_nobody_is_sent_to_another_place_than_the_page(stand: Stand, place: str) -> None:
    address, cookie = await stand.begin(place)
    answer = await stand.finish(await stand.come_back(address), cookie)
    assert answer.headers["Location"] == "/"


@pytest.mark.skipif(CHROMIUM is None, reason="no `chromium` on PATH")
async def test_a_browser_signs_in_at_the_issuer_and_out(stand: Stand, chromium: Browser) -> None:
    page = str(stand.http.base_url).rstrip("/")
    chromium.events.clear()
    offered = "document.querySelector('.sign-in a.issuer:not([hidden])') !== null"
    link = "document.querySelector('.sign-in a.issuer').href"
    out = "document.querySelector('#signed-in button')?.textContent ?? ''"
    await chromium.open_page(f"{page}/#/usage")
    await chromium.wait_for(offered)
    assert await chromium.run_script("document.querySelector('.sign-in form').hidden") is True
    stand.issuer.denies = True
    await chromium.open_page(await chromium.run_script(link))
    await chromium.wait_for("document.querySelector('.sign-in .fault')?.textContent.length > 0")
    assert await chromium.run_script("location.hash") == ""
    stand.issuer.denies = False
    await chromium.wait_for(offered)
    await chromium.open_page(await chromium.run_script(link))
    await chromium.wait_for(f"({out}).startsWith('ada')")
    assert await chromium.run_script("document.cookie") == ""
    await chromium.run_script("document.querySelector('#signed-in button').click()")
    await chromium.wait_for(offered)
    refused = [each for each in chromium.list_complaints() if "401" not in json.dumps(each)]
    assert refused == []
