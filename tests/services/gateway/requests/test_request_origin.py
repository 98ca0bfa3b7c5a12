"""Requests that a browser sends for a page of another site, and hosts that are not ours."""

from __future__ import annotations

import asyncio
import os
import socket
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from starlette.datastructures import Headers

from tests.services.gateway.gateway_service import RunningGateway
from tests.services.gateway.requests.route_table import ROUTES, DocumentedRoute
from turnlog.events.errors import Refused
from turnlog.services.http.request_origin import (
    READ_METHODS,
    check_request_origin,
    list_own_hosts,
)
from turnlog.services.platform.process_settings import GatewaySettings

OWN_HOSTS: Final = frozenset({"turnlog.example", "[fd00::7]"})

OWN_NAMES: Final = (
    "localhost",
    "LOCALHOST",
    "localhost:8700",
    "127.0.0.1:8700",
    "127.8.9.10",
    "[::1]",
    "[::1]:8700",
    "[0:0:0:0:0:0:0:1]:8700",
    "turnlog.example",
    "Turnlog.Example:443",
    "[fd00::7]:8700",
)

FOREIGN_NAMES: Final = (
    "",
    "attacker.example",
    "localhost.attacker.example",
    "attackerlocalhost",
    "localhost.",
    "localhost:",
    "localhost:x",
    "localhost:870000",
    "localhost@attacker.example",
    "attacker.example@localhost",
    "attacker.example#localhost",
    "localhost/attacker.example",
    "localhost attacker.example",
    "localhost, attacker.example",
    "http://localhost",
    "sub.turnlog.example",
    "turnlog.example.attacker.example",
    "127.0.0.1.attacker.example",
    "127.1",
    "0127.0.0.1",
    "0x7f.0.0.1",
    "2130706433",
    "0.0.0.0",  # noqa: S104 - a host like others here
    "10.0.0.1",
    "::1",
    "[::1",
    "[127.0.0.1]",
    "[::2]",
    "[fe80::1%lo]",
    "*",
    "lo\u00adcalhost",
)

FOREIGN_ORIGINS: Final = (
    "null",
    "",
    "https://attacker.example",
    "http://localhost:3000",
    "http://localhost",
    "http://127.0.0.1:8700",
    "http://localhost:8700.attacker.example",
    "http://localhost:8700@attacker.example",
    "http://localhost:8700/",
    "http://attacker.example, http://localhost:8700",
    "chrome-extension://localhost:8700",
    "//localhost:8700",
    "localhost:8700",
    "HTTP://localhost:8700",
)

FOREIGN_SITES: Final = ("cross-site", "same-site", "Same-Origin", "", "none, cross-site", "future")

COMMAND_ROUTES: Final = tuple(route for route in ROUTES if route.method not in READ_METHODS)


def build_headers(host: str, **more: str) -> Headers:
    pairs = {"host": host} | {name.replace("_", "-"): value for name, value in more.items()}
    return Headers(raw=[(name.encode(), value.encode("latin-1")) for name, value in pairs.items()])


def find_refused_header(method: str, headers: Headers) -> str | None:
    """Return the header for which a request is refused, or None for one that is answered."""
    try:
        check_request_origin(method, headers, OWN_HOSTS)
    except Refused as refused:
        return refused.field if "TURNLOG_HOSTS" in refused.fix else "the fix names no setting"
    return None


@pytest.mark.parametrize("host", OWN_NAMES)
def test_loopback_and_configured_hosts_are_accepted(host: str) -> None:
    for method in ("GET", "POST"):
        assert find_refused_header(method, build_headers(host)) is None


@pytest.mark.parametrize("host", FOREIGN_NAMES)
def test_unknown_host_is_refused_for_every_method(host: str) -> None:
    for method in ("GET", "HEAD", "OPTIONS", "POST"):
        assert find_refused_header(method, build_headers(host)) == "Host"


