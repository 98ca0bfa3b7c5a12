from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.replay.bundle_copies import BundleCopy, list_context_sequences
from tests.replay.golden_logs import get_version_folder, list_golden_logs
from tests.support.generators.event_samples import build_samples
from tests.support.sessions.reproduction_checks import (
    get_verification_means,
    verify_with_bundle_verifier,
)
from turnlog.events.model.call_events import AttemptEnded, ContextAssembled
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.events.registry import format_event_name
from turnlog.projections.audit.verify.session_verification import verify_session
from turnlog.projections.audit.verify.verification_report import VerificationReport
from turnlog.projections.prompt.assembly_inputs import ASSEMBLER_VERSION

RAISE = (
    "assembly gives another prompt than it did: take the change back, or raise ASSEMBLER_VERSION, "
    "keep the earlier rules for calls recorded by them, and record this version's log anew with "
    "`python -m tests.replay.golden_logs`"
)

ANEW = "record this version's log with `python -m tests.replay.golden_logs`"


def iterate_reports(copy: BundleCopy) -> Iterator[tuple[str, VerificationReport]]:
    for session in copy.sessions:
        yield (
            session,
            verify_session(copy.read_events(session), copy.read_texts(), get_verification_means()),
        )


def list_findings(copy: BundleCopy) -> list[str]:
    return [f"{name}: {each}" for name, report in iterate_reports(copy) for each in report.findings]


@pytest.fixture
def golden() -> BundleCopy:
    return BundleCopy.read_bundle(get_version_folder())


def count_prompts(copy: BundleCopy) -> int:
    return sum(len(list_context_sequences(copy, session)) for session in copy.sessions)


@pytest.mark.parametrize("log", list_golden_logs(), ids=lambda log: log.name)
def test_golden_log_is_reproduced_by_the_rules_of_its_version(log: Path) -> None:
    copy = BundleCopy.read_bundle(log)
    assert list_findings(copy) == [], RAISE
    reproduced = [report.prompts for _, report in iterate_reports(copy)]
    assert sum(each.reference for each in reproduced) == count_prompts(copy)
    assert sum(each.assembly for each in reproduced) == count_prompts(copy)


@pytest.mark.parametrize("log", list_golden_logs(), ids=lambda log: log.name)
def test_golden_log_is_verified_by_the_bundle_verifier(log: Path) -> None:
    copy = BundleCopy.read_bundle(log)
    for session in copy.sessions:
        assert list(verify_with_bundle_verifier(list(copy.read_events(session)), copy.blobs)) == []


def test_current_version_has_a_golden_log_that_is_completely_reproduced(golden: BundleCopy) -> None:
    events = [event.event for session in golden.sessions for event in golden.read_events(session)]
    made = [event.manifest.assembler for event in events if isinstance(event, ContextAssembled)]
    assert set(made) == {ASSEMBLER_VERSION}, ANEW
    again = [report.prompts for _, report in iterate_reports(golden)]
    assert sum(each.reference for each in again) == len(made)
    assert sum(each.assembly for each in again) == len(made)


UNPLAYED = {
    *("blueprint-moved", "child-ended", "entry-feedback-given", "schemas-requested"),
    *("summary-failed", "summary-undone", "queries-requested", "queries-failed"),
    # Of sealed sessions; those of the golden logs are plain.
    *("erasure-begun", "content-erased"),
}
"""Events of sessions that no golden log has."""


def test_golden_logs_contain_every_session_event_type_except_the_listed_ones() -> None:
    copies = [BundleCopy.read_bundle(folder) for folder in list_golden_logs()]
    events = [each for copy in copies for name in copy.sessions for each in copy.read_events(name)]
    found = {format_event_name(each.envelope.type) for each in events}
    kinds = {format_event_name(sample.type) for sample in build_samples().values()}
    assert kinds - found == UNPLAYED, ANEW


def test_current_version_records_the_end_of_an_answering_attempt_in_its_answer(
    golden: BundleCopy,
) -> None:
    events = [event.event for session in golden.sessions for event in golden.read_events(session)]
    ended = {event.outcome for event in events if isinstance(event, AttemptEnded)}
    assert ended == {"cancelled", "failed", "lost", "unasked"}, ANEW
    assert any(isinstance(event, TurnCompleted) and event.answer for event in events), ANEW


def change_token_count(event: dict[str, Any]) -> None:
    """Record a call as an assembler with another token count would."""
    event["data"]["manifest"]["tokens"] += 1


def name_unknown_assembler(event: dict[str, Any]) -> None:
    """Do the same as an assembler version whose rules this one does not have."""
    change_token_count(event)
    event["data"]["manifest"]["assembler"] = ASSEMBLER_VERSION + 1


def test_changed_assembly_without_a_new_version_fails_reproduction(golden: BundleCopy) -> None:
    for session in golden.sessions:
        last = list_context_sequences(golden, session)[-1]
        golden.change_event(session, last, change_token_count)
        golden.rewrite_chain(session)
        found = verify_session(
            golden.read_events(session), golden.read_texts(), get_verification_means()
        ).findings
        assert [(each.verdict, each.check) for each in found] == [("reproduction", "assembly")]
        assert found[0].sequence == last
        assert "its tokens is" in found[0].detail


def test_prompt_of_an_unknown_assembler_version_is_unreproducible_but_no_failure(
    golden: BundleCopy,
) -> None:
    for session in golden.sessions:
        fixed = list_context_sequences(golden, session)
        for sequence in fixed:
            golden.change_event(session, sequence, name_unknown_assembler)
        golden.rewrite_chain(session)
        report = verify_session(
            golden.read_events(session), golden.read_texts(), get_verification_means()
        )
        assert report.findings == ()
        assert report.prompts.unreproducible == len(fixed)
        assert report.prompts.reference == len(fixed), "its references are as good as ever"
