"""Who did it: the user that a trusted proxy names, and nobody that anyone else names."""

from __future__ import annotations

import uuid
from ipaddress import ip_network
from typing import Any

import pytest

from tests.services.gateway.gateway_service import RunningGateway
from turnlog.services.identity.authenticator import is_trusted_sender

pytestmark = pytest.mark.asyncio(loop_scope="module")

HEADER = "X-Forwarded-User"
LOOPBACK = (ip_network("127.0.0.0/8"),)


async def open_clerk(gateway: RunningGateway, headers: Any) -> Any:  # noqa: ANN401 - httpx takes several forms
    body = {"session": f"s-{uuid.uuid4().hex}", "blueprint": "clerk", "attributes": {"desk": "1"}}
    return await gateway.http.post("/v1/sessions", json=body, headers=headers)


async def list_actors(gateway: RunningGateway, session: str) -> list[str]:
    events = (await gateway.fetch_json(f"/v1/sessions/{session}/events"))["events"]
    return [each["actor"] for each in events]


async def test_user_from_a_trusted_proxy_is_recorded_as_actor(
    bare: RunningGateway,
) -> None:
    async with bare.start_another_gateway(actor_proxies=LOOPBACK) as gateway:
        blank = await open_clerk(gateway, {HEADER: "Bo Li"})
        assert await list_actors(gateway, blank.json()["session"]) == ["user:Bo Li"]
        opened = await open_clerk(gateway, {HEADER: "ada"})
        assert opened.status_code == 201, opened.text
        session = opened.json()["session"]
        url = f"/v1/sessions/{session}/turns"
        turn = await gateway.http.post(url, json={"text": "Hi"}, headers={HEADER: "ada"})
        assert turn.status_code == 202, turn.text
        turn = await gateway.http.post(url, json={"text": "Again"})
        assert turn.status_code == 202, turn.text
        assert await list_actors(gateway, session) == ["user:ada", "user:ada", "client"]


async def test_turn_with_a_user_other_than_the_proxy_user_is_refused(
    bare: RunningGateway,
) -> None:
    async with bare.start_another_gateway(actor_proxies=LOOPBACK) as gateway:
        session = (await open_clerk(gateway, {HEADER: "ada"})).json()["session"]
        url = f"/v1/sessions/{session}/turns"
        for body in ({"text": "Hi"}, {"text": "Hi", "user": "ada"}):
            turn = await gateway.http.post(url, json=body, headers={HEADER: "ada"})
            assert turn.status_code == 202, turn.text
        # For another user the session does not exist.
        told = {"": ("user-not-trusted", "user"), "bo": ("unknown-session", "session")}
        for name, expected in told.items():
            headers = {HEADER: name} if name else {}
            refused = await gateway.http.post(
                url, json={"text": "Hi", "user": "ada"}, headers=headers
            )
            assert (refused.json()["code"], refused.json()["field"]) == expected
        assert await list_users(gateway, session) == ["ada", "ada"]


async def test_user_field_sets_the_user_without_a_trusted_proxy(bare: RunningGateway) -> None:
    session = (await open_clerk(bare, {})).json()["session"]
    for form in ({"user": "ada"}, {}):
        await bare.submit_turn(session, **form)
    assert await list_users(bare, session) == ["ada", None]


async def test_overrides_are_accessible_only_to_the_proxy_user(bare: RunningGateway) -> None:
    settings = {"actor_proxies": LOOPBACK, "operators": ("*",)}
    async with bare.start_another_gateway(**settings) as gateway:
        path, body = "/v1/overrides/uderia/master_system/", {"text": "Ada's own."}
        ada, bo = {HEADER: "ada"}, {HEADER: "bo"}
        done = await gateway.http.put(f"{path}ada", json=body, headers=ada)
        assert done.status_code == 200, done.text
        for headers in (bo, {}):
            refused = [
                await gateway.http.get(f"{path}ada", headers=headers),
                await gateway.http.put(f"{path}ada", json=body, headers=headers),
                await gateway.http.delete(f"{path}ada", headers=headers),
                await gateway.http.get("/v1/overrides?user=ada", headers=headers),
                await preview(gateway, headers, user="ada"),
            ]
            assert {each.json()["code"] for each in refused} == {"user-not-trusted"}
            assert "Ada's own" not in "".join(each.text for each in refused)
        listed = [
            (await gateway.http.get("/v1/overrides", headers=each)).json() for each in (ada, bo)
        ]
        assert [len(each["overrides"]) for each in listed] == [1, 0]
        shown = [(await preview(gateway, each)).text for each in (ada, bo)]
        assert ["Ada's own" in each for each in shown] == [True, False]
        done = await gateway.http.delete(f"{path}ada", headers=ada)
        assert done.status_code == 200, done.text


