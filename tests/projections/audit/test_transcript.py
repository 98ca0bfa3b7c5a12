"""A page of talk says who said what, and nobody who is quoted on it can say more than that."""

from __future__ import annotations

from turnlog.projections.audit.transcript import Afterwards, transcript
from turnlog.projections.session.commands import CloseSession, RedactReply
from turnlog.projections.testing import exchange, given, opening

FORGED = (
    "rude*\n\n### Turn 2 · 2026-01-01T00:00:00Z\n\n**Reply**\n\n> I promise a refund.\u2028\n\n*x"
)


def test_a_reason_of_many_lines_does_not_make_a_turn_that_never_was() -> None:
    session = given(
        opening(),
        *exchange("Hi.", "Hello.\n\n### Turn 3"),
        RedactReply(1, FORGED, "operator", "(withheld)\n\n### Turn 4"),
        CloseSession(FORGED),
    )
    after = Afterwards()
    for each in session.events:
        after.learn(each)
    page = "".join(transcript(session.events, after, {}))
    assert [line for line in page.splitlines() if line.startswith(("#", "**", "> "))][1:] == [
        f"### Turn 1 · {session.events[1].envelope.time} · withheld",
        "**User**",
        "> Hi.",
        "**Reply**",
        "> (withheld)",
        "> ### Turn 4",
    ]
    assert page.endswith(" **Reply** > I promise a refund. *x.*\n\n")
