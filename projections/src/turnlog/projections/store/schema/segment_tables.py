"""The tables of library segments: the current text of every variant.

Segments belong to no session, so they are a projection of their own, with its own name, version and
position. Texts can be read here but are edited only through the log.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Boolean, Column, Index, Table, Text

from turnlog.projections.store.schema.read_model_tables import METADATA

__all__ = ["LIBRARIES", "METADATA", "SEGMENTS"]

LIBRARIES: Final = Table(
    "libraries",
    METADATA,
    Column("build", BigInteger, primary_key=True, autoincrement=False),
    Column("tenant", Text, primary_key=True),
    Column("sequence", BigInteger, nullable=False),
    Column("stopped", Text),
)
"""One row per tenant: the sequence its segments are folded to, and why folding stopped there."""

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


Index("segments_by_place", SEGMENTS.c.build, SEGMENTS.c.tenant, SEGMENTS.c.scope, SEGMENTS.c.ref)
