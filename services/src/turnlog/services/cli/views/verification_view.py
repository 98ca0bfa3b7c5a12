"""The result of a verification: one line per promise, its findings, and a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from turnlog.projections.audit.verify.audit_findings import AuditFinding
from turnlog.projections.audit.verify.verdicts import ReproductionCounts
from turnlog.services.api.verify_payloads import (
    VerificationView,
    VerifyFindingLine,
    VerifySummaryLine,
)
from turnlog.services.cli.views.text_format import format_count, format_digest, format_one_line
from turnlog.services.cli.views.theme import BAD, GOOD, MUTED, WARNING

_VERDICTS: Final[Mapping[str, tuple[str, str]]] = {
    "intact": (GOOD, "every event continues the one before it, and no turn was settled twice"),
    "broken": (BAD, "a check of the stored events failed"),
    "witnessed": (GOOD, "nothing is missing, and all noted events still exist"),
    "unwitnessed": (WARNING, "no gaps; only a checkpoint shows a truncated end"),
    "incomplete": (BAD, "something is missing"),
    "reproduced": (GOOD, "every prompt reproduced byte for byte, both ways"),
    "erased": (GOOD, "every prompt reproduced, but those with words that were erased"),
    "unreproducible": (WARNING, "not reproducible by this version"),
    "unchecked": (WARNING, "prompts after a gap, or sealed without a keyring, are not checked"),
    "failed": (BAD, "a reproduced prompt differs from the recorded one"),
    "equal": (GOOD, "the read models equal the log"),
    "elsewhere": (WARNING, "not compared: the read models lag behind the log, or cannot be read"),
    "differ": (BAD, "the read models differ from the log"),
}
"""Colour and meaning of each verdict."""

_MARKS: Final = {GOOD: "✓", WARNING: "-", BAD: "✗"}

_MAX_FINDINGS: Final = 10
"""Findings shown of one promise; `-o json` has all."""

SessionFinding = tuple[str | None, AuditFinding]
"""A session and one of its findings; None for a finding about a whole stream."""


def render_session_verification(session: VerificationView) -> RenderableType:
    """Render the verification of one session."""
    found: list[SessionFinding] = [
        (None if finding.check == "stream" else session.session, finding)
        for finding in session.findings
    ]
    children = session.children
    found += [(child.session, finding) for child in children for finding in child.findings]
    line = _render_verdict(session.verified, len(found))
    line.append(
        f" · {format_count(1, 'session')}, {_format_extent(session.events, session.prompts)}"
    )
    if children:
        calls = sum(child.prompts.calls for child in children)
        line.append(f" · {format_count(len(children), 'child session')} with")
        line.append(f" {format_count(calls, 'prompt')}")
    if session.head:
        line.append(f" · head {format_digest(session.head)}", MUTED)
    return Group(_render_promises(session, found), Text(), line)


def render_log_verification(
    log: VerifySummaryLine, findings: Iterable[VerifyFindingLine]
) -> RenderableType:
    """Render the verification of a whole log."""
    found: list[SessionFinding] = [(each.session, each.finding) for each in findings]
    line = _render_verdict(log.verified, len(found))
    line.append(
        f" · {format_count(log.sessions, 'session')}, {_format_extent(log.events, log.prompts)}"
    )
    if log.installation_events:
        line.append(f", {format_count(log.installation_events, 'event')} of keys")
    line.append(f" · {log.seconds:.1f} s", MUTED)
    return Group(_render_promises(log, found), Text(), line)


def _render_promises(
    result: VerificationView | VerifySummaryLine, found: Sequence[SessionFinding]
) -> Table:
    table = Table.grid(padding=(0, 2))
    for promise in ("integrity", "completeness", "reproduction", "totals"):
        verdict: str = getattr(result, promise)
        colour, meaning = _VERDICTS[verdict]
        verdict_text = Text(verdict, colour).append(f" · {meaning}", "default")
        table.add_row(Text(_MARKS[colour], colour), Text(promise, "bold"), verdict_text)
        if promise == "reproduction":
            table.add_row("", "", Text(_describe_prompts(result.prompts), MUTED))
        for line in _render_findings([each for each in found if each[1].verdict == promise]):
            table.add_row("", "", line)
    return table


def _describe_prompts(prompts: ReproductionCounts) -> str:
    summary = (
        f"{prompts.reference} by reference and {prompts.assembly} by assembly of {prompts.calls}"
    )
    if prompts.erased:
        summary += f"; {prompts.erased} erased"
    if prompts.unreproducible:
        summary += f"; {prompts.unreproducible} not by this version: {prompts.why}"
    return summary + (
        f"; {prompts.unchecked} not checked: {prompts.behind}" if prompts.behind else ""
    )


def _render_findings(wrong: Sequence[SessionFinding]) -> Iterator[Text]:
    for each in wrong[:_MAX_FINDINGS]:
        yield Text(format_one_line(format_finding(each)), BAD)
    if len(wrong) > _MAX_FINDINGS:
        yield Text(f"and {len(wrong) - _MAX_FINDINGS} more", MUTED)


def format_finding(found: SessionFinding) -> str:
    """Format a finding with its session and event."""
    session, finding = found
    if session is None:
        return finding.detail
    event = "" if finding.sequence is None else f", event {finding.sequence}"
    return f"{session}{event}: {finding.detail}"


def _render_verdict(verified: bool, findings: int) -> Text:  # noqa: FBT001 - a verdict and its reasons
    if verified:
        return Text().append("verified", f"bold {GOOD}")
    return Text().append(f"not verified: {format_count(findings, 'finding')}", f"bold {BAD}")


def _format_extent(events: int, prompts: ReproductionCounts) -> str:
    return f"{format_count(events, 'event')}, {format_count(prompts.calls, 'prompt')}"
