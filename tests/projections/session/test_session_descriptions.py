"""What a description of a session changes, as given, when and then."""

from __future__ import annotations

from typing import Any

import pytest

from turnlog.events.content import PlainText, SealedText, compute_digest
from turnlog.events.errors import Refused
from turnlog.events.model.session_events import SessionDescribed
from turnlog.projections.session.commands import CloseSession, DescribeSession
from turnlog.projections.session.session_description import SessionDescription, merge_metadata
from turnlog.projections.testing import STATE_ADAPTER, build_exchange, given, open_session


def describe_session(**stated: Any) -> DescribeSession:  # noqa: ANN401 - fields of any type
    return DescribeSession(SessionDescription(**stated))


TITLE = PlainText(text="Trip to Holm")

DESCRIBED = given(
    open_session(),
    SessionDescribed(title=TITLE, labels=("travel",), metadata={"thread": "t-17"}),
)


def test_description_records_only_the_fields_that_change() -> None:
    given(open_session()).when(describe_session(title=TITLE.text)).then(
        SessionDescribed(title=TITLE)
    )
    DESCRIBED.when(describe_session(title=TITLE.text, labels=("b", "b", "a"))).then(
        SessionDescribed(labels=("b", "a"))
    )
    DESCRIBED.when(describe_session(metadata={"seen": True})).then(
        SessionDescribed(metadata={"thread": "t-17", "seen": True})
    )


def test_empty_values_remove_and_are_no_change_where_there_is_nothing() -> None:
    empty = describe_session(title="", labels=(), metadata={"thread": None})
    removed = SessionDescribed(title=PlainText(text=""), labels=(), metadata={})
    DESCRIBED.when(empty).then(removed)
    DESCRIBED.apply_steps(removed).when(empty).then()
    state = DESCRIBED.apply_steps(empty).opened_state
    assert (state.title, state.labels, state.metadata) == (None, (), {})


def test_closed_session_is_described_and_stays_closed() -> None:
    closed = given(open_session(), *build_exchange("Hi", "Hello"), CloseSession("done"))
    closed.when(describe_session(title=TITLE.text)).then(SessionDescribed(title=TITLE))
    assert closed.apply_steps(SessionDescribed(title=TITLE)).opened_state.closed


def test_title_replaces_a_sealed_one() -> None:
    sealed = SealedText(sealed="eA==", key="k", digest=compute_digest("x"), characters=12)
    given(open_session(), SessionDescribed(title=sealed)).when(
        describe_session(title=TITLE.text)
    ).then(SessionDescribed(title=TITLE))


def test_state_with_a_description_survives_a_snapshot() -> None:
    state = DESCRIBED.opened_state
    assert STATE_ADAPTER.validate_json(STATE_ADAPTER.dump_json(state)) == state
    assert state.title is not None
    assert (state.title.sequence, state.title.field) == (2, "title")


@pytest.mark.parametrize(
    ("stated", "field"),
    [
        ({"title": "nul \0"}, "title"),
        ({"title": "half \ud83d"}, "title"),
        ({"title": "a\u0085b"}, "title"),
        ({"labels": ("ok", "half \udc00")}, "labels.1"),
        ({"labels": ("\u2029",)}, "labels.0"),
        ({"metadata": {"a": {"b": "\0"}}}, "metadata.a.b"),
        ({"metadata": {"a": float("nan")}}, "metadata.a"),
    ],
)
def test_text_that_is_not_one_storable_line_is_refused(stated: dict[str, Any], field: str) -> None:
    with pytest.raises(Refused) as refused:
        DESCRIBED.apply_steps(describe_session(**stated))
    assert refused.value.field == field


# The examples of RFC 7396, appendix A, whose target and patch are objects.
@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_metadata_are_merged_as_the_rfc_says(
    target: dict[str, Any], patch: dict[str, Any], result: dict[str, Any]
) -> None:
    before = {**target}
    assert merge_metadata(target, patch) == result
    assert target == before
