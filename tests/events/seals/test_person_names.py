"""Names of people in sealed events: a pseudonym in the clear, the name where it is opened."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.events.seals.test_sealed_events import KEY, SAMPLES, SEAL, encode_drafts, encode_sealed
from turnlog.events.codec import BatchMessage, CommandRef, decode_event, encode_batch
from turnlog.events.content import PlainText, compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.events.fork_copy import copy_events
from turnlog.events.model.manifest import BlobSource
from turnlog.events.model.session_events import ShareChanged
from turnlog.events.model.turn_events import TurnExcluded, TurnFailed, TurnSubmitted
from turnlog.events.registry import EVENT_TYPES, KnownEvent
from turnlog.events.seals.person_names import PseudonymKey, find_name_paths, is_pseudonym
from turnlog.events.seals.sealed_payload import SealedPayload
from turnlog.events.testing import make_draft

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)

ANN = SEAL.pseudonyms.build_pseudonym("ann")

EARLIER = (
    b'{"specversion":"1.0","id":"00000000-0000-7000-8000-000000000001","source":"/turnlog/test'
    b'","type":"turnlog.turn-submitted.v1","subject":"s","time":"2026-11-21T09:30:00.000000Z",'
    b'"tenant":"t","sequence":1,"actor":"user:ann","commandkey":"k","sealedof":"s:3","sealed":'
    b'"m/7d/m9vZg7qBU3WwoetIg5JRdhuHCrvD3x9+42UwQ18mkitHAB6MbQZ2uP2SGps9tu8B6Hdr8SyRSE1+A85Yxl'
    b"ABBh+DxAXPqAfgUXu06Dj32qNxdrXhtf9+6/KPMXmNJsHoG/tTRc0+KrAS3I5IawmIiHCexsiyzhXbVD0QdphN/s"
    b'9Mgm2Byi1vvMV5A==","data":{"turn":1,"text":2,"user":"ann"}}'
)
"""An event as it was sealed before names were: its bytes never change."""

SEALED = (
    b'{"specversion":"1.0","id":"00000000-0000-7000-8000-000000000001","source":"/turnlog/test'
    b'","type":"turnlog.turn-submitted.v1","subject":"s","time":"2026-11-21T09:30:00.000000Z",'
    b'"tenant":"t","sequence":1,"actor":"user:~wrIIU2v3kSgPqCP6GbdHGQ","commandkey":"k","seale'
    b'dof":"s:3","sealed":"h5SiYMpsebopr9cYiSvq9o+zWaDvO0eJCqerPxFJbPDzTjZXUtv867wa/1R7uanVJkR'
    b"eL8n3Zk0hxk95PZMrFb2IDpxhngIvXVyHDPu8K8oGw9SBCIIHjM+mvt9Yv+ePN60TH6j/4lCjYMtpRyr/s69s5VI"
    b"sLIWrpdcjKOeS9N/uX5b5BiSDgHRIZKK/QFiHDFmnJkmUk7nplUBLAdRGSQITwUTAnibdvCpxgcE+WQXrazu5LGv"
    b'9BQ==","data":{"turn":1,"text":2,"user":"~wrIIU2v3kSgPqCP6GbdHGQ"}}'
)
"""The same event as it is sealed since then."""


def seal(event: KnownEvent, actor: str) -> BatchMessage:
    (message,) = encode_drafts([make_draft(event, actor=actor)]).messages
    return message


def open_again(stored: bytes, key: bytes | None = KEY) -> RecordedEvent:
    """Return stored bytes as a reader decodes them; those of an erased event without a key."""
    return decode_event(SealedPayload(bytes(stored), key), 1)


def iterate_models(annotation: Any) -> Iterator[type[BaseModel]]:  # noqa: ANN401 - any type
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for each in annotation.model_fields.values():
            yield from iterate_models(each.annotation)
    for each in get_args(annotation) if get_origin(annotation) else ():
        yield from iterate_models(each)


def test_every_field_of_a_session_that_names_a_person_is_marked() -> None:
    kinds = {model for kind in EVENT_TYPES.values() for model in iterate_models(kind)}
    named = {(kind, name) for kind in kinds for name in {"user", "owner"} & {*kind.model_fields}}
    assert (BlobSource, "user") in named
    assert {each for each in named if (each[1],) not in find_name_paths(each[0])} == set()


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: type(event).__name__)
def test_no_name_of_a_person_is_in_the_stored_bytes_of_an_event(event: KnownEvent) -> None:
    stored = seal(event, "user:ann").payload
    assert re.findall(rb'"(?:user:)?(?:ann|ben)"', stored) == []
    assert open_again(stored).envelope.actor == "user:ann"
    assert open_again(stored, None).envelope.actor == f"user:{ANN}"


@given(NAMES, NAMES)
def test_names_of_any_form_come_back_and_leave_their_pseudonyms(actor: str, user: str) -> None:
    event = TurnSubmitted(turn=1, text=PlainText(text=f'"{ANN}" and ~'), user=user)
    stored = seal(event, f"user:{actor}").payload
    recorded = open_again(stored)
    assert (recorded.event, recorded.envelope.actor) == (event, f"user:{actor}")
    assert json.loads(recorded.opened_bytes)["data"]["user"] == user
    erased = open_again(stored, None)
    assert isinstance(erased.event, TurnSubmitted)
    names = (erased.event.user or "", erased.envelope.actor.removeprefix("user:"))
    assert names == tuple(map(SEAL.pseudonyms.build_pseudonym, (user, actor)))
    assert all(map(is_pseudonym, names))


def test_pseudonym_is_that_of_a_tenant_and_of_one_name_alone() -> None:
    keys = (PseudonymKey(KEY), PseudonymKey(bytes(32)))
    built = {key.build_pseudonym(name) for key in keys for name in ("ann", "Ann", "ann ")}
    assert len(built) == 6
    assert keys[0].build_pseudonym(ANN) == ANN, "what an erasure left stays what it is"


@pytest.mark.parametrize("actor", ["worker", "client", "key:ann", "retention", f"user:{ANN}"])
def test_event_of_no_person_and_without_words_is_stored_as_it_is(actor: str) -> None:
    message = seal(TurnExcluded(turn=1), actor)
    (plain,) = encode_batch(
        "t", "s", None, [make_draft(TurnExcluded(turn=1), actor=actor)]
    ).messages
    assert message.payload == plain.payload
    assert not isinstance(message.payload, SealedPayload)


def test_text_in_the_clear_that_ends_with_a_pseudonym_stays_as_it_is() -> None:
    event = TurnFailed(turn=1, code=f'of "{ANN}', detail="a", retryable=False)
    assert open_again(seal(event, "user:ann").payload).event == event


def test_event_without_words_has_a_box_for_the_name_of_its_actor() -> None:
    stored = seal(TurnExcluded(turn=1), "user:ann").payload
    assert open_again(stored).event == TurnExcluded(turn=1)
    assert open_again(stored).envelope.actor == "user:ann"


def test_name_that_was_swapped_in_the_clear_does_not_open() -> None:
    other = SEAL.pseudonyms.build_pseudonym("eve").encode()
    for event, actor in (
        (TurnExcluded(turn=1), "user:ann"),
        (ShareChanged(user="ann", access="read"), "client"),
    ):
        stored = bytes(seal(event, actor).payload)
        assert stored.count(ANN.encode()) == 1
        with pytest.raises(Corrupt, match="a name of somebody else"):
            open_again(stored.replace(ANN.encode(), other))


def test_event_that_was_sealed_before_names_were_opens_as_it_did() -> None:
    command = CommandRef("k", compute_digest("b"))
    event = TurnSubmitted(turn=1, text=PlainText(text="hi"), user="ann")
    (message,) = encode_drafts([make_draft(event, command=command)]).messages
    assert message.payload == SEALED
    for stored in (EARLIER, SEALED):
        recorded = open_again(stored)
        assert (recorded.event, recorded.envelope.actor) == (event, "user:ann")
    left = open_again(EARLIER, None)
    assert (left.envelope.actor, left.load_data()["user"]) == ("user:ann", "ann")


def test_copy_in_a_fork_has_the_names_of_the_original() -> None:
    texts = [TurnSubmitted(turn=turn, text=PlainText(text="hi"), user="ben") for turn in (1, 2)]
    first, second = (
        decode_event(each.payload, each.sequence) for each in encode_sealed(*texts).messages
    )
    (copy,) = copy_events("fork", first.head, [second], "/turnlog/test").messages
    assert re.findall(rb'"(?:user:)?(?:ann|ben)"', copy.payload) == []
    recorded = copy.record_at(9)
    assert (recorded.event, recorded.envelope.actor) == (texts[1], "user:ann")
