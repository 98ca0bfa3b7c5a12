"""The tables of the read models: natural keys, integer money, and only the times of events.

Every row has the build it belongs to. A rebuild fills the same tables beside the active rows, and
one flag switches readers to it. Texts are not copied: rows refer to the event that holds them. Only
a session's title shows part of a text, if the event holds it unencrypted.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import BigInteger, Boolean, Column, Index, LargeBinary, MetaData, Table, Text

METADATA: Final = MetaData()

ONCE: Final = {"once": True}
"""Marks a column that is never changed after its first write."""

PROJECTIONS: Final = Table(
    "projections",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("build", BigInteger, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
    Column("stream", Text, nullable=False),
    Column("created", Text, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("hash", Text),
    Column("active", Boolean, nullable=False),
)
"""One row per build: the log it is folded from, its position, and whether readers use it."""


def _text(name: str, *, null: bool = True) -> Column[str]:
    return Column(name, Text, nullable=null)


def _number(name: str, *, null: bool = True) -> Column[int]:
    return Column(name, BigInteger, nullable=null)


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False)


def _rows(
    name: str, keys: dict[str, type[Text | BigInteger]], *others: Column[Any], large: bool = False
) -> Table:
    owner = {"build": BigInteger, "tenant": Text, "session": Text}
    return Table(
        name,
        METADATA,
        *(
            Column(key, kind, primary_key=True, autoincrement=False)
            for key, kind in {**owner, **keys}.items()
        ),
        *others,
        # SQLite then stores small rows in the index of their key itself, without a second copy.
        sqlite_with_rowid=large,
    )


SESSIONS: Final = _rows(
    "sessions",
    {},
    _number("opened_position", null=False),
    _text("opened_at", null=False),
    _text("blueprint", null=False),
    _number("blueprint_version", null=False),
    _text("blueprint_digest", null=False),
    _number("blueprint_in", null=False),
    _text("cartridge"),
    _text("memory"),
    _text("profile", null=False),
    _text("attributes", null=False),
    _text("origin_kind"),
    _text("origin_session"),
    _number("origin_sequence"),
    _text("title"),
    _text("sought", null=False),
    _number("turns", null=False),
    _flag("redacted"),
    _text("closed_at"),
    _number("last_sequence", null=False),
    _text("last_hash", null=False),
    _text("last_at", null=False),
    large=True,
)
"""One row per session. `blueprint_in` is the sequence of the event that pinned the blueprint
version: the opening, or the latest move. `sought` is id and title case-folded for searching, so
that both databases find the same rows. `last_hash` lets the next event prove that it follows the
last one.
"""

ATTRIBUTES: Final = _rows(
    "session_attributes",
    {"name": Text},
    _text("digest", null=False),
    _number("given_in", null=False),
)
"""Attributes for filters: the digest of each value, because an index entry must be short. An
attribute is in force if `given_in` is the session's `blueprint_in`; a newer version may have fewer.
"""

PROMPTS: Final = _rows(
    "prompts",
    {"provider": Text, "layer": Text},
    _text("path", null=False),
    _text("digest", null=False),
    _number("pinned_in", null=False),
)
"""One row per prompt file that a session was pinned to, by the event with that sequence. It is in
force if it is after the session's `blueprint_in`: a move to another version releases all of them.
"""

TURNS: Final = _rows(
    "turns",
    {"turn": BigInteger},
    _text("status", null=False),
    _number("text_in"),
    _number("reply_in"),
    _text("call"),
    _text("finish"),
    _text("cause"),
    _text("detail"),
    _flag("excluded"),
    _flag("redacted"),
    _text("submitted_at", null=False),
    _text("released_at"),
    Column("settled_at", Text, info=ONCE),
)
"""One row per turn. `text_in` and `reply_in` are the sequences of the events with the texts, or
with the replacement of a redacted reply.
"""

CALLS: Final = _rows(
    "calls",
    {"call": Text},
    _number("turn", null=False),
    _number("sequence", null=False),
    _text("at", null=False),
    _text("kind", null=False),
    _text("model", null=False),
    _text("supersedes"),
    _text("digest", null=False),
    _number("budget"),
    _number("tokens", null=False),
    _text("counter", null=False),
    _number("parts", null=False),
    _text("profile"),
    _text("optimizations", null=False),
    _number("savings", null=False),
    _number("attempt"),
    _text("finish"),
    _number("characters"),
)
"""One row per call with a fixed prompt; `attempt` and later columns are set when it is answered.
`optimizations` is JSON: the rules that shortened the prompt, with the tokens each saved.
"""

ATTEMPTS: Final = _rows(
    "attempts",
    {"turn": BigInteger, "attempt": BigInteger},
    _text("call", null=False),
    _text("worker", null=False),
    _text("started_at", null=False),
    _text("ended_at"),
    _text("outcome"),
    _text("known"),
    _number("input_tokens"),
    _number("output_tokens"),
    _number("cached_tokens"),
    _number("micro_dollars"),
    _text("price"),
    _number("first_token_ms"),
    _number("total_ms"),
    _text("fault"),
    _flag("copied"),
)
"""One row per attempt; null money and null tokens are unknown, not zero. A `copied` attempt was
made and paid for in the session that this one was forked from.
"""

WINDOW_PARTS: Final = _rows(
    "window_parts",
    {"call": Text, "component": Text},
    _number("turn", null=False),
    _number("place", null=False),
    _number("parts", null=False),
    _number("tokens", null=False),
    _number("characters", null=False),
    _number("turns", null=False),
    _number("cut_turns", null=False),
)
"""The token ledger: what each component used in each call, and how many of its turns were cut."""

REDACTIONS: Final = _rows(
    "redactions",
    {"sequence": BigInteger},
    _number("turn", null=False),
    _text("reason", null=False),
    _text("rule", null=False),
    _text("at", null=False),
)
"""One row per redaction."""

PHASES: Final = _rows(
    "phases",
    {"sequence": BigInteger},
    _text("phase", null=False),
    _text("before"),
    _text("signal"),
    _flag("forced"),
    _number("turn"),
    _text("at", null=False),
)
"""One row per entered phase."""

COMMANDS: Final = _rows(
    "commands",
    {"key": Text},
    _text("hash", null=False),
    _number("sequence", null=False),
    _number("turn"),
)
"""One row per command with an idempotency key, kept as long as its session."""

QUARANTINE: Final = _rows(
    "quarantine",
    {"position": BigInteger},
    _text("subject", null=False),
    _text("reason"),
    Column("stored", LargeBinary, nullable=False),
    large=True,
)
"""Events that were not folded: the failing one with its reason, and later ones of its session."""

ROWS: Final = (
    ATTRIBUTES,
    PROMPTS,
    TURNS,
    CALLS,
    ATTEMPTS,
    WINDOW_PARTS,
    REDACTIONS,
    PHASES,
    COMMANDS,
    QUARANTINE,
    SESSIONS,
)
"""Every table of rows. Sessions are last, so that clearing can be interrupted at any point."""

Index(
    "projections_one_active",
    PROJECTIONS.c.name,
    unique=True,
    postgresql_where=PROJECTIONS.c.active,
    sqlite_where=PROJECTIONS.c.active,
)
Index("sessions_newest_first", SESSIONS.c.build, SESSIONS.c.tenant, SESSIONS.c.opened_position)
Index("sessions_by_blueprint", SESSIONS.c.build, SESSIONS.c.tenant, SESSIONS.c.blueprint)
Index("sessions_by_origin", SESSIONS.c.build, SESSIONS.c.tenant, SESSIONS.c.origin_session)
Index(
    "sessions_by_attribute",
    ATTRIBUTES.c.build,
    ATTRIBUTES.c.tenant,
    ATTRIBUTES.c.name,
    ATTRIBUTES.c.digest,
)
