"""Sums over the calls of each hour, so that a question about a month does not read every call.

The hour that is not over has sums of each ten minutes. A sum is computed again from the rows of its
calls after any of these changed, and never added to. Until then its time is listed as changed, and
whoever asks reads the rows themselves. The latest ten minutes of a tenant always are.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Index,
    Table,
    Text,
    func,
    literal_column,
    text,
)

from turnlog.projections.store.schema.read_model_tables import METADATA

HOUR_CHARACTERS: Final = len("2026-11-23T08")
"""How much of a time is its hour."""

TEN_MINUTES_CHARACTERS: Final = len("2026-11-23T08:3")
"""How much of a time is its ten minutes."""


def truncate_time(time: ColumnElement[str], characters: int) -> ColumnElement[str]:
    """Return the hour or the ten minutes of a column of times."""
    return func.substr(time, literal_column("1"), literal_column(str(characters)))


HOUR_DIMENSIONS: Final = ("blueprint", "version", "profile", "kind", "model")
"""What the calls of a sum have in common; the version is that of the blueprint at the call."""


def _build_hour_table(
    name: str,
    labels: tuple[str, ...],
    figures: tuple[str, ...],
    *later: Column[int],
    label_type: type[Text | BigInteger] = Text,
) -> Table:
    texts = [each for each in HOUR_DIMENSIONS if each != "version"]
    table = Table(
        name,
        METADATA,
        Column("build", BigInteger, nullable=False),
        Column("tenant", Text, nullable=False),
        Column("hour", Text, nullable=False),
        *(Column(each, Text) for each in texts),
        Column("version", BigInteger),
        *(Column(each, label_type, nullable=False) for each in labels),
        *(Column(each, BigInteger, nullable=False) for each in figures),
        *later,
    )
    Index(f"{name}_by_time", table.c.build, table.c.tenant, table.c.hour)
    return table


CALL_HOURS: Final = _build_hour_table(
    "call_hours",
    (),
    ("calls", "tokens", "savings"),
    # Rows of earlier releases do not say it, and are read until there are others.
    Column("cut_calls", BigInteger, nullable=False, server_default=text("0")),
)
"""How many calls were made, with the tokens of their prompts and what was saved of these, and how
many were cut: those whose prompts a rule shortened.
"""


ATTEMPT_HOURS: Final = _build_hour_table(
    "attempt_hours",
    (),
    (
        *("input_tokens", "cached_tokens", "micro_dollars"),
        *("priced_attempts", "guessed_attempts", "unpriced_calls"),
    ),
)
"""What the attempts of the calls sent and cost, whenever they were made."""

COMPONENT_HOURS: Final = _build_hour_table(
    "component_hours", ("component",), ("calls", "included", "tokens", "cut_turns")
)
"""The components of the calls: in how many there was one, and in how many it held anything."""

RULE_HOURS: Final = _build_hour_table("rule_hours", ("rule",), ("calls", "tokens"))
"""What each rule saved in how many calls."""

PREFIX_HOURS: Final = _build_hour_table("prefix_hours", ("layer",), ("calls", "tokens"))
"""The calls whose prompts differ from those before them by layer, and what these had from there."""

CACHE_HOURS: Final = _build_hour_table(
    "cache_hours",
    ("outcome", "cause"),
    (
        *("calls", "tokens", "micro_dollars"),
        *("priced_attempts", "guessed_attempts", "unpriced_calls"),
    ),
)
"""What became of the caches of the prompts, and the tokens that were not read from them."""

SIZE_HOURS: Final = _build_hour_table("size_hours", ("size",), ("calls",), label_type=BigInteger)
"""How many prompts were of each size, in tokens that are rounded to a few percent."""

CHANGED_HOURS: Final = Table(
    "changed_hours",
    METADATA,
    Column("build", BigInteger, primary_key=True, autoincrement=False),
    Column("tenant", Text, primary_key=True),
    Column("hour", Text, primary_key=True),
    sqlite_with_rowid=False,
)
"""The times whose sums are to be computed from the rows: an hour that has sums, or ten minutes."""

HOUR_TABLES: Final = (
    CALL_HOURS,
    ATTEMPT_HOURS,
    COMPONENT_HOURS,
    RULE_HOURS,
    PREFIX_HOURS,
    CACHE_HOURS,
    SIZE_HOURS,
    CHANGED_HOURS,
)
"""Every table that is kept by the hour. Their rows belong to no session."""
