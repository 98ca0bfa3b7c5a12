"""Verifying a session: any change to its record is reported with its event."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from pydantic import JsonValue

from tests.support.generators.event_samples import build_samples
from tests.support.sessions.prompt_assembly import (
    assemble_next_prompt,
    build_blobs,
    open_with_blueprint,
    parse_blueprint,
)
from turnlog.events.codec import decode_event, encode_batch
from turnlog.events.content import Digest, PlainText, compute_digest
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.tool_events import (
    ApprovalDecided,
    ApprovalRequested,
    ToolCalled,
    ToolPin,
    ToolReturned,
    ToolsSnapshotted,
    ToolStarted,
)
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.events.registry import KnownEvent
from turnlog.events.store.ports import RawEvent
from turnlog.events.testing import make_draft, record_events
from turnlog.projections.audit.record.session_replay import BLOB_NAMING_TYPES, list_event_blobs
from turnlog.projections.audit.verify import session_verification
from turnlog.projections.audit.verify.audit_findings import AuditFinding
from turnlog.projections.audit.verify.hash_chain import ChainVerifier, WitnessedHead, decode_events
from turnlog.projections.audit.verify.session_verification import (
    VerificationContext,
    verify_session,
)
from turnlog.projections.audit.verify.verification_report import VerificationReport
from turnlog.projections.prompt.assembly_inputs import ASSEMBLER_VERSION
from turnlog.projections.prompt.sources.session_material import (
    InstalledExtensions,
    MaterialPins,
    SessionMaterial,
)
from turnlog.projections.session.commands import FixContext
from turnlog.projections.testing import (
    SessionScenario,
    claim_turn,
    complete_turn,
    get_attempt,
    submit_turn,
)

FILES = {"persona": "You are a guide."}
BLUEPRINT = parse_blueprint(
    """
blueprint: guide
version: 1
layers:
  persona: {file: persona.md, keep: always}
calls:
  reply:
    messages:
      - system: [persona]
      - history: recent
      - user: [input]
history:
  recent: {}
profiles:
  chat: {default: true, call: reply}
