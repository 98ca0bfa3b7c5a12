from __future__ import annotations

from dataclasses import replace

import pytest

from turnlog.events.model.turn_events import InheritableReference, ReferenceUpdated, TurnCompleted
from turnlog.projections.blueprint.schema.lookups.resolver_specs import (
    InheritanceSpec,
    ReferencesSpec,
)
from turnlog.projections.session.commands import CompleteTurn, FallBack, ResolveTurn
from turnlog.projections.session.reference_inheritance import (
    InheritanceReason,
    ResolvedReferences,
    StatedReferences,
    resolve_references,
)
from turnlog.projections.session.state import TurnReference
from turnlog.projections.testing import (
    SAMPLE_SPENT,
    CommandOrFactory,
    claim_turn,
    get_attempt,
    given,
    open_session,
    submit_turn,
)

SPEC = ReferencesSpec(
    inherit={"ticker": InheritanceSpec(intents=("prices", "risk"))},
    allowed_entities=("funds",),
    max_age_turns=2,
)

LAST = TurnReference(
    turn=3,
    identifiers={"ticker": "AAAA11"},
    intent="prices",
    entity="funds",
    at="2026-01-01T00:00:00Z",
)

ASKED = StatedReferences(4, "risk", "funds")


def test_reference_stated_in_the_text_takes_precedence() -> None:
    found = resolve_references(SPEC, LAST, replace(ASKED, identifiers={"ticker": "BBBB11"}))
    assert (found.identifiers, found.is_inherited, found.reason) == (
        {"ticker": "BBBB11"},
        False,
        "in-text",
    )


def test_missing_reference_is_inherited_from_the_last_answered_turn() -> None:
    found = resolve_references(SPEC, LAST, replace(ASKED, identifiers={"month": 3}))
    assert found.identifiers == {"ticker": "AAAA11", "month": 3}
    assert (found.is_inherited, found.reason) == (True, "inherited")


@pytest.mark.parametrize(
    ("spec", "last", "stated", "reason"),
    [
        (None, LAST, ASKED, "not-remembered"),
        (
            ReferencesSpec(inherit={"ticker": InheritanceSpec(enabled=False)}),
            LAST,
            ASKED,
            "not-enabled",
        ),
        (SPEC, LAST, replace(ASKED, intent="news"), "intent-not-listed"),
        (SPEC, LAST, replace(ASKED, intent=None), "intent-not-listed"),
        (SPEC, LAST, replace(ASKED, entity="shares"), "entity-not-allowed"),
        (SPEC, LAST, replace(ASKED, entity=None), "entity-not-allowed"),
        (SPEC, None, ASKED, "no-reference"),
        (SPEC, replace(LAST, identifiers={"month": 1}), ASKED, "no-reference"),
        (SPEC, LAST, replace(ASKED, turn=6), "too-old"),
    ],
)
def test_policy_prevents_inheritance_and_the_reason_is_returned(
    spec: ReferencesSpec | None,
    last: TurnReference | None,
    stated: StatedReferences,
    reason: InheritanceReason,
) -> None:
    found = resolve_references(spec, last, stated)
    assert (found.identifiers, found.is_inherited, found.reason) == ({}, False, reason)


def test_age_of_a_reference_is_counted_in_turns() -> None:
    assert resolve_references(SPEC, LAST, replace(ASKED, turn=5)).is_inherited
    endless = SPEC.model_copy(update={"max_age_turns": 0})
    assert resolve_references(endless, LAST, replace(ASKED, turn=500)).is_inherited


ABOUT = InheritableReference(identifiers={"ticker": "AAAA11"}, intent="prices", entity="funds")

RESOLVED = given(
    open_session(),
    submit_turn("What does AAAA11 cost?"),
    claim_turn(),
    lambda state: ResolveTurn(
        attempt=get_attempt(state),
        resolver="finance",
        references=ResolvedReferences({"ticker": "AAAA11"}, is_inherited=False, reason="in-text"),
        results="[]",
        answer="It costs 9.",
        intent="prices",
        entity="funds",
    ),
)


def complete_about(references: ReferencesSpec | None) -> CommandOrFactory:
    return lambda state: CompleteTurn(
        attempt=get_attempt(state),
        text="9.",
        finish="stop",
        spent=SAMPLE_SPENT,
        references=references,
    )


def fall_back(text: str) -> CommandOrFactory:
    return lambda state: FallBack(
        attempt=get_attempt(state),
        text=text,
        spent=SAMPLE_SPENT,
        code="timeout",
        detail="no answer",
        references=SPEC,
    )


def test_completed_turn_records_its_resolved_references() -> None:
    (completed,) = RESOLVED.when(complete_about(SPEC)).events
    assert isinstance(completed, TurnCompleted)
    assert completed.reference == ABOUT
    (unasked,) = RESOLVED.when(complete_about(None)).events
    assert isinstance(unasked, TurnCompleted)
    assert unasked.reference is None


@pytest.mark.parametrize(("text", "about"), [("It costs 9.", ABOUT), ("", None)])
def test_fallback_records_resolved_references_unless_it_has_no_answer(
    text: str, about: InheritableReference | None
) -> None:
    *_, completed = RESOLVED.when(fall_back(text)).events
    assert isinstance(completed, TurnCompleted)
    assert completed.reference == about


def test_separate_reference_event_of_earlier_releases_yields_the_same_state() -> None:
    now = RESOLVED.apply_steps(complete_about(SPEC)).state
    earlier = RESOLVED.apply_steps(
        complete_about(None),
        ReferenceUpdated(turn=1, identifiers={"ticker": "AAAA11"}, intent="prices", entity="funds"),
    ).state
    assert now is not None
    assert earlier is not None
    (mine,), (theirs,) = now.references, earlier.references
    assert replace(mine, at="") == replace(theirs, at="")