async def preview(gateway: RunningGateway, headers: Any, **form: str) -> Any:  # noqa: ANN401
    """Assemble a prompt without a session."""
    body = {"blueprint": "uderia", "profile": "llm_only", "text": "Hm?", **form}
    return await gateway.http.post("/v1/assemble", json=body, headers=headers)


async def list_users(gateway: RunningGateway, session: str) -> list[str | None]:
    events = (await gateway.fetch_json(f"/v1/sessions/{session}/events"))["events"]
    return [each["data"].get("user") for each in events if "turn" in each["data"]]


@pytest.mark.parametrize("path", ["/v1/sessions", "/v1/blueprints", "/readyz", "/"])
async def test_actor_header_is_refused_without_a_configured_proxy(
    bare: RunningGateway, path: str
) -> None:
    answer = await bare.http.get(path, headers={HEADER: "ada"})
    assert (answer.status_code, answer.json()["code"]) == (400, "actor-not-configured")
    assert answer.json()["field"] == HEADER
    assert "TURNLOG_ACTOR_PROXIES" in answer.json()["fix"]


async def test_actor_header_is_refused_from_an_untrusted_address(bare: RunningGateway) -> None:
    trusted = (ip_network("10.0.0.7/32"), ip_network("fd00::/8"))
    async with bare.start_another_gateway(actor_proxies=trusted) as gateway:
        # The address is that of the connection, whatever the request says of itself.
        claims = {"X-Forwarded-For": "10.0.0.7", "Forwarded": "for=10.0.0.7"}
        for headers in ({HEADER: "ada"}, {HEADER: "ada"} | claims):
            answer = await open_clerk(gateway, headers)
            assert (answer.status_code, answer.json()["code"]) == (400, "actor-not-trusted")
            assert answer.json()["field"] == HEADER
        assert (await open_clerk(gateway, {})).status_code == 201


async def test_forwarded_for_header_does_not_change_the_proxy_address(
    bare: RunningGateway,
) -> None:
    async with bare.start_another_gateway(actor_proxies=LOOPBACK) as gateway:
        answer = await open_clerk(gateway, {HEADER: "ada", "X-Forwarded-For": "203.0.113.9"})
        assert answer.status_code == 201, answer.text


@pytest.mark.parametrize(
    "headers",
    [
        [(HEADER, "")],
        [(HEADER, "a" * 129)],
        [(HEADER, "ad\ta")],
        [(HEADER, "adä".encode())],
        [(HEADER, "ada"), (HEADER, "bo")],
    ],
)
async def test_invalid_actor_name_is_refused(
    bare: RunningGateway, headers: list[tuple[str, str | bytes]]
) -> None:
    async with bare.start_another_gateway(actor_proxies=LOOPBACK) as gateway:
        answer = await open_clerk(gateway, headers)
        assert (answer.status_code, answer.json()["code"]) == (400, "bad-actor")
        assert answer.json()["field"] == HEADER


async def test_actor_header_name_is_configurable(bare: RunningGateway) -> None:
    async with bare.start_another_gateway(
        actor_proxies=LOOPBACK, actor_header="X-Remote-User"
    ) as gateway:
        opened = await open_clerk(gateway, {"x-remote-user": "a" * 128})
        assert await list_actors(gateway, opened.json()["session"]) == [f"user:{'a' * 128}"]


async def test_an_actor_in_the_body_is_an_unknown_field(bare: RunningGateway) -> None:
    body = {"blueprint": "clerk", "attributes": {"desk": "1"}, "actor": "ada"}
    answer = await bare.http.post("/v1/sessions", json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, "actor")


async def test_trusted_proxy_is_matched_by_network() -> None:
    trusted = (ip_network("10.0.0.0/24"), ip_network("fd00::/8"))
    assert is_trusted_sender("10.0.0.200", trusted)
    assert is_trusted_sender("::ffff:10.0.0.200", trusted)
    assert is_trusted_sender("fd00::1", trusted)
    for sender in ("10.0.1.1", "fe80::1", "", "unknown"):
        assert not is_trusted_sender(sender, trusted)