"""
)
PINNED = compute_digest("assistant")
BLOBS = {PINNED: "assistant", **build_blobs(FILES)}
"""The blobs that the events name; the session builders pin a blueprint of that name."""


def build_means() -> VerificationContext:
    return VerificationContext(
        InstalledExtensions({}, {}),
        {MaterialPins(PINNED, None, None): SessionMaterial(blueprint=BLUEPRINT)},
    )


def verify_events(
    events: Sequence[RecordedEvent],
    blobs: Mapping[Digest, str] = BLOBS,
    noted: WitnessedHead | None = None,
) -> VerificationReport:
    return verify_session(events, blobs, build_means(), noted)


def answer_turn(session: SessionScenario, text: str, reply: str) -> SessionScenario:
    """Say something and have it answered, the prompt recorded as a worker does."""
    session = session.apply_steps(submit_turn(text), claim_turn())
    found = assemble_next_prompt(session, BLUEPRINT, FILES)
    attempt = get_attempt(session.opened_state)
    fixed = FixContext(
        attempt=attempt,
        model="openai/test",
        parameters=dict(found.request.parameters),
        manifest=found.manifest,
    )
    return session.apply_steps(fixed, complete_turn(reply))


SESSION = answer_turn(
    answer_turn(open_with_blueprint(BLUEPRINT, FILES), "Where am I?", "Here."), "And now?", "Still."
)
EVENTS = SESSION.events
LAST = EVENTS[-1]
CALLS = [
    place for place, event in enumerate(EVENTS) if event.envelope.type.count("context-assembled")
]

Found = list[tuple[str, str, int | None]]


def list_findings(events: Sequence[RecordedEvent], noted: WitnessedHead | None = None) -> Found:
    """Name what is found: which promise fails, by which check, and where."""
    found = verify_events(events, noted=noted).findings
    return [(each.verdict, each.check, each.sequence) for each in found]


def drop_reproduction_findings(found: Found) -> Found:
    """Drop the findings that an altered record implies: prompts that cannot be reproduced."""
    return [each for each in found if each[0] != "reproduction"]


def drop_consequential_findings(report: VerificationReport) -> list[AuditFinding]:
    """Leave out what a hole brings with it: a turn whose tools or answers lie in it."""
    return [each for each in report.findings if each.check not in {"reference", "assembly"}]


def read_stored_event(event: RecordedEvent, payload: bytes) -> RecordedEvent:
    return decode_event(payload, event.stream_sequence)


def rewrite_chain(events: Sequence[RecordedEvent]) -> list[RecordedEvent]:
    """Write every digest of the chain anew, as somebody would who owns the whole log."""
    made: list[RecordedEvent] = []
    for event in events:
        event_data = json.loads(event.stored)
        if made:
            event_data["prevhash"] = made[-1].head.hash
        made.append(
            read_stored_event(event, json.dumps(event_data, separators=(",", ":")).encode())
        )
    return made


def test_unaltered_session_has_no_findings() -> None:
    report = verify_events(EVENTS)
    assert report.is_sound
    assert (report.events, report.head) == (len(EVENTS), LAST.head)
    assert (report.prompts.calls, report.prompts.reference, report.prompts.assembly) == (2, 2, 2)
    assert (report.verdicts.integrity, report.verdicts.completeness) == ("intact", "unwitnessed")
    assert (report.verdicts.reproduction, report.verdicts.totals) == ("reproduced", "elsewhere")
    assert (report.totals.turns, report.totals.calls) == (2, 2)


@pytest.mark.promise("P17")
@pytest.mark.parametrize("place", range(len(EVENTS) - 1))
def test_single_altered_byte_is_reported_at_its_event(place: int) -> None:
    event = EVENTS[place]
    altered = read_stored_event(
        event, event.stored.replace(b'"actor":"tester"', b'"actor":"nobody"')
    )
    found = list_findings((*EVENTS[:place], altered, *EVENTS[place + 1 :]))
    assert found == [("integrity", "chain", event.sequence)]


def test_altered_input_is_found_by_chain_and_by_both_reproductions() -> None:
    event = EVENTS[2]
    altered = read_stored_event(event, event.stored.replace(b"Where am I?", b"Where is he"))
    found = list_findings((*EVENTS[:2], altered, *EVENTS[3:]))
    assert found[0] == ("integrity", "chain", 3)
    assert {check for _, check, _ in found} == {"chain", "reference", "assembly"}


@pytest.mark.promise("P17")
def test_altered_last_event_is_found_only_with_a_witnessed_head() -> None:
    altered = read_stored_event(LAST, LAST.stored.replace(b"Still.", b"Never."))
    events = (*EVENTS[:-1], altered)
    assert list_findings(events) == []
    noted = WitnessedHead(LAST.sequence, LAST.head.hash)
    assert list_findings(events, noted) == [("integrity", "noted", LAST.sequence)]
    assert verify_events(EVENTS, noted=noted).verdicts.completeness == "witnessed"


@pytest.mark.promise("P17")
def test_missing_last_events_are_found_only_with_a_witnessed_head() -> None:
    assert list_findings(EVENTS[:-3]) == []
    noted = WitnessedHead(LAST.sequence, LAST.head.hash)
    assert list_findings(EVENTS[:-3], noted) == [("completeness", "noted", LAST.sequence)]
    assert verify_events(EVENTS[:-3], noted=noted).verdicts.completeness == "incomplete"


def test_history_rewritten_from_its_first_event_is_found_only_with_a_witnessed_head() -> None:
    bent = [read_stored_event(e, e.stored.replace(b'"tester"', b'"nobody"')) for e in EVENTS]
    rewritten = rewrite_chain(bent)
    assert list_findings(rewritten) == []
    noted = WitnessedHead(EVENTS[4].sequence, EVENTS[4].head.hash)
    assert list_findings(rewritten, noted) == [("integrity", "noted", EVENTS[4].sequence)]


@pytest.mark.parametrize("place", range(len(EVENTS) - 1))
def test_missing_event_is_reported_and_later_prompts_are_not_checked(place: int) -> None:
    report = verify_events((*EVENTS[:place], *EVENTS[place + 1 :]))
    found: Found = [(each.verdict, each.check, each.sequence) for each in report.findings]
    # Of what a turn asked for, the hole may have taken the answer.
    assert drop_reproduction_findings(found) == [
        ("completeness", "sequence", EVENTS[place].sequence)
    ]
    assert report.verdicts.integrity == "intact"
    assert report.prompts.unchecked == sum(call > place for call in CALLS)


def test_reordered_events_are_found() -> None:
    swapped = (*EVENTS[:3], EVENTS[4], EVENTS[3], *EVENTS[5:])
    found = drop_reproduction_findings(list_findings(swapped))
    assert ("integrity", "sequence", 4) in found


def test_duplicate_event_is_found() -> None:
    found = list_findings((*EVENTS[:3], EVENTS[2], *EVENTS[3:]))
    assert drop_reproduction_findings(found) == [("integrity", "sequence", 3)]


def test_inserted_event_is_found() -> None:
    forged = encode_batch(
        "acme",
        "s1",
        EVENTS[2].head,
        [
            make_draft(
                TurnCompleted(turn=1, call="1.1", text=PlainText(text="Forged."), finish="stop")
            )
        ],
    )
    put_in = decode_event(forged.messages[0].payload, EVENTS[3].stream_sequence)
    found = list_findings((*EVENTS[:3], put_in, *EVENTS[3:]))
    assert ("integrity", "sequence", 4) in found


def test_an_event_of_another_session_is_found() -> None:
    event = EVENTS[2]
    moved = read_stored_event(event, event.stored.replace(b'"subject":"s1"', b'"subject":"s2"'))
    assert ("integrity", "chain", 3) in list_findings((*EVENTS[:2], moved, *EVENTS[3:]))


def test_two_spliced_logs_are_found_at_the_splice() -> None:
    other = answer_turn(
        answer_turn(open_with_blueprint(BLUEPRINT, FILES), "Who am I?", "You."),
        "And now?",
        "Still.",
    ).events
    spliced = (*EVENTS[:5], *other[5:])
    assert drop_reproduction_findings(list_findings(spliced)) == [("integrity", "chain", 5)]


def test_first_event_with_a_previous_hash_is_found() -> None:
    batch = encode_batch(
        "acme",
        "s1",
        ChainHead(0, 7, compute_digest("before")),
        [make_draft(EVENTS[0].event)],  # type: ignore[arg-type]
    )
    first = decode_event(batch.messages[0].payload, 8)
    assert list_findings((first,)) == [("integrity", "chain", 1)]


def test_turn_answered_twice_is_found_even_if_the_chain_is_valid() -> None:
    again = TurnCompleted(turn=2, call="2.1", text=PlainText(text="Or not."), finish="stop")
    report = verify_events(SESSION.append_events(again).events)
    (found,) = report.findings
    assert (found.check, found.sequence) == ("answers", len(EVENTS) + 1)
    assert found.detail == f"turn 2 was settled before, by event {LAST.sequence}"
    assert report.prompts.assembly == 2


def test_turn_answered_after_its_redaction_is_found() -> None:
    withheld = ReplyRedacted(turn=9, reason="secret", rule="r", replacement=PlainText(text="-"))
    again = TurnCompleted(turn=9, call="9.1", text=PlainText(text="Or not."), finish="stop")
    assert list_findings(SESSION.append_events(withheld, again).events) == [
        ("integrity", "answers", len(EVENTS) + 2)
    ]
    redacted_later = withheld.model_copy(update={"turn": 2})
    assert list_findings(SESSION.append_events(redacted_later).events) == []


def test_tool_call_without_result_and_result_without_call_are_found() -> None:
    called = ToolCalled(turn=2, call="2.1", id="a", tool="look", arguments="{}")
    back = ToolReturned(turn=2, call="2.1", id="b", tool="look", outcome="accepted")
    assert list_findings(SESSION.append_events(called).events) == [
        ("integrity", "tools", len(EVENTS) + 1)
    ]
    assert list_findings(SESSION.append_events(back).events) == [
        ("integrity", "tools", len(EVENTS) + 1)
    ]
    returned = back.model_copy(update={"id": "a"})
    assert list_findings(SESSION.append_events(called, returned).events) == []
    # The same id may be asked for again once it is back, as providers do that give none
    assert list_findings(SESSION.append_events(called, returned, called, returned).events) == []


def test_tool_requested_or_returned_twice_or_started_unrequested_is_found() -> None:
    called = ToolCalled(turn=2, call="2.1", id="a", tool="look", arguments="{}")
    begun = ToolStarted(turn=2, call="2.1", id="a", tool="look", attempt=2)
    back = ToolReturned(turn=2, call="2.1", id="a", tool="look", outcome="answered")
    end = len(EVENTS)
    assert list_findings(SESSION.append_events(called, begun, back).events) == []
    assert list_findings(SESSION.append_events(called, begun, begun, back).events) == [], (
        "by another worker"
    )
    for bad, at in (([called, called, back], 2), ([called, back, back], 3), ([begun], 1)):
        assert list_findings(SESSION.append_events(*bad).events) == [
            ("integrity", "tools", end + at)
        ]


def test_tool_run_without_its_required_approval_is_found() -> None:
    pin = ToolPin(digest=PINNED, server="shop", tool="look", approval=True)
    pinned = ToolsSnapshotted(
        profile=SESSION.opened_state.profile,
        digest=PINNED,
        tools={"look": pin},
        full=PINNED,
        names=PINNED,
    )
    use: dict[str, Any] = {"turn": 2, "call": "2.1", "id": "a", "tool": "look"}
    called, begun = ToolCalled(**use, arguments="{}"), ToolStarted(**use, attempt=2)
    back = ToolReturned(**use, outcome="answered")
    asked = ApprovalRequested(**use, approval=1, deadline="2026-01-01T00:00:00.000000Z")
    approved = ApprovalDecided(**use, approval=1, decision="approve")
    refused = ApprovalDecided(**use, approval=1, decision="refuse")
    end = len(EVENTS)
    sound = (pinned, called, asked, approved, begun, back)
    assert list_findings(SESSION.append_events(*sound).events) == []
    bad: list[tuple[list[KnownEvent], int]] = [
        ([pinned, called, begun, back], 3),
        ([pinned, called, asked, begun, approved, back], 4),
        ([pinned, called, asked, refused, begun, back], 5),
    ]
    for events, at in bad:
        assert list_findings(SESSION.append_events(*events).events) == [
            ("integrity", "tools", end + at)
        ]


def test_tool_run_with_other_arguments_than_approved_is_found() -> None:
    use: dict[str, Any] = {"turn": 2, "call": "2.1", "id": "a", "tool": "look"}
    asked, edited, other = ('{"what":"hammer"}', '{"what":"nail"}', '{"what":"saw"}')
    called = ToolCalled(**use, arguments=asked)
    back = ToolReturned(**use, outcome="answered")

    decide = partial(ApprovalDecided, **use, approval=1, decision="approve")

    def start(arguments: str) -> ToolStarted:
        return ToolStarted(**use, attempt=2, ran=compute_digest(arguments))

    shown = compute_digest(asked)
    stays = decide(shown=shown, approved=shown)
    edit = decide(shown=shown, edited=edited, approved=compute_digest(edited))
    for sound in ((called, stays, start(asked), back), (called, edit, start(edited), back)):
        assert list_findings(SESSION.append_events(*sound).events) == []
    end = len(EVENTS)
    bad: list[tuple[list[KnownEvent], int]] = [
        ([called, stays, start(edited), back], 3),
        ([called, edit, start(asked), back], 3),
        ([called, edit, ToolStarted(**use, attempt=2), back], 3),
        ([called, decide(shown=compute_digest(other)), ToolStarted(**use, attempt=2), back], 2),
        ([called, decide(approved=compute_digest(other)), start(other), back], 2),
    ]
    for events, at in bad:
        assert list_findings(SESSION.append_events(*events).events) == [
            ("integrity", "tools", end + at)
        ]


@pytest.mark.parametrize(
    ("blobs", "verdict"),
    [
        ({PINNED: "assistant"}, "completeness"),
        (
            {PINNED: "assistant", **dict.fromkeys(build_blobs(FILES), "You are a thief.")},
            "integrity",
        ),
    ],
)
def test_missing_or_altered_blob_is_found_with_every_prompt_that_includes_it(
    blobs: dict[str, str], verdict: str
) -> None:
    report = verify_events(EVENTS, blobs)
    first, *rest = report.findings
    assert (first.verdict, first.check, first.sequence) == (verdict, "blobs", 2)
    assert [each.check for each in rest] == ["reference", "assembly"] * 2
    assert rest[0].detail.startswith("call 1.1: ")
    assert (report.prompts.reference, report.prompts.assembly) == (0, 0)


def test_blobs_are_listed_for_every_event_type_that_references_them() -> None:
    for each in record_events(*build_samples().values()):
        assert (type(each.event) in BLOB_NAMING_TYPES) or not tuple(list_event_blobs(each)), (
            each.envelope.type
        )


def test_missing_retrieved_text_is_found_even_if_no_prompt_includes_it() -> None:
    retrieved = build_samples()["knowledge-retrieved"].model_copy(update={"turn": 2, "call": "2.1"})
    events = SESSION.append_events(retrieved).events
    assert ("completeness", "blobs", len(EVENTS) + 1) in list_findings(events)


def test_prompt_recorded_with_another_model_is_found() -> None:
    session = open_with_blueprint(BLUEPRINT, FILES).apply_steps(submit_turn("Hi"), claim_turn())
    found = assemble_next_prompt(session, BLUEPRINT, FILES)
    attempt = get_attempt(session.opened_state)
    swapped = FixContext(
        attempt=attempt, model="openai/other", parameters={}, manifest=found.manifest
    )
    report = verify_events(session.apply_steps(swapped).events)
    assert [finding.check for finding in report.findings] == ["reference", "assembly"]


@pytest.mark.parametrize(("digest", "checks"), [(None, []), ("sha256:" + "0" * 64, ["reference"])])
def test_body_digest_that_differs_from_the_sent_body_is_found(
    digest: Digest | None, checks: list[str]
) -> None:
    session = open_with_blueprint(BLUEPRINT, FILES).apply_steps(submit_turn("Hi"), claim_turn())
    found = assemble_next_prompt(session, BLUEPRINT, FILES)
    attempt = get_attempt(session.opened_state)
    sent = compute_digest(found.request.build_chat_body())
    parameters = dict(found.request.parameters)
    fixed = FixContext(
        attempt=attempt,
        model="openai/test",
        parameters=parameters,
        manifest=found.manifest,
        body_digest=digest or sent,
    )
    report = verify_events(session.apply_steps(fixed).events)
    assert [finding.check for finding in report.findings] == checks


def rewrite_manifest(place: int, **changed: JsonValue) -> list[RecordedEvent]:
    """Give the session with another manifest at a call, the chain written anew behind it."""
    event = EVENTS[place]
    event_data = json.loads(event.stored)
    event_data["data"]["manifest"].update(changed)
    bent = read_stored_event(event, json.dumps(event_data, separators=(",", ":")).encode())
    return rewrite_chain((*EVENTS[:place], bent, *EVENTS[place + 1 :]))


def test_edited_manifest_with_a_matching_digest_is_found_by_reassembly() -> None:
    event = EVENTS[CALLS[1]]
    manifest = json.loads(event.stored)["data"]["manifest"]
    parts = [part for part in manifest["parts"] if part["layer"] != "persona"]
    for part in parts:
        part["message"] -= 1
    texts = [("user", "Where am I?"), ("assistant", "Here."), ("user", "And now?")]
    messages: list[dict[str, JsonValue]] = [{"role": r, "content": text} for r, text in texts]
    request: dict[str, JsonValue] = {
        "messages": [*messages],
        "model": "openai/test",
        "parameters": {},
        "tools": [],
    }
    canonical = json.dumps(request, sort_keys=True, separators=(",", ":"))
    report = verify_events(
        rewrite_manifest(CALLS[1], parts=parts, digest=compute_digest(canonical))
    )
    (found,) = report.findings
    assert (found.check, found.sequence) == ("assembly", event.sequence)
    assert "part persona" in found.detail
    assert report.verdicts.reproduction == "failed"


def test_edited_figure_of_a_manifest_is_reported_with_both_values() -> None:
    tokens = json.loads(EVENTS[CALLS[0]].stored)["data"]["manifest"]["tokens"]
    (found,) = verify_events(rewrite_manifest(CALLS[0], tokens=tokens + 7)).findings
    assert found.detail == f"call 1.1: manifest: its tokens is {tokens}, recorded as {tokens + 7}"


def test_prompt_of_an_older_assembler_that_differs_is_unreproducible_and_no_failure() -> None:
    report = verify_events(rewrite_manifest(CALLS[1], assembler=0, tokens=1))
    assert report.is_sound
    assert (report.verdicts.reproduction, report.prompts.unreproducible) == ("unreproducible", 1)
    assert report.prompts.why == f"it was assembled by version 0, and this is {ASSEMBLER_VERSION}"
    assert (report.prompts.reference, report.prompts.assembly) == (2, 1)


def test_invalid_call_kind_in_a_manifest_is_a_finding_and_no_exception() -> None:
    report = verify_events(rewrite_manifest(CALLS[1], kind="prophesy"))
    assert [each.check for each in report.findings] == ["assembly"]


def test_a_session_without_events_has_no_head() -> None:
    report = verify_events(())
    assert report.is_sound
    assert report.head is None


TYPE = b'"type":"turnlog.'
"""The bytes of an event before its position."""
DATA = b'"data":{'
"""The bytes of an event after its position."""


@pytest.mark.parametrize("field", [TYPE, DATA], ids=["before its place", "behind its place"])
@pytest.mark.parametrize("place", range(1, len(EVENTS)))
def test_undecodable_event_is_reported_once_with_the_calls_it_leaves_unchecked(
    place: int, field: bytes
) -> None:
    raws = [RawEvent("session.acme.s1.x", each.stream_sequence, each.stored) for each in EVENTS]
    raws[place] = replace(raws[place], stored=raws[place].stored.replace(field, b"[" + field))
    events, unread = decode_events(raws)
    report = verify_session(events, BLOBS, build_means(), undecodable=unread)
    bad = EVENTS[place].sequence
    assert [(each.verdict, each.sequence) for each in drop_consequential_findings(report)] == [
        ("integrity", bad)
    ]
    behind = [EVENTS[call].event for call in CALLS if call > place]
    assert report.prompts.unchecked == len(behind)
    if behind:
        first = f"calls? {getattr(behind[0], 'call', '')} "
        assert re.match(first, report.prompts.behind)
        assert report.prompts.behind.endswith(f"since event {bad} cannot be read")


def test_inserted_undecodable_event_does_not_hide_later_findings() -> None:
    first, second, third, fourth = (
        RawEvent("session.acme.s1.x", each.stream_sequence, each.stored) for each in EVENTS[:4]
    )
    between = RawEvent("session.acme.s1.x", 99, b"?")
    noted = ChainVerifier({("acme", "s1"): WitnessedHead(4, compute_digest("another"))})
    assert list_chain_findings(noted, first, second, third, between, fourth) == [
        ("log", 4),
        ("noted", 4),
    ]
    forged = replace(fourth, stored=fourth.stored.replace(b'"prevhash":"', b'"prevhash":"?'))
    found = list_chain_findings(ChainVerifier(), first, second, third, between, forged)
    assert found == [("log", 4), ("chain", 3)]


def list_chain_findings(chains: ChainVerifier, *raws: RawEvent) -> list[tuple[str, int | None]]:
    found = filter(None, map(chains.check_event, raws))
    return [(finding.check, finding.sequence) for _, finding in found]


def test_finding_of_a_stray_message_repeats_nothing_of_it() -> None:
    stored = b'{"tenant": "t", "subject": "\\u001b[2J", "sequence": 1}'
    found = ChainVerifier().check_event(RawEvent("session.t.s.turn", 1, stored))
    assert found
    assert found[1].detail == (
        "the message at stream sequence 1 is no event: it is an event of another session"
    )


@pytest.mark.promise("P17")
def test_events_on_which_a_check_raises_are_a_finding_and_not_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def raise_error(events: Sequence[RecordedEvent]) -> Iterator[AuditFinding]:
        raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, f"in {len(events)} events")

    checks = [("children", raise_error), *session_verification.RULE_CHECKS]
    monkeypatch.setattr(session_verification, "RULE_CHECKS", checks)
    report = verify_events(EVENTS)
    (finding,) = report.findings
    assert (finding.verdict, finding.check) == ("integrity", "children")
    assert finding.detail == "the events cannot be checked: UnicodeEncodeError"
