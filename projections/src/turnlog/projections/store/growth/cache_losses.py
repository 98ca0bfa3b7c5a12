"""Lists what was not read from the caches of providers, by cause, with the call that lost most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import BigInteger, RowMapping, Select, cast, func, select

from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.growth.cache_outcomes import (
    NO_CAUSE,
    build_cache_use,
    select_cache_outcomes,
)
from turnlog.projections.store.growth.chosen_calls import choose_calls
from turnlog.projections.store.growth.token_ledger import GrowthFilter
from turnlog.projections.store.read.cost_columns import COST_COLUMNS
from turnlog.projections.store.read.row_types import CacheUse

_GROUP: Final = ("blueprint", "version", "outcome", "cause")

_FIGURES: Final = ("calls", "tokens", *COST_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLoss:
    """What the calls of a version of a blueprint lost for one cause."""

    blueprint: str
    version: int | None
    """The version at the calls; None if it is unknown."""
    lost: CacheUse
    session: str
    """The session of the call that lost most."""
    call: str
    """That call."""
    prefix_call: str
    """The call before it of its kind, whose prompt was in the cache."""
    model: str
    """The model of that call."""
    tokens: int
    """What that call lost."""


async def list_cache_losses(
    connection: AsyncConnection, tenant: str, sought: GrowthFilter, limit: int
) -> tuple[CacheLoss, ...]:
    """Return the dearest losses of the calls sought; those without a known price come last.

    Reads the rows of every call sought.
    """
    ranked = _rank_losses(tenant, sought).subquery()
    dearest = [ranked.c[f"all_{name}"].desc() for name in ("micro_dollars", "tokens")]
    group = [ranked.c[name] for name in _GROUP]
    found = select(ranked).where(ranked.c.place == 1).order_by(*dearest, *group).limit(limit)
    return tuple(map(_build_loss, (await connection.execute(found)).mappings()))


def _rank_losses(tenant: str, sought: GrowthFilter) -> Select[Any]:
    """Select each loss with the sums of its group, and its place there by what was lost."""
    dimensions = ("session", "blueprint", "version")
    chosen = choose_calls(sought.build_conditions(tenant), dimensions)
    keys = [chosen.c[name] for name in (*dimensions, "call", "prefix_call", "model")]
    uses = select_cache_outcomes(chosen, keys).subquery()
    group = [uses.c[name] for name in _GROUP]
    sums = [
        cast(func.sum(uses.c[name]).over(partition_by=group), BigInteger).label(f"all_{name}")
        for name in _FIGURES
    ]
    order = (uses.c.micro_dollars.desc(), uses.c.tokens.desc(), uses.c.session, uses.c.call)
    place = func.row_number().over(partition_by=group, order_by=order)
    return select(uses, *sums, place.label("place")).where(uses.c.cause != NO_CAUSE)


def _build_loss(row: RowMapping) -> CacheLoss:
    sums = {name: row[f"all_{name}"] for name in _FIGURES}
    return CacheLoss(
        blueprint=row["blueprint"],
        version=row["version"],
        lost=build_cache_use({**row, **sums}),
        session=row["session"],
        call=row["call"],
        prefix_call=row["prefix_call"],
        model=row["model"],
        tokens=row["tokens"],
    )
