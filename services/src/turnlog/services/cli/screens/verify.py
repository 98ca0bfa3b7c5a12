"""The result of a verification: one line per promise, its findings, and a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from turnlog.services.cli.screens.palette import BAD, GOOD, QUIET, WARY
from turnlog.services.cli.screens.spelling import counted, one_line, short
from turnlog.services.gateway.payloads.verify import (
    FindingLine,
    FindingView,
    PromptsView,
    SummaryLine,
    VerifyView,
)

_MEANT: Final[Mapping[str, tuple[str, str]]] = {
    "intact": (GOOD, "every event continues the one before it, and no turn was settled twice"),
    "broken": (BAD, "something is not as it was written"),
    "witnessed": (GOOD, "nothing is missing, and what was noted is still there"),
    "unwitnessed": (WARY, "nothing is missing in between; a checkpoint would show a cut end"),
    "incomplete": (BAD, "something is missing"),
    "reproduced": (GOOD, "each prompt comes out byte for byte, both ways"),
    "unreproducible": (WARY, "not reproducible by this version"),
    "unchecked": (WARY, "what lies behind a hole cannot be had again"),
    "failed": (BAD, "prompts come out otherwise than they were recorded"),
    "equal": (GOOD, "the read models say what the log says"),
    "elsewhere": (WARY, "not compared: the read models have not come as far as the log"),
    "differ": (BAD, "the read models say something else"),
}
"""Colour and meaning of each verdict."""
_MARKS: Final = {GOOD: "✓", WARY: "-", BAD: "✗"}
_MOST: Final = 10
"""Findings shown of one promise; `-o json` has all."""
Found = tuple[str, FindingView]
"""A session and one of its findings."""


def report(session: VerifyView) -> RenderableType:
    """Render the verification of one session."""
    found = [(session.session, finding) for finding in session.findings]
    line = _verdict(session.verified, len(found))
    line.append(f" · {counted(1, 'session')}, {_extent(session.events, session.prompts)}")
    if session.head:
        line.append(f" · head {short(session.head)}", QUIET)
    return Group(_promises(session, found), Text(), line)


def log_report(log: SummaryLine, findings: Iterable[FindingLine]) -> RenderableType:
    """Render the verification of a whole log."""
    found = [(each.session, each.finding) for each in findings]
    line = _verdict(log.verified, len(found))
    line.append(f" · {counted(log.sessions, 'session')}, {_extent(log.events, log.prompts)}")
    line.append(f" · {log.seconds:.1f} s", QUIET)
    return Group(_promises(log, found), Text(), line)


def _promises(said: VerifyView | SummaryLine, found: Sequence[Found]) -> Table:
    table = Table.grid(padding=(0, 2))
    for promise in ("integrity", "completeness", "reproduction", "totals"):
        verdict: str = getattr(said, promise)
        colour, meaning = _MEANT[verdict]
        told = Text(verdict, colour).append(f" · {meaning}", "default")
        table.add_row(Text(_MARKS[colour], colour), Text(promise, "bold"), told)
        if promise == "reproduction":
            table.add_row("", "", Text(_prompts(said.prompts), QUIET))
        for line in _lines([each for each in found if each[1].verdict == promise]):
            table.add_row("", "", line)
    return table


def _prompts(prompts: PromptsView) -> str:
    told = f"{prompts.reference} by reference and {prompts.assembly} by assembly of {prompts.calls}"
    if prompts.unreproducible:
        told += f"; {prompts.unreproducible} not by this version: {prompts.why}"
    return told + (f"; {prompts.unchecked} not checked: {prompts.behind}" if prompts.behind else "")


def _lines(wrong: Sequence[Found]) -> Iterator[Text]:
    for each in wrong[:_MOST]:
        yield Text(one_line(spelt(each)), BAD)
    if len(wrong) > _MOST:
        yield Text(f"and {len(wrong) - _MOST} more", QUIET)


def spelt(found: Found) -> str:
    """Format a finding with its session and event."""
    session, finding = found
    event = "" if finding.sequence is None else f", event {finding.sequence}"
    return f"{session}{event}: {finding.detail}"


def _verdict(verified: bool, findings: int) -> Text:  # noqa: FBT001 - a verdict and its reasons
    if verified:
        return Text().append("verified", f"bold {GOOD}")
    return Text().append(f"not verified: {counted(findings, 'finding')}", f"bold {BAD}")


def _extent(events: int, prompts: PromptsView) -> str:
    return f"{counted(events, 'event')}, {counted(prompts.calls, 'prompt')}"
