"""The tables of the library's segments: what every variant of each says now.

They are a projection of their own, with its own name, version and checkpoint, since segments
belong to no session. Whoever looks in here finds texts, and edits them through the log only.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Boolean, Column, Index, Table, Text

from turnlog.projections.store.tables import METADATA

__all__ = ["LIBRARIES", "METADATA", "SEGMENTS"]

LIBRARIES: Final = Table(
    "libraries",
    METADATA,
    Column("build", BigInteger, primary_key=True, autoincrement=False),
    Column("tenant", Text, primary_key=True),
    Column("sequence", BigInteger, nullable=False),
    Column("stopped", Text),
)
"""One row a tenant: how far its segments have come, and why they went no further."""

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
"""One row a variant of a segment. `content` is null where its blob is gone; `sought` is the
text folded for searching, so that both databases find the same."""

Index("segments_by_place", SEGMENTS.c.build, SEGMENTS.c.tenant, SEGMENTS.c.scope, SEGMENTS.c.ref)
