"""Webhooks over HTTP: they are added, listed, paused and removed, and their secrets stay secret."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio
from pydantic import SecretStr

from tests.services.gateway.gateway_service import RunningGateway
from turnlog.projections.webhooks.webhook_subscriptions import MAX_WEBHOOKS
from turnlog.services.webhooks.webhook_keys import WebhookKey
from turnlog.services.webhooks.webhook_use_cases import REPEATED_SECRET_AGE

KEY = "5e" * 32

TARGET = "https://hooks.example.org"


@pytest_asyncio.fixture
async def hooked(idle: RunningGateway) -> AsyncIterator[RunningGateway]:
    """A gateway with a key for webhooks, and one origin that they may be delivered to."""
    async with idle.start_another_gateway(
        webhook_key=SecretStr(KEY), webhook_targets=(TARGET,)
    ) as gateway:
        yield gateway


async def add_webhook(gateway: RunningGateway, name: str = "billing", **form: Any) -> Any:  # noqa: ANN401 - JSON of any shape
    body = {"name": name, "url": f"{TARGET}/turnlog"} | form
    answer = await gateway.http.post("/v1/webhooks", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def refuse_webhook(gateway: RunningGateway, **form: Any) -> tuple[int, str, str]:  # noqa: ANN401
    body = {"name": "billing", "url": f"{TARGET}/turnlog"} | form
    answer = await gateway.http.post("/v1/webhooks", json=body)
    problem = answer.json()
    assert problem["fix"]
    return answer.status_code, problem["code"], problem["field"]


async def list_webhooks(gateway: RunningGateway) -> list[Any]:
    return list((await gateway.fetch_json("/v1/webhooks"))["webhooks"])


async def test_webhook_begins_at_the_end_of_the_log_and_gets_what_it_chose(
    hooked: RunningGateway,
) -> None:
    await hooked.open_session()
    end = (await hooked.fetch_json("/v1/events"))["after"]
    added = await add_webhook(
        hooked, types=["turn-failed", "turn-completed"], blueprint="clerk", attributes={"desk": "d"}
    )
    (listed,) = await list_webhooks(hooked)
    assert listed == added["webhook"]
    assert listed["types"] == ["turn-completed", "turn-failed"]
    assert (listed["blueprint"], listed["attributes"]) == ("clerk", {"desk": "d"})
    assert (listed["status"], listed["after"], listed["waiting"]) == ("active", end, 0)


async def test_secret_is_in_the_first_answer_and_neither_in_others_nor_on_the_log(
    hooked: RunningGateway,
) -> None:
    added = await add_webhook(hooked)
    secret = added["secret"]
    assert secret == WebhookKey(KEY).derive_secret(hooked.tenant, added["webhook"]["id"])
    shown = [
        (await hooked.http.get(path)).text
        for path in ("/v1/webhooks", "/v1/webhooks/billing/deliveries")
    ]
    shown.append((await hooked.http.post("/v1/webhooks/billing/pause")).text)
    stored = [
        raw.stored.decode()
        async for raws in hooked.backend.library.stream_raw_events(hooked.tenant, 0, live=False)
        for raw in raws
    ]
    assert any("turnlog.webhook-added.v1" in each for each in stored)
    for text in (*shown, *stored):
        assert secret not in text
        assert secret.removeprefix("whsec_") not in text
        assert KEY not in text


async def test_repeated_request_is_told_the_secret_for_ten_minutes_only(
    hooked: RunningGateway,
) -> None:
    now = datetime.now(UTC)
    service = hooked.parts.webhooks

    async def add() -> str | None:
        answer = await hooked.http.post(
            "/v1/webhooks",
            json={"name": "billing", "url": f"{TARGET}/turnlog"},
            headers={"Idempotency-Key": "k-1"},
        )
        assert answer.status_code == 201, answer.text
        return str(answer.json()["secret"]) if answer.json()["secret"] else None

    first = await add()
    assert first is not None
    assert await add() == first
    service.parts = replace_clock(service.parts, now + REPEATED_SECRET_AGE + timedelta(minutes=1))
    assert await add() is None
    assert len(await list_webhooks(hooked)) == 1


def replace_clock(parts: Any, at: datetime) -> Any:  # noqa: ANN401 - the parts of a library
    return replace(parts, clock=lambda: at)


async def test_two_webhooks_have_secrets_of_their_own(hooked: RunningGateway) -> None:
    first, second = await add_webhook(hooked), await add_webhook(hooked, "audit")
    assert first["secret"] != second["secret"]
    removed = await hooked.http.delete("/v1/webhooks/billing")
    assert removed.status_code == 200
    again = await add_webhook(hooked)
    assert again["secret"] != first["secret"], "whoever had the old one has not the new one"


async def test_webhook_is_paused_resumed_and_removed(hooked: RunningGateway) -> None:
    await add_webhook(hooked)
    paused = await hooked.http.post("/v1/webhooks/billing/pause")
    assert paused.json()["webhook"]["status"] == "paused"
    twice = await hooked.http.post("/v1/webhooks/billing/pause")
    assert twice.json()["sequence"] == paused.json()["sequence"], "nothing was left to do"
    resumed = await hooked.http.post("/v1/webhooks/billing/resume")
    assert resumed.json()["webhook"]["status"] == "active"
    removed = await hooked.http.delete("/v1/webhooks/billing")
    assert removed.json()["webhook"]["name"] == "billing"
    assert await list_webhooks(hooked) == []
    for method, path in (
        ("DELETE", "/v1/webhooks/billing"),
        ("POST", "/v1/webhooks/billing/pause"),
        ("POST", "/v1/webhooks/billing/resume"),
        ("GET", "/v1/webhooks/billing/deliveries"),
    ):
        answer = await hooked.http.request(method, path)
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown-webhook"), path


@pytest.mark.parametrize(
    "url",
    [
        "https://elsewhere.example.org/turnlog",
        "http://hooks.example.org/turnlog",
        "https://hooks.example.org:8443/turnlog",
        "https://hooks.example.org.evil.example/",
        "https://ann:secret@hooks.example.org/",
        "https://hooks.example.org@evil.example/",
        "https://evil.example\\@hooks.example.org/",
        "https://hooks.example.org/#part",
        "file:///etc/passwd",
        "http://169.254.169.254/latest/meta-data",
        "http://[::1]:6379/",
        "https://hooks.example.org:99999/",
        "https://hooks.example.org/a b",
        "hooks.example.org",
    ],
)
async def test_address_that_the_settings_do_not_allow_is_refused(
    hooked: RunningGateway, url: str
) -> None:
    assert await refuse_webhook(hooked, url=url) == (422, "webhook-target", "url")
    assert await list_webhooks(hooked) == []


async def test_allowed_origin_is_compared_whatever_its_spelling(hooked: RunningGateway) -> None:
    added = await add_webhook(hooked, url="HTTPS://Hooks.Example.org:443/a?b=c")
    assert added["webhook"]["url"] == "HTTPS://Hooks.Example.org:443/a?b=c"


async def test_faulty_webhooks_are_refused_by_field(hooked: RunningGateway) -> None:
    end = (await hooked.fetch_json("/v1/events"))["after"]
    assert await refuse_webhook(hooked, types=["turn-complete"]) == (422, "unknown-type", "types")
    assert await refuse_webhook(hooked, after=end + 1_000_000) == (422, "not-there-yet", "after")
    await add_webhook(hooked)
    assert await refuse_webhook(hooked) == (409, "webhook-taken", "name")
    answer = await hooked.http.post("/v1/webhooks/billing/redeliver", json={"session": "s-1"})
    assert (answer.status_code, answer.json()["code"]) == (409, "not-given-up")


async def test_there_is_a_bound_of_webhooks(hooked: RunningGateway) -> None:
    for number in range(MAX_WEBHOOKS):
        await add_webhook(hooked, f"hook-{number}")
    assert await refuse_webhook(hooked) == (422, "too-many-webhooks", "name")


async def test_installation_without_a_key_has_no_webhooks(idle: RunningGateway) -> None:
    body = {"name": "billing", "url": f"{TARGET}/turnlog"}
    answer = await idle.http.post("/v1/webhooks", json=body)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "webhooks-off")
    assert problem["field"] == "TURNLOG_WEBHOOK_KEY"
    assert (await idle.fetch_json("/v1/webhooks"))["webhooks"] == []
