"""The read models of the first release.

Written out instead of using the current tables, so that it never changes. A new database gets the
current tables without it: later revisions change these, and a test compares what both lead to.
There is no downgrade: for an older release, drop the tables and rebuild them from the log.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = None


def upgrade() -> None:
    _create_builds()
    _create_sessions()
    _create_turns()
    _create_calls()
    _create_segments()
    _create_knowledge()


def _create_builds() -> None:
    op.create_table(
        "projections",
        _text("name", key=True),
        _number("build", key=True),
        _number("version"),
        _text("stream"),
        _text("created"),
        _number("position"),
        _text("hash", null=True),
        _flag("active"),
    )
    op.create_index(
        "projections_one_active",
        "projections",
        ["name"],
        unique=True,
        postgresql_where=sa.column("active"),
        sqlite_where=sa.column("active"),
    )


def _create_sessions() -> None:
    _create_rows(
        "sessions",
        _number("opened_position"),
        _text("opened_at"),
        _text("blueprint"),
        _number("blueprint_version"),
        _text("blueprint_digest"),
        _number("blueprint_in"),
        _text("cartridge", null=True),
        _text("memory", null=True),
        _text("profile"),
        _text("phase", null=True),
        _text("attributes"),
        _text("origin_kind", null=True),
        _text("origin_session", null=True),
        _number("origin_sequence", null=True),
        _text("title", null=True),
        _text("sought"),
        _number("turns"),
        _flag("redacted"),
        _text("closed_at", null=True),
        _number("last_sequence"),
        _text("last_hash"),
        _text("last_at"),
        large=True,
    )
    op.create_index("sessions_by_blueprint", "sessions", ["build", "tenant", "blueprint"])
    op.create_index("sessions_by_origin", "sessions", ["build", "tenant", "origin_session"])
    op.create_index("sessions_newest_first", "sessions", ["build", "tenant", "opened_position"])
    _create_rows(
        "session_attributes",
        _text("name", key=True),
        _text("digest"),
        _number("given_in"),
    )
    op.create_index(
        "sessions_by_attribute", "session_attributes", ["build", "tenant", "name", "digest"]
    )
    _create_rows(
        "prompts",
        _text("provider", key=True),
        _text("layer", key=True),
        _text("path"),
        _text("digest"),
        _number("pinned_in"),
    )
    _create_rows(
        "commands",
        _text("key", key=True),
        _text("hash"),
        _number("sequence"),
        _number("turn", null=True),
    )
    _create_rows(
        "quarantine",
        _number("position", key=True),
        _text("subject"),
        _text("reason", null=True),
        _bytes("stored"),
        large=True,
    )


def _create_turns() -> None:
    _create_rows(
        "turns",
        _number("turn", key=True),
        _text("status"),
        _text("submitted_at"),
        _text("asked_by", null=True),
        _flag("counted"),
    )
    _create_rows(
        "retrieved_entries",
        _number("turn", key=True),
        _text("collection", key=True),
        _text("entry", key=True),
    )
    op.create_index(
        "retrieved_entries_by_entry",
        "retrieved_entries",
        ["build", "tenant", "collection", "entry"],
    )
    _create_rows(
        "child_turns",
        _text("child_session", key=True),
        _number("child_turn", key=True),
        _number("turn"),
    )
    _create_rows(
        "turn_votes",
        _number("turn", key=True),
        _number("vote"),
    )


def _create_calls() -> None:
    _create_rows(
        "calls",
        _text("call", key=True),
        _number("turn"),
        _number("sequence"),
        _text("at"),
        _text("kind"),
        _text("model"),
        _text("supersedes", null=True),
        _text("digest"),
        _number("budget", null=True),
        _number("tokens"),
        _text("counter"),
        _number("parts"),
        _text("profile", null=True),
        _text("optimizations"),
        _number("savings"),
        _number("attempt", null=True),
        _text("finish", null=True),
        _number("characters", null=True),
    )
    _create_rows(
        "attempts",
        _number("turn", key=True),
        _number("attempt", key=True),
        _text("call"),
        _text("worker"),
        _text("started_at"),
        _text("ended_at", null=True),
        _text("outcome", null=True),
        _text("known", null=True),
        _number("input_tokens", null=True),
        _number("output_tokens", null=True),
        _number("cached_tokens", null=True),
        _number("micro_dollars", null=True),
        _text("price", null=True),
        _number("first_token_ms", null=True),
        _number("total_ms", null=True),
        _text("fault", null=True),
        _flag("copied"),
    )
    _create_rows(
        "window_parts",
        _text("call", key=True),
        _text("component", key=True),
        _number("place"),
        _number("parts"),
        _number("tokens"),
        _number("cut_turns"),
    )


def _create_segments() -> None:
    op.create_table(
        "libraries",
        _number("build", key=True),
        _text("tenant", key=True),
        _number("sequence"),
    )
    op.create_table(
        "segments",
        _number("build", key=True),
        _text("tenant", key=True),
        _number("id", key=True),
        _text("variant", key=True),
        _text("scope"),
        _text("ref", null=True),
        _text("locale", null=True),
        _text("content", null=True),
        _text("digest"),
        _number("characters"),
        _number("tier"),
        _text("type"),
        _text("priority"),
        _flag("active"),
        _number("version"),
        _text("edited_at"),
        _text("edited_by"),
        _text("sought"),
    )
    op.create_index("segments_by_place", "segments", ["build", "tenant", "scope", "ref"])


def _create_knowledge() -> None:
    op.create_table(
        "knowledge_index",
        _number("build", key=True),
        _text("embedder"),
        _text("setting"),
        _flag("complete"),
    )
    op.create_table(
        "knowledge_histories",
        _number("build", key=True),
        _text("tenant", key=True),
        _number("sequence"),
        _text("hash"),
        _number("replaced"),
        _text("stopped", null=True),
    )
    op.create_table(
        "knowledge_texts",
        _number("build", key=True),
        _number("number", key=True),
        _text("tenant"),
        _text("collection"),
        _bytes("words"),
        _bytes("vector"),
    )
    op.create_index("knowledge_texts_by_tenant", "knowledge_texts", ["build", "tenant", "number"])
    op.create_table(
        "knowledge_entries",
        _number("build", key=True),
        _text("tenant", key=True),
        _text("collection", key=True),
        _text("entry", key=True),
        _number("number"),
        _text("kind"),
        _text("title"),
        _text("content", null=True),
        _text("digest"),
        _number("characters"),
        _text("source", null=True),
        _text("tags"),
        _text("attributes"),
        sa.Column("efficiency", sa.Float(53)),
        _number("revision"),
        _text("edited_at"),
        _text("edited_by"),
    )
    op.create_index(
        "knowledge_entries_by_number", "knowledge_entries", ["build", "number"], unique=True
    )


def _create_rows(name: str, *columns: sa.Column[Any], large: bool = False) -> None:
    owner = (_number("build", key=True), _text("tenant", key=True), _text("session", key=True))
    op.create_table(name, *owner, *columns, sqlite_with_rowid=large)


def _text(name: str, *, key: bool = False, null: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, primary_key=key, nullable=null)


def _number(name: str, *, key: bool = False, null: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, primary_key=key, nullable=null, autoincrement=False)


def _flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean, nullable=False)


def _bytes(name: str) -> sa.Column[bytes]:
    return sa.Column(name, sa.LargeBinary, nullable=False)