def test_missing_or_repeated_host_header_is_refused() -> None:
    host = (b"host", b"localhost")
    assert find_refused_header("GET", Headers(raw=[])) == "Host"
    assert find_refused_header("GET", Headers(raw=[host, host])) == "Host"


@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
def test_cross_origin_page_may_read_but_not_send_commands(origin: str) -> None:
    headers = build_headers("localhost:8700", origin=origin)
    assert find_refused_header("GET", headers) is None
    for method in ("POST", "PUT", "PATCH", "DELETE", "MADE-UP"):
        assert find_refused_header(method, headers) == "Origin"


@pytest.mark.parametrize("site", FOREIGN_SITES)
def test_cross_site_command_is_refused_despite_an_own_origin(site: str) -> None:
    headers = build_headers("localhost:8700", sec_fetch_site=site, origin="http://localhost:8700")
    assert find_refused_header("GET", headers) is None
    assert find_refused_header("POST", headers) == "Sec-Fetch-Site"


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost:8700", "http://localhost:8700"),
        ("[::1]:8700", "http://[::1]:8700"),
        ("turnlog.example", "https://turnlog.example"),
        ("turnlog.example", "http://turnlog.example:80"),
        ("turnlog.example:443", "https://turnlog.example"),
        ("TURNLOG.example", "https://turnlog.EXAMPLE"),
    ],
)
def test_same_origin_page_may_send_commands(host: str, origin: str) -> None:
    for site in ("same-origin", "none"):
        headers = build_headers(host, origin=origin, sec_fetch_site=site)
        assert find_refused_header("POST", headers) is None


def test_listening_address_is_one_of_the_own_hosts() -> None:
    for http, host in (("my-box:8700", "my-box"), ("[fd00::2]:0", "[fd00::2]")):
        assert list_own_hosts(GatewaySettings(http=http, hosts=("a.example",))) == {
            "a.example",
            host,
        }


@pytest.mark.asyncio(loop_scope="module")
async def test_unknown_host_is_refused_on_every_route(bare: RunningGateway) -> None:
    for route in ROUTES:
        answer = await bare.http.request(
            route.method, route.build_path(), headers={"Host": "attacker.example"}
        )
        assert_problem(answer, 421, "unknown-host", "Host")
    for path in ("/", "/page/index.html", "/openapi.json", "/nowhere"):
        answer = await bare.http.get(path, headers={"Host": "attacker.example"})
        assert_problem(answer, 421, "unknown-host", "Host")


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("route", COMMAND_ROUTES, ids=str)
async def test_cross_site_request_is_refused_on_every_command_route(
    bare: RunningGateway, route: DocumentedRoute
) -> None:
    session = await bare.open_session("assistant")
    before = await bare.count_stored_events()
    foreign = {"Origin": "https://attacker.example"}, {"Sec-Fetch-Site": "cross-site"}
    for header in foreign:
        answer = await bare.http.request(
            route.method, route.build_path(session=session), headers=header, json=route.form
        )
        assert_problem(answer, 403, "cross-site", next(iter(header)))
    assert await bare.count_stored_events() == before


@pytest.mark.asyncio(loop_scope="module")
async def test_configured_host_is_accepted_and_its_page_may_send_commands(
    bare: RunningGateway,
) -> None:
    headers = {"Host": "turnlog.example", "Origin": "https://turnlog.example"}
    refused = await bare.http.post("/v1/sessions", json={"blueprint": "clerk"}, headers=headers)
    assert_problem(refused, 421, "unknown-host", "Host")
    async with bare.start_another_gateway(hosts=("turnlog.example",)) as stand:
        answer = await stand.http.post(
            "/v1/sessions", json={"blueprint": "assistant"}, headers=headers
        )
        assert answer.status_code == 201, answer.text


def assert_problem(answer: httpx.Response, status: int, code: str, field: str) -> None:
    """Check a refusal, which must name the header and the setting."""
    assert answer.status_code == status, answer.text
    problem = answer.json()
    assert (problem["code"], problem["field"]) == (code, field)
    assert "TURNLOG_HOSTS" in problem["fix"]


