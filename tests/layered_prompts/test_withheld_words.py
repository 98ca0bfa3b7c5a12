"""What a student typed and then withdrew, as clients and readers of the shipped tutor see it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from tests.layered_prompts.tutor_service import DRAW, TutorService, answer_with_text
from turnlog.events.content import compute_digest
from turnlog.events.model.redaction_events import TextRedacted
from turnlog.services.identity.permissions import ROUTE_PERMISSIONS

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAME = "Zanzibar"
"""A text so short that a plain digest of it could be guessed."""

CARD = "4111 1111 1111 1111"
CARD_DIGITS = re.compile(r"(?<![0-9a-f])4111(?![0-9a-f])")
"""The first of them, which also occur in a digest now and then."""

WITHDRAWN = (
    "What the student said last was withdrawn, all of it or a part. Go on without asking for it."
)


@dataclass(frozen=True, slots=True, repr=False)
class WithdrawnSession:
    """A session whose first two texts were withdrawn, the second in part, and the turns after."""

    session: str
    at: int
    """The last event before the first redaction."""
    submitted: dict[str, Any]
    """The body of the first turn, which was sent with an idempotency key."""

    def fill_path(self, path: str) -> str:
        """Return the path of a route about this session and its first turn."""
        return path.format(session=self.session, turn=1, call="1.1")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def withdrawn(tutor_service: TutorService) -> AsyncIterator[WithdrawnSession]:
    session = await tutor_service.open_session(DRAW)
    http = tutor_service.service.http
    submitted = {"text": NAME, "meta": {"seen": NAME}}
    tutor_service.provider.queue_behaviours(answer_with_text("Hello."))
    turns = f"/v1/sessions/{session}/turns"
    sent = await http.post(
        turns, params={"wait": "30"}, json=submitted, headers={"Idempotency-Key": "first"}
    )
    assert sent.status_code == 200, sent.text
    display = f"/v1/sessions/{session}/turns/1/display"
    shown = await http.put(display, json={"text": f"<b>{NAME}</b>"})
    assert shown.status_code == 200
    await tutor_service.submit_and_watch(
        session, f"My card is {CARD}, take it.", answer_with_text("No.")
    )
    at = (await tutor_service.load_events(session))[-1].sequence
    whole = await tutor_service.post_command(
        session, "redactions", turn=1, of="text", reason="a name"
    )
    part = await http.post(
        f"/v1/sessions/{session}/redactions",
        json={"turn": 2, "of": "text", "reason": "a card", "pattern": r"\d[\d ]+\d"},
        headers={"Idempotency-Key": "second"},
    )
    assert (whole.status_code, part.status_code) == (200, 200), part.text
    for text in ("Three", "Four"):
        await tutor_service.submit_and_watch(session, text, answer_with_text("Well."))
    yield WithdrawnSession(session, at, submitted)


def list_readable_paths() -> Iterator[str]:
    """Yield the routes about sessions that are open to readers who may not see withheld texts."""
    for path, need in ROUTE_PERMISSIONS.items():
        others = path.replace("{session}", "").replace("{turn}", "").replace("{call}", "")
        if need.read not in {"prompts:read", "withheld:read"} and "{" not in others:
            yield path


@pytest.mark.parametrize("path", list(list_readable_paths()))
async def test_withdrawn_words_and_their_digests_are_in_no_answer_to_a_reader(
    tutor_service: TutorService, withdrawn: WithdrawnSession, path: str
) -> None:
    answer = await tutor_service.service.http.get(withdrawn.fill_path(path))
    assert answer.status_code < 500
    assert_says_nothing(answer.text)


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("/v1/sessions/{session}", None),
        ("/v1/sessions/{session}/history", "[withheld]"),
        ("/v1/sessions/{session}/history?at={at}", "[withheld]"),
        ("/v1/sessions/{session}/export", "[withheld]"),
        ("/v1/sessions/{session}/export?format=chat", "[withheld]"),
        ("/v1/sessions/{session}/events?limit=1000", "text-redacted"),
        ("/v1/events?limit=1000", "text-redacted"),
        ("/v1/sessions", "[withheld]"),
    ],
)
async def test_replacement_stands_where_the_words_were(
    tutor_service: TutorService, withdrawn: WithdrawnSession, place: str, says: str | None
) -> None:
    path = place.format(session=withdrawn.session, at=withdrawn.at)
    answer = await tutor_service.service.http.get(path)
    assert answer.status_code == 200
    assert_says_nothing(answer.text)
    assert says is None or says in answer.text


def assert_says_nothing(text: str) -> None:
    """Require that an answer has neither the words nor a digest that lets them be guessed."""
    body = json.dumps({"text": NAME, "meta": {"seen": NAME}})
    for word in (NAME, CARD):
        assert word not in text
    assert not CARD_DIGITS.search(text)
    for guess in (NAME, f"My card is {CARD}, take it.", body):
        assert compute_digest(guess).removeprefix("sha256:") not in text


async def test_no_event_of_a_reader_has_the_digest_of_a_command_with_the_words(
    tutor_service: TutorService, withdrawn: WithdrawnSession
) -> None:
    events = await tutor_service.load_events(withdrawn.session)
    hashes = {
        each.envelope.commandhash
        for each in events
        if each.envelope.commandkey in {"first", "second"} and each.envelope.commandhash
    }
    assert len(hashes) == 2
    answer = await tutor_service.service.http.get(
        f"/v1/sessions/{withdrawn.session}/events?limit=1000"
    )
    assert not [each for each in hashes if each in answer.text]


async def test_session_is_found_by_its_words_no_more(
    tutor_service: TutorService, withdrawn: WithdrawnSession
) -> None:
    service = tutor_service.service
    found = [
        len((await service.get_json(f"/v1/sessions?q={word}"))["sessions"])
        for word in (NAME, withdrawn.session)
    ]
    assert found == [0, 1]


async def test_next_prompt_has_what_stands_and_says_once_that_words_were_withdrawn(
    tutor_service: TutorService, withdrawn: WithdrawnSession
) -> None:
    prompts = [
        await tutor_service.fetch_prompt(withdrawn.session, f"{turn}.1") for turn in (2, 3, 4)
    ]
    said = [[each["content"] for each in prompt["messages"]] for prompt in prompts]
    assert NAME in said[0], "as it was sent before the redaction"
    for messages in said[1:]:
        assert messages[1] == "[withheld]"
        assert messages[3] == "My card is [withheld], take it."
        assert NAME not in str(messages)
        assert CARD not in str(messages)
    assert [WITHDRAWN in messages[0] for messages in said] == [False, True, False]
    assert CARD not in str(tutor_service.sent)


async def test_explanation_and_comparison_name_the_redactions(
    tutor_service: TutorService, withdrawn: WithdrawnSession
) -> None:
    service, session = tutor_service.service, withdrawn.session
    events = await tutor_service.load_events(session)
    first, second = [each.sequence for each in events if isinstance(each.event, TextRedacted)]
    why = await service.get_json(f"/v1/sessions/{session}/turns/3/why")
    (history,) = [each for each in why["parts"] if each["part"]["layer"] == "history"]
    assert [(each["first"], each["by"]["sequence"]) for each in history["removed"]] == [
        (1, first),
        (2, second),
    ]
    said_in = [each["sequence"] for each in history["by"]]
    assert said_in == sorted(said_in)
    assert said_in[-2:] == [first, second]
    (note,) = [each for each in why["parts"] if each["part"]["layer"] == "withdrawn_note"]
    assert [each["sequence"] for each in note["because"]] == [second]
    own = await service.get_json(f"/v1/sessions/{session}/turns/2/why")
    assert [(each["reason"], each["spans"]) for each in own["withheld_texts"]] == [
        ("a card", [{"begin": 11, "end": 30}])
    ]
    diff = await service.get_json(f"/v1/sessions/{session}/calls/2.1/diff/3.1")
    causes = {
        event["sequence"]
        for change in diff["changes"]
        for cause in change["because"]
        for event in cause["by"]
        if cause["what"] == "redacted"
    }
    assert {first, second} <= causes


async def test_log_verifies_and_an_audit_reads_what_was_withdrawn(
    tutor_service: TutorService, withdrawn: WithdrawnSession
) -> None:
    service, session = tutor_service.service, withdrawn.session
    verified = await service.get_json(f"/v1/sessions/{session}/verify")
    assert verified["findings"] == []
    stored = await service.http.get(f"/v1/sessions/{session}/events?stored=true&limit=1000")
    assert NAME in stored.text
    assert CARD in stored.text
