"""The tables of the read models: natural keys, integer money, and only the times of events.

Every row has the build it belongs to. A rebuild fills the same tables beside the active rows, and
one flag switches readers to it. Every column has a reader (a test compares them with the queries).
Texts are not copied: history and prompts are computed from the log. Only a session's title is one,
or shows part of one, if the event holds it unencrypted.
"""

from __future__ import annotations

import json
from typing import Any, Final

from pydantic import JsonValue
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    LargeBinary,
    MetaData,
    Table,
    Text,
    false,
)

from turnlog.events.content import Digest, compute_digest

TITLE_CHARACTERS: Final = 120

NUL: Final = "\0"


def replace_nul(text: str) -> str:
    """Replace NUL, which Postgres refuses in text, so that both databases store the same."""
    return text.replace(NUL, "\ufffd")


def format_title(text: str | None) -> str | None:
    """Return the text shortened to one line."""
    if text is None:
        return None
    # Do not split a megabyte to use one line of it.
    line = " ".join(text[: 8 * TITLE_CHARACTERS].split())
    return line if len(line) <= TITLE_CHARACTERS else f"{line[: TITLE_CHARACTERS - 1]}…"


def build_search_text(session: str, title: str | None) -> str:
    """Return the case-folded text for searches; databases case-fold differently."""
    return f"{session} {title or ''}".casefold()


def encode_json(value: JsonValue) -> str:
    """Encode a value as JSON; a NUL in it is escaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def compute_attribute_digest(value: JsonValue) -> Digest:
    """Return an attribute's digest, equal for a value and for its form in a query string."""
    return compute_digest(value if isinstance(value, str) else encode_json(value))


METADATA: Final = MetaData()

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


def _build_text_column(name: str, *, null: bool = True) -> Column[str]:
    return Column(name, Text, nullable=null)


def _build_number_column(name: str, *, null: bool = True) -> Column[int]:
    return Column(name, BigInteger, nullable=null)


def _build_flag_column(name: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False)


