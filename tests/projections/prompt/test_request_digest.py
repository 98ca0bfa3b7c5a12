"""The digest of a request is that of its canonical form, however it was built."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from turnlog.events.content import compute_digest, encode_canonical
from turnlog.projections.prompt.chat_request import ChatMessage, ChatRequest

TEXTS = st.one_of(st.text(), st.just("long " * 4_000))

MESSAGES = st.builds(ChatMessage, st.sampled_from(["system", "user", "assistant"]), TEXTS)

VALUES = st.dictionaries(st.text(), st.one_of(st.text(), st.integers(), st.booleans()))

REQUESTS = st.builds(
    ChatRequest, st.text(), st.lists(MESSAGES).map(tuple), st.lists(VALUES).map(tuple), VALUES
)


@given(REQUESTS)
def test_the_digest_of_a_request_is_that_of_its_canonical_form(request: ChatRequest) -> None:
    assert request.digest == compute_digest(encode_canonical(request.encode_plain()))
    assert request.digest == compute_digest(encode_canonical(request.encode_plain())), (
        "also when it is remembered"
    )
