"""The tables: natural keys, whole numbers of money, and no clock but that of the events.

Every row carries the build it belongs to, so that a rebuild fills the same tables beside the live
rows and readers are switched by one flag. What people and models said is not copied: rows name the
event it stands in. Only a session's title shows some of it, where the event holds it plain.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import BigInteger, Boolean, Column, Index, LargeBinary, MetaData, Table, Text

METADATA: Final = MetaData()

ONCE: Final = {"once": True}
"""Marks a column that stays as it was first written."""

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
"""One row a build: which log it is folded from, how far, and whether readers see it."""


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
        # SQLite then keeps small rows in the very index of their key, and not once more beside it.
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
"""One row a session. `blueprint_in` is the sequence of the event that pinned what it is made from:
its opening, or the latest move to another version; `sought` is id and title folded for
searching, so that both databases find the same; `last_hash` lets the next event prove that it
belongs behind the last one."""

ATTRIBUTES: Final = _rows(
    "session_attributes",
    {"name": Text},
    _text("digest", null=False),
    _number("given_in", null=False),
)
"""Attributes once more, for filters: the value's digest, since an index entry must be short. One is
in force where it was given by the session's `blueprint_in`: a version may have fewer of them."""

PROMPTS: Final = _rows(
    "prompts",
    {"provider": Text, "layer": Text},
    _text("path", null=False),
    _text("digest", null=False),
    _number("pinned_in", null=False),
)
"""One row a prompt file a session was pinned to by an event of that sequence. It is in force where
that lies behind the session's `blueprint_in`: a move to another version lets go of all of them."""

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
"""One row a turn; `text_in` and `reply_in` are sequences of the events that hold what was said, a
replacement where the reply was redacted."""

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
"""One row a call whose prompt was fixed; `attempt` and what follows it once it has an answer.
`optimizations` is JSON: rules by which the prompt is shorter, with the tokens each saved."""

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
"""One row an attempt; null money and null tokens are unknown, never nothing. One that
is `copied` was made, and paid for, in the session that this one was forked from."""

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
"""The growth ledger: what each component took of each call, and how many turns were cut of it."""

REDACTIONS: Final = _rows(
    "redactions",
    {"sequence": BigInteger},
    _number("turn", null=False),
    _text("reason", null=False),
    _text("rule", null=False),
    _text("at", null=False),
)
"""One row a redaction."""

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
"""One row a phase that was entered."""

COMMANDS: Final = _rows(
    "commands",
    {"key": Text},
    _text("hash", null=False),
    _number("sequence", null=False),
    _number("turn"),
)
"""One row a command that carried a key, so that it is known for the life of its session."""

QUARANTINE: Final = _rows(
    "quarantine",
    {"position": BigInteger},
    _text("subject", null=False),
    _text("reason"),
    Column("stored", LargeBinary, nullable=False),
    large=True,
)
"""Events that were not folded: the bad one with its reason, and those of its session behind it."""

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
"""Every table of rows; sessions last, so that clearing them away can stop at any point."""

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
