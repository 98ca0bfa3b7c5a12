"""Attributes of a session and own prompts of users are guarded before they are stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import httpx
import pytest
from pydantic import JsonValue
from structlog.testing import capture_logs

from tests.agent_programs.agent_service import AgentService, answer_with_text
from tests.agent_programs.shipped.guarded_inputs import (
    CARD,
    EMAIL,
    GUARDED,
    MASKED_TEXT,
    OTHER_CARD,
    TEXT,
    copy_guarded,
    list_command_digests,
    post_turn,
    require_stored_nowhere,
)
from turnlog.contract.session_requests import OpenSessionRequest
from turnlog.events.content import compute_digest, encode_canonical
from turnlog.events.model.session_events import SessionOpened

pytestmark = pytest.mark.asyncio(loop_scope="module")

REFUSED_TEXT: Final = "Use sk-abcdefgh for it."

CATEGORY: Final = "conversation_execution"


async def post_opening(
    platform: AgentService, headers: Mapping[str, str], **attributes: object
) -> httpx.Response:
    copy_guarded(platform, "assistant", GUARDED)
    form = {"blueprint": GUARDED, "attributes": attributes}
    return await platform.http.post("/v1/sessions", json=form, headers=headers)


async def put_override(
    platform: AgentService, user: str, text: str, headers: Mapping[str, str]
) -> httpx.Response:
    copy_guarded(platform, "uderia", "uderia-guarded")
    path = f"/v1/overrides/uderia-guarded/{CATEGORY}/{user}"
    return await platform.http.put(path, json={"text": text}, headers=headers)


@pytest.mark.slow("the first turn of a worker imports litellm")
async def test_attributes_of_a_session_are_masked_before_they_are_stored(
    platform: AgentService,
) -> None:
    with capture_logs() as lines:
        opened = await post_opening(platform, {"Idempotency-Key": "once"}, instructions=TEXT)
    assert opened.status_code == 201, opened.text
    session = opened.json()["session"]
    platform.opened_sessions.append(session)
    [event] = await platform.load_events(session, SessionOpened)
    assert event.attributes["instructions"] == MASKED_TEXT
    platform.provider.queue_behaviours(answer_with_text("Done."))
    await post_turn(platform, session)
    assert MASKED_TEXT in json.dumps(platform.bodies)
    assert CARD not in str(lines)
    await require_stored_nowhere(platform, session, TEXT)


async def test_repeated_opening_that_was_masked_gets_the_same_session(
    platform: AgentService,
) -> None:
    headers = {"Idempotency-Key": "repeated"}
    first = await post_opening(platform, headers, instructions=TEXT)
    again = await post_opening(platform, headers, instructions=TEXT.replace(CARD, OTHER_CARD))
    assert again.json() == first.json(), "what is masked is no part of the request"
    other = await post_opening(platform, headers, instructions="Charge nothing.")
    assert (other.status_code, other.json()["code"]) == (409, "key-reused")
    session = first.json()["session"]
    assert len(await list_command_digests(platform, session)) == 1
    await require_stored_nowhere(platform, session, TEXT)


@pytest.mark.parametrize(
    ("attributes", "status", "field"),
    [
        ({"instructions": REFUSED_TEXT}, 422, "attributes.instructions"),
        ({"language": f"English, {REFUSED_TEXT}"}, 422, "attributes.language"),
        ({CARD: "x"}, 422, "attributes.(19 characters)"),
    ],
)
async def test_refused_opening_names_the_attribute_and_opens_no_session(
    platform: AgentService, attributes: dict[str, Any], status: int, field: str
) -> None:
    copy_guarded(platform, "assistant", GUARDED)
    form = {"blueprint": GUARDED, "attributes": attributes, "session": "never-opened"}
    answer = await platform.http.post("/v1/sessions", json=form)
    assert (answer.status_code, answer.json()["code"]) == (status, "unsafe-input")
    assert answer.json()["field"] == field
    assert CARD not in answer.text
    assert "sk-abcdefgh" not in answer.text
    assert (await platform.http.get("/v1/sessions/never-opened")).status_code == 404


async def test_title_labels_and_metadata_are_masked_before_they_are_stored(
    platform: AgentService,
) -> None:
    copy_guarded(platform, "assistant", GUARDED)
    described = {"title": TEXT, "labels": [TEXT, OTHER_CARD], "metadata": {"note": [TEXT]}}
    with capture_logs() as lines:
        opened = await platform.http.post("/v1/sessions", json={"blueprint": GUARDED} | described)
        session = opened.json()["session"]
        path = f"/v1/sessions/{session}"
        headers = {"Idempotency-Key": "described"}
        again = {"labels": [CARD, OTHER_CARD], "title": f"{TEXT} Again."}
        patched = await platform.http.patch(path, json=again, headers=headers)
    assert (opened.status_code, patched.status_code) == (201, 200), patched.text
    view = (await platform.http.get(path)).json()
    assert view["title"] == f"{MASKED_TEXT} Again."
    assert len(view["labels"]) == 1, "labels that are masked alike are one"
    assert view["metadata"] == {"note": [MASKED_TEXT]}
    repeated = {"labels": [CARD, OTHER_CARD], "title": f"{TEXT.replace(CARD, OTHER_CARD)} Again."}
    same = await platform.http.patch(path, json=repeated, headers=headers)
    assert same.json() == patched.json(), "what is masked is no part of the request"
    assert CARD not in str(lines)
    await require_stored_nowhere(platform, session, TEXT)


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"title": REFUSED_TEXT}, "title"),
        ({"labels": ["fine", REFUSED_TEXT]}, "labels.1"),
        ({"metadata": {"note": {"key": REFUSED_TEXT}}}, "metadata.note.key"),
        ({"metadata": {CARD: 1}}, "metadata.(19 characters)"),
    ],
)
async def test_refused_description_repeats_nothing_of_it(
    platform: AgentService, form: dict[str, Any], field: str
) -> None:
    session = (await post_opening(platform, {})).json()["session"]
    answers = [
        await platform.http.patch(f"/v1/sessions/{session}", json=form),
        await platform.http.post("/v1/sessions", json={"blueprint": GUARDED} | form),
    ]
    for answer in answers:
        assert (answer.status_code, answer.json()["code"]) == (422, "unsafe-input")
        assert answer.json()["field"] == field
        assert CARD not in answer.text
        assert "sk-abcdefgh" not in answer.text
    assert (await platform.http.get(f"/v1/sessions/{session}")).json()["sequence"] == 1


async def test_noted_attribute_is_stored_as_it_is(platform: AgentService) -> None:
    opened = await post_opening(platform, {}, instructions=f"Write to {EMAIL}.")
    assert opened.status_code == 201, opened.text
    [event] = await platform.load_events(opened.json()["session"], SessionOpened)
    assert event.attributes["instructions"] == f"Write to {EMAIL}."


async def test_opening_without_a_finding_has_the_digest_of_a_blueprint_without_rules(
    platform: AgentService,
) -> None:
    opened = await post_opening(platform, {"Idempotency-Key": "k"}, instructions="Be brief.")
    request = OpenSessionRequest(blueprint=GUARDED, attributes={"instructions": "Be brief."})
    sent: JsonValue = {"route": "POST /v1/sessions", "body": request.model_dump(mode="json")}
    digests = await list_command_digests(platform, opened.json()["session"])
    assert digests == {compute_digest(encode_canonical(sent))}


async def test_attributes_of_a_preview_are_guarded_like_those_of_a_session(
    platform: AgentService,
) -> None:
    copy_guarded(platform, "assistant", GUARDED)
    form = {"blueprint": GUARDED, "text": "Hi", "attributes": {"instructions": TEXT}}
    shown = await platform.http.post("/v1/assemble", json=form)
    assert shown.status_code == 200, shown.text
    assert MASKED_TEXT in shown.text
    assert CARD not in shown.text
    refused = await platform.http.post(
        "/v1/assemble", json=form | {"attributes": {"instructions": REFUSED_TEXT}}
    )
    assert (refused.status_code, refused.json()["code"]) == (422, "unsafe-input")


@pytest.mark.slow("the first turn of a worker imports litellm")
async def test_own_prompt_of_a_user_is_masked_before_it_is_stored(platform: AgentService) -> None:
    with capture_logs() as lines:
        first, again = [
            await put_override(platform, "ada", text, {"Idempotency-Key": "own"})
            for text in (TEXT, TEXT.replace(CARD, OTHER_CARD))
        ]
    assert first.status_code == 200, first.text
    assert (first.json()["text"], again.json()) == (MASKED_TEXT, first.json())
    assert CARD not in str(lines)
    session = await platform.open_shipped_session("uderia-guarded", profile="llm_only")
    platform.provider.queue_behaviours(answer_with_text("Done."))
    await post_turn(platform, session, user="ada")
    assert MASKED_TEXT in json.dumps(platform.bodies)
    await require_stored_nowhere(platform, session, TEXT)


async def test_refused_own_prompt_is_not_stored_and_a_noted_one_is(
    platform: AgentService,
) -> None:
    refused = await put_override(platform, "bob", REFUSED_TEXT, {})
    assert (refused.status_code, refused.json()["code"]) == (422, "unsafe-input")
    assert refused.json()["field"] == "text"
    assert "sk-abcdefgh" not in refused.text
    path = f"/v1/overrides/uderia-guarded/{CATEGORY}/bob"
    assert (await platform.http.get(path)).status_code == 404
    noted = await put_override(platform, "bob", f"Sign as {EMAIL}.", {})
    assert noted.json()["text"] == f"Sign as {EMAIL}."
