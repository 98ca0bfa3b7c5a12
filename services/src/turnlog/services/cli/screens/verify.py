"""What verifying came to: a line a check, what is wrong below it, and one word at the end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from turnlog.services.cli.screens.palette import BAD, GOOD, QUIET
from turnlog.services.cli.screens.spelling import counted, one_line, short
from turnlog.services.gateway.payloads.verify import FindingView, VerifyView

_CHECKS: Final[Mapping[str, str]] = {
    "log": "every event can be read",
    "sequence": "each session counts 1 to n, without a gap or a repeat",
    "chain": "each event names the digest of the one before it",
    "answers": "no turn was settled twice",
    "prompts": "each reads back byte for byte as it was sent",
}
UNREAD: Final = "log"
"""Where this check finds something, the others have nothing to look at."""
_MOST: Final = 10
"""Findings shown of one check; `-o json` gives all."""
Found = tuple[str, FindingView]
"""A finding and its session."""


def report(reports: Sequence[VerifyView]) -> RenderableType:
    """Show a verdict on some sessions."""
    table = Table.grid(padding=(0, 2))
    found = tuple(_found(reports))
    unread = {session for session, finding in found if finding.check == UNREAD}
    for check in (*_CHECKS, *sorted({finding.check for _, finding in found} - set(_CHECKS))):
        wrong = [each for each in found if each[1].check == check]
        looked = check == UNREAD or len(unread) < len(reports)
        table.add_row(_mark(wrong, looked=looked), Text(check, "bold"), _meaning(check, unread))
        for each in wrong[:_MOST]:
            table.add_row("", "", Text(one_line(spelt(each)), BAD))
        if len(wrong) > _MOST:
            table.add_row("", "", Text(f"and {len(wrong) - _MOST} more", QUIET))
    return Group(table, Text(), _verdict(reports, found))


def _mark(wrong: Sequence[Found], *, looked: bool) -> Text:
    if wrong:
        return Text("✗", BAD)
    return Text("✓", GOOD) if looked else Text("-", QUIET)


def _meaning(check: str, unread: Collection[str]) -> Text:
    meaning = Text(_CHECKS.get(check, ""))
    if unread and check != UNREAD:
        meaning.append(f"; not looked at in {counted(len(unread), 'session')}", QUIET)
    return meaning


def spelt(found: Found) -> str:
    """Name what is wrong by session and event."""
    session, finding = found
    event = "" if finding.sequence is None else f", event {finding.sequence}"
    return f"{session}{event}: {finding.detail}"


def _found(reports: Iterable[VerifyView]) -> Iterator[Found]:
    return ((report.session, finding) for report in reports for finding in report.findings)


def _verdict(reports: Sequence[VerifyView], found: Sequence[Found]) -> Text:
    line = Text()
    if found:
        line.append(f"not verified: {counted(len(found), 'finding')}", f"bold {BAD}")
    else:
        line.append("verified", f"bold {GOOD}")
    line.append(f" · {_extent(reports)}")
    if len(reports) == 1 and reports[0].head:
        line.append(f" · head {short(reports[0].head)}", QUIET)
    return line


def _extent(reports: Sequence[VerifyView]) -> str:
    events, prompts = sum(each.events for each in reports), sum(each.prompts for each in reports)
    sizes = (counted(len(reports), "session"), counted(events, "event"), counted(prompts, "prompt"))
    return ", ".join(sizes)