TIMES: Final = 250 if os.environ.get("FAULTS") == "all" else 1

FUZZED: Final = settings(
    max_examples=200 * TIMES, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

FUZZED_WIRE: Final = settings(FUZZED, max_examples=50 * TIMES)

PIECES: Final = st.sampled_from(
    (
        *("localhost", "turnlog.example", "attacker.example", "127.0.0.1", "[::1]", "[fd00::7]"),
        *("0", "7f", "127", "1", "::", "ffff", "8700", "80", "443", "http", "https", "xn--"),
        *(".", ":", "@", "/", "\\", "?", "#", "%", "%2e", "[", "]", ",", ";", " ", "\t", "*", "-"),
        *("_", "://", "null", "\u00ad", "\u00e4", "\u00b2", "\u00df"),
    )
)

SPELLINGS: Final = st.lists(PIECES, max_size=8).map("".join) | st.text(
    st.characters(max_codepoint=255), max_size=30
)


def find_browser_host(url: str) -> httpx.URL | None:
    """Return what another implementation reads from a URL; None for one that it refuses."""
    try:
        return httpx.URL(url)
    except httpx.InvalidURL:
        return None


def is_own_name(host: str) -> bool:
    """Return the rule of the host again, from the host that another implementation read."""
    try:
        return ip_address(host).is_loopback or host == "fd00::7"
    except ValueError:
        return host in {"localhost", "turnlog.example"}


@pytest.mark.timeout(900)
@FUZZED
@given(host=SPELLINGS)
@example(host="localhost\n")
@example(host="localhost:8700\x00")
def test_accepted_hosts_are_own_hosts_by_another_url_parser(host: str) -> None:
    if find_refused_header("GET", build_headers(host)) is None:
        read = find_browser_host(f"http://{host}/")
        assert read is not None
        assert is_own_name(read.host), host


@pytest.mark.timeout(900)
@FUZZED
@given(origin=SPELLINGS | SPELLINGS.map("http://{}".format), host=st.sampled_from(OWN_NAMES))
@example(origin="http://localhost:8700\n", host="localhost:8700")
def test_accepted_origins_match_the_host_by_another_url_parser(origin: str, host: str) -> None:
    if find_refused_header("POST", build_headers(host, origin=origin)) is None:
        page = find_browser_host(origin)
        assert page is not None
        addressed = httpx.URL(f"{page.scheme}://{host}")
        assert (page.host, page.port) == (addressed.host, addressed.port), (origin, host)


@pytest.mark.timeout(900)
@pytest.mark.asyncio(loop_scope="module")
async def test_gateway_applies_the_origin_check_to_any_host_and_origin_header(
    bare: RunningGateway,
) -> None:
    async with bare.start_another_gateway(hosts=tuple(OWN_HOSTS)) as stand:
        await asyncio.to_thread(check_wire, stand.address)


def check_wire(address: str) -> None:
    place = urlsplit(address)

    @FUZZED_WIRE
    @given(
        host=st.sampled_from((*OWN_NAMES, *FOREIGN_NAMES)) | SPELLINGS,
        origin=st.none() | st.sampled_from(FOREIGN_ORIGINS) | SPELLINGS,
    )
    def answered(host: str, origin: str | None) -> None:
        lines = ["POST /nowhere HTTP/1.1", f"Host: {host}", "Connection: close"]
        lines += [] if origin is None else [f"Origin: {origin}"]
        with socket.create_connection((str(place.hostname), place.port)) as line:
            line.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
            with line.makefile("rb") as read:
                status = int(read.readline().split()[1])
        # h11 takes the blanks around a value away; what it does not let through is 400
        sent = {} if origin is None else {"origin": origin.strip(" \t")}
        refused = find_refused_header("POST", build_headers(host.strip(" \t"), **sent))
        assert status in {400, {None: 404, "Host": 421, "Origin": 403}[refused]}, (host, origin)

    answered()