def _build_row_table(
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


SESSIONS: Final = _build_row_table(
    "sessions",
    {},
    _build_number_column("opened_position", null=False),
    _build_text_column("opened_at", null=False),
    _build_text_column("blueprint", null=False),
    _build_number_column("blueprint_version", null=False),
    _build_text_column("blueprint_digest", null=False),
    _build_number_column("blueprint_in", null=False),
    _build_text_column("cartridge"),
    _build_text_column("memory"),
    _build_text_column("profile", null=False),
    _build_text_column("phase"),
    _build_text_column("attributes", null=False),
    _build_text_column("origin_kind"),
    _build_text_column("origin_session"),
    _build_number_column("origin_sequence"),
    _build_text_column("title"),
    _build_text_column("sought", null=False),
    _build_text_column("given_title"),
    _build_text_column("sought_title"),
    _build_text_column("labels"),
    _build_number_column("labels_in"),
    _build_number_column("turns", null=False),
    _build_flag_column("redacted"),
    _build_text_column("closed_at"),
    _build_number_column("last_sequence", null=False),
    _build_text_column("last_hash", null=False),
    _build_text_column("last_at", null=False),
    _build_number_column("budget_share"),
    _build_text_column("owner"),
    _build_number_column("erasing"),
    _build_text_column("used_at"),
    _build_number_column("sealed_under"),
    _build_number_column("erased_in"),
    large=True,
)
"""One row per session. `blueprint_in` is the sequence of the event that pinned the blueprint
version: the opening, or the latest move. `title` is the first turn's text on one line, and
`given_title` what somebody gave the session instead. `sought` is the id and the former case-folded
for searching, so that both databases find the same rows, and `sought_title` the latter. `labels_in`
is the sequence of the event that set the labels last. `last_hash` lets the next event prove that it
follows the last one. `budget_share` is how many thousandths of its budget the last prompt took, of
those that had one. `owner` is the user whose session it is. `erasing` is the sequence of an event
that began an erasure, until that has ended. `used_at` is when it was opened, or a turn of it last
began or ended. `sealed_under` is the generation that its keys were wrapped under first; none if it
is plain. `erased_in` is the sequence of the event that began the erasure of all of it.
"""

PINNED_BLUEPRINTS: Final = _build_row_table(
    "pinned_blueprints", {"pinned_in": BigInteger}, _build_number_column("version", null=False)
)
"""One row per version of its blueprint that a session was pinned to, by the sequence of the event.
A call was made under the latest one before it.
"""

ATTRIBUTES: Final = _build_row_table(
    "session_attributes",
    {"name": Text},
    _build_text_column("digest", null=False),
    _build_number_column("given_in", null=False),
)
"""Attributes for filters: the digest of each value, because an index entry must be short. An
attribute is in force if `given_in` is the session's `blueprint_in`; a newer version may have fewer.
"""

SESSION_LABELS: Final = _build_row_table(
    "session_labels", {"label": Text}, _build_number_column("set_in", null=False)
)
"""Labels for filters. One is in force if `set_in` is the session's `labels_in`."""

SESSION_SHARES: Final = _build_row_table(
    "session_shares", {"user_name": Text}, _build_text_column("access", null=False)
)
"""The users whom a session is or was shared with; `none` for one who is let in no more."""

PROMPTS: Final = _build_row_table(
    "prompts",
    {"provider": Text, "layer": Text},
    _build_text_column("path", null=False),
    _build_text_column("digest", null=False),
    _build_number_column("pinned_in", null=False),
)
"""One row per prompt file that a session was pinned to, by the event with that sequence. It is in
force if it is after the session's `blueprint_in`: a move to another version releases all of them.
"""

TURNS: Final = _build_row_table(
    "turns",
    {"turn": BigInteger},
    _build_text_column("status", null=False),
    _build_text_column("submitted_at", null=False),
    _build_text_column("asked_by"),
    _build_flag_column("counted"),
    _build_text_column("failure"),
)
"""One row per turn. A turn is `counted` where somebody asked for it: not in a fork that copied it,
and not where an application recorded a text of its own. `failure` is the code of one that failed.
"""

CALLS: Final = _build_row_table(
    "calls",
    {"call": Text},
    _build_number_column("turn", null=False),
    _build_number_column("sequence", null=False),
    _build_text_column("at", null=False),
    _build_text_column("kind", null=False),
    _build_text_column("model", null=False),
    _build_text_column("supersedes"),
    _build_text_column("digest", null=False),
    _build_number_column("budget"),
    _build_number_column("tokens", null=False),
    _build_text_column("counter", null=False),
    _build_number_column("parts", null=False),
    _build_text_column("profile"),
    _build_text_column("optimizations", null=False),
    _build_number_column("savings", null=False),
    _build_number_column("attempt"),
    _build_text_column("finish"),
    _build_number_column("characters"),
    # Rows of earlier releases do not say it, and are read until there are others.
    Column("copied", Boolean, nullable=False, server_default=false()),
    _build_text_column("prefix_call"),
    _build_number_column("prefix_tokens"),
    _build_text_column("prefix_ended_by"),
)
"""One row per call with a fixed prompt; `attempt`, `finish` and `characters` are set when it is
answered. `optimizations` is JSON: the rules that shortened the prompt, with the tokens each saved.
A `copied` call was made in the session that this one was forked from. Its prompt begins with
`prefix_tokens` of that of `prefix_call`, the earlier one of its kind: all of them unless
`prefix_ended_by` names a layer.
"""

ATTEMPTS: Final = _build_row_table(
    "attempts",
    {"turn": BigInteger, "attempt": BigInteger},
    _build_text_column("call", null=False),
    _build_text_column("worker", null=False),
    _build_text_column("started_at", null=False),
    _build_text_column("ended_at"),
    _build_text_column("outcome"),
    _build_text_column("known"),
    _build_number_column("input_tokens"),
    _build_number_column("output_tokens"),
    _build_number_column("cached_tokens"),
    _build_number_column("cache_write_tokens"),
    _build_number_column("micro_dollars"),
    _build_text_column("price"),
    _build_number_column("first_token_ms"),
    _build_number_column("total_ms"),
    _build_text_column("fault"),
    _build_flag_column("copied"),
    _build_number_column("cache_minimum"),
    _build_number_column("cache_step"),
    _build_number_column("cache_spared"),
    _build_text_column("cached_until"),
)
"""One row per attempt; null money and null tokens are unknown, not zero. A `copied` attempt was
made and paid for in the session that this one was forked from. The columns of the cache are its
provider's terms, as recorded with the cost; its prompt may be gone from there after `cached_until`.
"""

WINDOW_PARTS: Final = _build_row_table(
    "window_parts",
    {"call": Text, "component": Text},
    _build_number_column("place", null=False),
    _build_number_column("parts", null=False),
    _build_number_column("tokens", null=False),
    _build_number_column("cut_turns", null=False),
)
"""The token ledger: how many parts and tokens each component had in a call, and how many turns of
history were cut.
"""

COMMANDS: Final = _build_row_table(
    "commands",
    {"key": Text},
    _build_text_column("hash", null=False),
    _build_number_column("sequence", null=False),
    _build_number_column("turn"),
)
"""One row per command with an idempotency key, kept as long as its session."""

RETRIEVED_ENTRIES: Final = _build_row_table(
    "retrieved_entries",
    {"turn": BigInteger, "collection": Text, "entry": Text},
    _build_number_column("vote"),
    _build_number_column("vote_sequence"),
    _build_number_column("vote_position"),
)
"""One row per entry of knowledge that a turn's prompts included. `vote` is the last vote on this
entry of the turn: 1, 0 or -1, or null if there was none; its event has the other two columns.
"""

CHILD_TURNS: Final = _build_row_table(
    "child_turns",
    {"child_session": Text, "child_turn": BigInteger},
    _build_number_column("turn", null=False),
    _build_text_column("call"),
    _build_text_column("request"),
)
"""One row per turn of a child session that a coordinator asked for, with the turn that asked, and
the call and the tool request by which it did. What a fork copied has none: the children belong to
the turn that was copied.
"""

PROMPT_SOURCES: Final = _build_row_table(
    "prompt_sources",
    {"call": Text, "kind": Text, "name": Text, "first": BigInteger},
    _build_number_column("last", null=False),
    _build_text_column("digest"),
    _build_text_column("lookup"),
)
"""The index of uses: one row per source that the prompt of a call includes; see `PromptSource`.
`lookup` is kind and name of a source that belongs to no session, and null for the others.
"""

EVENT_TEXTS: Final = _build_row_table(
    "event_texts",
    {"sequence": BigInteger, "first": BigInteger},
    _build_text_column("kind", null=False),
    _build_number_column("last", null=False),
    _build_text_column("call"),
    _build_text_column("request"),
    _build_text_column("label"),
    _build_number_column("quoted"),
)
"""One row per text of an event that prompts can include, with what it stands for; see `EventText`.
"""

TURN_VOTES: Final = _build_row_table(
    "turn_votes",
    {"turn": BigInteger},
    _build_number_column("vote", null=False),
    _build_number_column("sequence"),
    _build_number_column("position"),
)
"""One row per turn that somebody judged: 1, 0 or -1, which counts for every entry it retrieved that
has no vote of its own. `sequence` and `position` are those of the vote's event; they are null in
rows of earlier releases.
"""

APPROVALS: Final = _build_row_table(
    "approvals",
    {"turn": BigInteger, "approval": BigInteger},
    _build_number_column("position", null=False),
    _build_text_column("requested_at", null=False),
    _build_text_column("call", null=False),
    _build_text_column("id", null=False),
    _build_text_column("tool", null=False),
    _build_text_column("deadline", null=False),
    _build_text_column("decision"),
    _build_text_column("decided_at"),
    _build_text_column("decided_by"),
)
"""One row per approval that a tool needed, by the stream position of its request. One that is not
decided waits as long as its turn is open. `decided_by` is null where the deadline decided.
"""

QUARANTINE: Final = _build_row_table(
    "quarantine",
    {"position": BigInteger},
    _build_text_column("subject", null=False),
    _build_text_column("reason"),
    Column("stored", LargeBinary, nullable=False),
    large=True,
)
"""Events that were not folded: the failing one with its reason, and later ones of its session."""

STRAY_MESSAGES: Final = _build_row_table(
    "stray_messages",
    {"position": BigInteger},
    _build_text_column("reason", null=False),
)
"""Messages under the subjects of sessions that are no events; the log has their bytes."""

ROW_TABLES: Final = (
    PINNED_BLUEPRINTS,
    ATTRIBUTES,
    SESSION_LABELS,
    SESSION_SHARES,
    PROMPTS,
    TURNS,
    CALLS,
    ATTEMPTS,
    WINDOW_PARTS,
    COMMANDS,
    RETRIEVED_ENTRIES,
    CHILD_TURNS,
    PROMPT_SOURCES,
    EVENT_TEXTS,
    TURN_VOTES,
    APPROVALS,
    QUARANTINE,
    STRAY_MESSAGES,
    SESSIONS,
)
"""Every table of rows. Sessions are last, so that clearing can be interrupted at any point."""


def _add_index(name: str, table: Table, *columns: str) -> None:
    """Add an index on rows of a tenant in a build, by these columns."""
    Index(name, *(table.c[column] for column in ("build", "tenant", *columns)))


Index(
    "projections_one_active",
    PROJECTIONS.c.name,
    unique=True,
    postgresql_where=PROJECTIONS.c.active,
    sqlite_where=PROJECTIONS.c.active,
)

_add_index("sessions_newest_first", SESSIONS, "opened_position")

_add_index("sessions_by_owner", SESSIONS, "owner")

_add_index("sessions_by_budget_share", SESSIONS, "budget_share")

_add_index("calls_by_time", CALLS, "at")

# With all columns that counts of turns read: SQLite scanned every turn without the last one.
_add_index("turns_by_status", TURNS, "status", "submitted_at", "counted")

_add_index("sessions_by_blueprint", SESSIONS, "blueprint")

_add_index("sessions_by_origin", SESSIONS, "origin_session")

Index(
    "sessions_by_erasing",
    SESSIONS.c.build,
    SESSIONS.c.erasing,
    postgresql_where=SESSIONS.c.erasing.is_not(None),
    sqlite_where=SESSIONS.c.erasing.is_not(None),
)

# Rounds of retention go through what is left: what was erased stays in the table for good.
_add_index("sessions_not_erased", SESSIONS, "erased_in", "opened_position")

_add_index("sessions_by_attribute", ATTRIBUTES, "name", "digest")

_add_index("sessions_by_share", SESSION_SHARES, "user_name")
_add_index("sessions_by_label", SESSION_LABELS, "label")

_add_index("approvals_newest_first", APPROVALS, "decision", "position")

_add_index("retrieved_entries_by_entry", RETRIEVED_ENTRIES, "collection", "entry")

# An equality with a column implies that it is not null, so both databases use these indexes.
Index(
    "prompt_sources_by_lookup",
    PROMPT_SOURCES.c.build,
    PROMPT_SOURCES.c.tenant,
    PROMPT_SOURCES.c.lookup,
    postgresql_where=PROMPT_SOURCES.c.lookup.is_not(None),
    sqlite_where=PROMPT_SOURCES.c.lookup.is_not(None),
)

Index(
    "prompt_sources_by_digest",
    PROMPT_SOURCES.c.build,
    PROMPT_SOURCES.c.tenant,
    PROMPT_SOURCES.c.digest,
    postgresql_where=PROMPT_SOURCES.c.digest.is_not(None),
    sqlite_where=PROMPT_SOURCES.c.digest.is_not(None),
)

Index(
    "event_texts_by_label",
    EVENT_TEXTS.c.build,
    EVENT_TEXTS.c.tenant,
    EVENT_TEXTS.c.label,
    postgresql_where=EVENT_TEXTS.c.label.is_not(None),
    sqlite_where=EVENT_TEXTS.c.label.is_not(None),
)


# Segments belong to no session: they are a projection of their own, with its own name and position.
LIBRARIES: Final = Table(
    "libraries",
    METADATA,
    Column("build", BigInteger, primary_key=True, autoincrement=False),
    Column("tenant", Text, primary_key=True),
    Column("sequence", BigInteger, nullable=False),
)
"""One row per tenant: the sequence its segments are folded to."""

SEGMENTS: Final = Table(
    "segments",
    METADATA,
    Column("build", BigInteger, primary_key=True, autoincrement=False),
    Column("tenant", Text, primary_key=True),
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("variant", Text, primary_key=True),
    Column("scope", Text, nullable=False),
    Column("ref", Text),
    Column("locale", Text),
    Column("content", Text),
    Column("digest", Text, nullable=False),
    Column("characters", BigInteger, nullable=False),
    Column("tier", BigInteger, nullable=False),
    Column("type", Text, nullable=False),
    Column("priority", Text, nullable=False),
    Column("active", Boolean, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("edited_at", Text, nullable=False),
    Column("edited_by", Text, nullable=False),
    Column("sought", Text, nullable=False),
)
"""One row per variant of a segment. `content` is null if its blob is missing; `sought` is the text
case-folded for searching, so that both databases find the same rows.
"""

_add_index("segments_by_place", SEGMENTS, "scope", "ref")


# Knowledge is a projection of its own too.
KNOWLEDGE_INDEX: Final = Table(
    "knowledge_index",
    METADATA,
    Column("build", BigInteger, primary_key=True, autoincrement=False),
    Column("embedder", Text, nullable=False),
    Column("setting", Text, nullable=False),
    Column("complete", Boolean, nullable=False),
)
"""One row per build: the embedder of its vectors, the setting that names it, and whether the log
was folded to its end once.
"""

KNOWLEDGE_HISTORIES: Final = Table(
    "knowledge_histories",
    METADATA,
    Column("build", BigInteger, primary_key=True, autoincrement=False),
    Column("tenant", Text, primary_key=True),
    Column("sequence", BigInteger, nullable=False),
    Column("hash", Text, nullable=False),
    Column("replaced", BigInteger, nullable=False),
    Column("stopped", Text),
)
"""One row per tenant: its last folded event, how many entries were replaced or removed since the
build began, and why folding stopped.
"""

KNOWLEDGE_TEXTS: Final = Table(
    "knowledge_texts",
    METADATA,
    Column("build", BigInteger, primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("tenant", Text, nullable=False),
    Column("collection", Text, nullable=False),
    Column("words", LargeBinary, nullable=False),
    Column("vector", LargeBinary, nullable=False),
)
"""What a search compares of an entry with a text: its words, and its vector of 32-bit numbers."""

_add_index("knowledge_texts_by_tenant", KNOWLEDGE_TEXTS, "number")

KNOWLEDGE_ENTRIES: Final = Table(
    "knowledge_entries",
    METADATA,
    Column("build", BigInteger, primary_key=True, autoincrement=False),
    Column("tenant", Text, primary_key=True),
    Column("collection", Text, primary_key=True),
    Column("entry", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("content", Text),
    Column("digest", Text, nullable=False),
    Column("characters", BigInteger, nullable=False),
    Column("source", Text),
    Column("tags", Text, nullable=False),
    Column("attributes", Text, nullable=False),
    Column("efficiency", Float(53)),
    Column("revision", BigInteger, nullable=False),
    Column("edited_at", Text, nullable=False),
    Column("edited_by", Text, nullable=False),
)
"""One row per entry. `number` follows from the place of its event, and is another after each edit.
`content` is null if its blob is missing; such an entry is never found.
"""

Index(
    "knowledge_entries_by_number",
    KNOWLEDGE_ENTRIES.c.build,
    KNOWLEDGE_ENTRIES.c.number,
    unique=True,
)
