"""What a person typed is in no refusal, no log line and no event, wherever it was in a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

import httpx
import pytest
from structlog.testing import capture_logs

from tests.services.gateway.gateway_service import RunningGateway

pytestmark = pytest.mark.asyncio(loop_scope="module")

GAME_MASTER: Final[Mapping[str, object]] = {
    "entry_point": "ep.one",
    "world": "w.one",
    "ruleset": "r.one",
}

CARD: Final = "4111111111111111"

SECRETS: Final = (CARD, "4111 1111 1111 1111", "DE89370400440532013000", "ada@ships.example")


def build_turns(secret: str) -> dict[str, dict[str, object]]:
    """Return turns that are refused, by the place of the secret in them."""
    wrong: dict[str, object] = {"text": "Hi", "inputs": {"first_turn": 3}}
    return {
        "a text beside a fault": wrong | {"text": secret},
        "a text that is a number": {"text": int(CARD)},
        "a list for a text": {"text": [secret]},
        "a text that cannot be stored": {"text": f"{secret}\0"},
        "an unknown field": {"text": "Hi", secret: 1},
        "the value of an unknown field": {"text": "Hi", "txet": secret},
        "a role": {"text": "Hi", "role": secret},
        "a user": {"text": "Hi", "user": f"{secret}\n"},
        "an unknown input": {"text": "Hi", "inputs": {secret: 1}},
        "the value of an unknown input": {"text": "Hi", "inputs": {"raven": secret}},
        "an input of another type": {"text": "Hi", "inputs": {"first_turn": secret}},
        "a number that is not allowed": {"text": "Hi", "inputs": {"tokenBudget": int(CARD)}},
        "an item that is no object": {"text": "Hi", "inputs": {"npcs": [secret]}},
        "a key of an item": {"text": "Hi", "inputs": {"npcs": [{secret: 1}]}},
        "a value of an item": {"text": "Hi", "inputs": {"npcs": [{"npc": "n", "tier": secret}]}},
        "a text for inputs": {"text": "Hi", "inputs": secret},
        "a text for references": {"text": "Hi", "references": secret},
        "references beside a fault": wrong | {"references": {"ticker": secret, "list": [secret]}},
        "a key of references beside a fault": wrong | {"references": {secret: {secret: "a\0"}}},
        "a path to what cannot be stored": {"text": "Hi", "meta": {secret: {"a": "\0"}}},
        "meta beside a fault": wrong | {"meta": {"note": secret, "card": int(CARD)}},
        "a path to a number": {"text": "Hi", "meta": {secret: [2**60]}},
        "a system turn with inputs": {"text": "Hi", "role": "system", "inputs": {secret: secret}},
    }


def require_unrepeated(secret: str, place: str, answer: httpx.Response) -> None:
    assert answer.status_code in {400, 404, 406, 409, 413, 415, 422}, (place, answer.text)
    assert answer.json()["fix"], place
    said = f"{answer.text}{answer.headers}"
    for written in {secret, quote(secret), CARD}:
        assert written not in said, (place, said)


@pytest.mark.parametrize("secret", SECRETS)
async def test_refused_turn_is_repeated_in_no_answer_log_line_or_event(
    bare: RunningGateway, secret: str
) -> None:
    session = await bare.open_session("game-master", attributes=GAME_MASTER)
    before = await bare.count_stored_events()
    with capture_logs() as lines:
        for place, turn in build_turns(secret).items():
            answer = await bare.http.post(f"/v1/sessions/{session}/turns", json=turn)
            require_unrepeated(secret, place, answer)
        for place, (path, headers) in build_odd_requests(secret, session).items():
            answer = await bare.http.post(path, json={"text": "Hi"}, headers=headers)
            require_unrepeated(secret, place, answer)
        doubled = f'{{"text": "Hi", "meta": {{"{secret}": 1, "{secret}": 2}}}}'.encode()
        answer = await bare.http.post(
            f"/v1/sessions/{session}/turns",
            content=doubled,
            headers={"Content-Type": "application/json"},
        )
        require_unrepeated(secret, "a repeated key", answer)
    assert secret not in str(lines)
    assert CARD not in str(lines)
    assert await bare.count_stored_events() == before


def build_odd_requests(secret: str, session: str) -> dict[str, tuple[str, dict[str, str]]]:
    """Return path and headers of requests that are refused, by the place of the secret in them."""
    turns = f"/v1/sessions/{session}/turns"
    streamed = {"Accept": "text/event-stream", "Last-Event-ID": secret}
    return {
        "a parameter": (f"{turns}?{quote(secret)}=1", {}),
        "the value of a parameter": (f"{turns}?wait={quote(secret)}x", {}),
        "a session": (f"/v1/sessions/{quote(secret)}/turns", {}),
        "a path": (f"{turns}/{quote(secret)}/nowhere", {}),
        "a cursor": (turns, streamed),
        "a media type": (turns, {"Content-Type": f"application/{secret}"}),
        "an encoding": (turns, {"Content-Encoding": secret}),
        "what is accepted": (turns, {"Accept": secret}),
        "a key": (turns, {"Idempotency-Key": secret.ljust(201, "x")}),
    }


def build_steering_requests(secret: str, session: str) -> dict[str, dict[str, object]]:
    """Return bodies that are refused, by the path below which each is posted."""
    at = f"/v1/sessions/{session}"
    return {
        f"{at}/profile": {"profile": secret},
        f"{at}/cancel": {"turn": secret},
        f"{at}/redactions": {"turn": int(CARD), "reason": secret},
        f"{at}/close": {secret: "done"},
        f"{at}/feedback": {"vote": secret},
        "/v1/sessions": {"blueprint": secret},
        "/v1/ask": {
            "question": secret,
            "client_id": "c",
            "conversation_id": "c",
            "nickname": "Ada",
            secret: secret,
        },
    }


def build_reads(secret: str, session: str) -> tuple[str, ...]:
    """Return paths that are read in vain."""
    sent = quote(secret)
    return (
        f"/v1/uses?source={sent}",
        f"/v1/uses?source=label:x&after={sent}",
        f"/v1/events?types={sent}",
        f"/v1/usage?group_by={sent}",
        f"/v1/sessions/{session}/turns/{CARD}/why",
        f"/v1/sessions/{session}/turns/{CARD}/timeline",
        f"/v1/sessions/{session}/calls/{sent}/prompt",
    )


@pytest.mark.parametrize("secret", SECRETS)
async def test_refused_request_beside_a_turn_is_not_repeated_either(
    bare: RunningGateway, secret: str
) -> None:
    session = await bare.open_session("game-master", attributes=GAME_MASTER)
    openings: list[dict[str, object]] = [
        {"attributes": {**GAME_MASTER, "locale": secret}},
        {"attributes": {**GAME_MASTER, secret: "x"}},
        {"attributes": dict(GAME_MASTER), "profile": secret},
        {"attributes": dict(GAME_MASTER), "key": {secret: "x"}},
        {"attributes": dict(GAME_MASTER), "session": f"{secret} "},
        {"blueprint": "trickster", "attributes": {"task": CARD}},
    ]
    with capture_logs() as lines:
        for opening in openings:
            body = {"blueprint": "game-master", **opening}
            answer = await bare.http.post("/v1/sessions", json=body)
            require_unrepeated(secret, str(opening), answer)
        for path in build_reads(secret, session):
            require_unrepeated(secret, path, await bare.http.get(path))
        for path, body in build_steering_requests(secret, session).items():
            require_unrepeated(secret, path, await bare.http.post(path, json=body))
    assert secret not in str(lines)


def build_segment_edits(secret: str, number: int) -> dict[str, tuple[str, str, dict[str, object]]]:
    """Return refused requests on a segment and others, by the place of the secret in them."""
    segment: dict[str, object] = {"scope": "world", "content": "Fog."}
    path, one, imports = "/v1/segments", f"/v1/segments/{number}", "/v1/segments/import"
    return {
        **{
            f"the {name} of a segment": ("POST", path, segment | {name: f"{secret} "})
            for name in ("scope", "ref", "locale", "variant", "type", "priority", "tier")
        },
        "a field of a segment": ("POST", path, segment | {secret: secret}),
        "a tier": ("POST", path, segment | {"tier": int(CARD)}),
        "a number in a path": ("PATCH", f"{path}/{CARD}", {"content": "Rain."}),
        "a number that is read": ("GET", f"{path}/{CARD}", {}),
        "a variant without a text": ("PATCH", one, {"variant": secret, "tier": 1}),
        "a new variant": ("PATCH", one, {"variant": secret, "content": "Rain."}),
        "a version": ("PATCH", one, {"version": int(CARD), "content": "Rain."}),
        **{
            f"the {name} of a row": ("POST", imports, {"segments": [segment | {name: value}]})
            for name, value in {
                **dict.fromkeys(("scope", "ref", "locale", "variant", "priority"), f"{secret} "),
                "version": int(CARD),
                "id": -int(CARD),
            }.items()
        },
        "a row of another place": (
            "POST",
            imports,
            {"segments": [segment | {"id": int(CARD)}, segment | {"id": int(CARD), "ref": "r"}]},
        ),
        "a row twice": ("POST", imports, {"segments": [segment | {"id": int(CARD)}] * 2}),
        "a filter": ("GET", f"{path}?{quote(secret)}=1", {}),
    }


def build_knowledge_edits(secret: str) -> dict[str, tuple[str, str, dict[str, object]]]:
    """Return refused requests on knowledge, by the place of the secret in them."""
    entry: dict[str, object] = {"text": "Fog."}
    sent, imports = quote(secret), "/v1/knowledge/import"
    collections = "/v1/knowledge/collections"
    at = f"{collections}/cases/entries"
    twice: list[object] = [entry | {"id": f"e{CARD}"}] * 2
    return {
        "a collection": ("PUT", f"{collections}/{sent}/entries/one", entry),
        "an id": ("PUT", f"{at}/{sent}%C3%A9", entry),
        "a field": ("PUT", f"{at}/one", entry | {secret: 1}),
        "a kind": ("PUT", f"{at}/one", entry | {"kind": secret}),
        "an efficiency": ("PUT", f"{at}/one", entry | {"kind": "case", "efficiency": int(CARD)}),
        "an entry that is read": ("GET", f"{at}/e{CARD}", {}),
        "an entry that is removed": ("DELETE", f"{at}/e{CARD}", {}),
        "a collection that is read": ("GET", f"{collections}/c{CARD}", {}),
        "a collection that is removed": ("DELETE", f"{collections}/c{CARD}", {}),
        "an imported collection": ("POST", imports, {"collection": secret, "entries": []}),
        "an imported id": (
            "POST",
            imports,
            {"collection": "cases", "entries": [entry | {"id": f"{secret} "}]},
        ),
        "an id twice": ("POST", imports, {"collection": "cases", "entries": twice}),
        "a collection that is searched": (
            "POST",
            "/v1/knowledge/search",
            {"text": "fog", "collections": [f"c{CARD}"]},
        ),
    }


def build_override_edits(secret: str) -> dict[str, tuple[str, str, dict[str, object]]]:
    """Return refused requests on prompts of users, by the place of the secret in them."""
    path, form = "/v1/overrides/uderia/master_system", {"text": "You work for Ann."}
    return {
        "a user without an override": ("GET", f"{path}/{CARD}", {}),
        "a user who removes": ("DELETE", f"{path}/{CARD}", {}),
        "a blueprint": ("PUT", f"/v1/overrides/{quote(secret)}/master_system/ann", {**form}),
        "a category": ("PUT", f"/v1/overrides/uderia/{quote(secret)}/ann", {**form}),
        "a profile": ("PUT", f"{path}/ann", {**form, "profile": f"p{CARD}"}),
        "a provider": ("PUT", f"{path}/ann", {**form, "provider": f"p/{CARD}"}),
        "a profile that is read": ("GET", f"{path}/ann?profile=p{CARD}", {}),
        "a user of another form": ("PUT", f"{path}/{quote(secret)}%C3%A9", {**form}),
    }


@pytest.mark.parametrize("secret", SECRETS)
async def test_refused_edit_of_an_operator_is_not_repeated_either(
    bare: RunningGateway, secret: str
) -> None:
    added = await bare.http.post("/v1/segments", json={"scope": "world", "content": "Fog."})
    known = "/v1/knowledge/collections/cases/entries/known"
    assert (await bare.http.put(known, json={"text": "Fog."})).is_success
    edits = build_segment_edits(secret, added.json()["segment"]) | build_knowledge_edits(secret)
    with capture_logs() as lines:
        for place, (method, path, body) in (edits | build_override_edits(secret)).items():
            answer = await bare.http.request(method, path, json=body or None)
            require_unrepeated(secret, place, answer)
    assert secret not in str(lines)
