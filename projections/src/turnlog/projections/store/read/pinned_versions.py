"""Pinned versions: which texts the open sessions are pinned to, and how many sessions to each.

Closed sessions make no calls, so they are not counted. Prompt files count if they were pinned after
the session's last move to another blueprint version.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    ColumnElement,
    Label,
    Select,
    and_,
    exists,
    func,
    literal,
    null,
    or_,
    select,
    union_all,
)

from turnlog.events.content import Digest
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.read.row_filters import match_tenant
from turnlog.projections.store.read.row_types import PinKind, PinnedText
from turnlog.projections.store.schema.read_model_tables import PROMPTS, SESSIONS, replace_nul


async def list_pins(
    connection: AsyncConnection, tenant: str, blueprint: str | None = None
) -> tuple[PinnedText, ...]:
    """Return all pins of open sessions, of one blueprint or of all, the most used first."""
    live = and_(match_tenant(SESSIONS, tenant), SESSIONS.c.closed_at.is_(None))
    if blueprint is not None:
        live = and_(live, SESSIONS.c.blueprint == replace_nul(blueprint))
    found = union_all(
        _count_session_pins("blueprint", SESSIONS.c.blueprint_digest, live),
        _count_session_pins("cartridge", SESSIONS.c.cartridge, live),
        _count_session_pins("memory", SESSIONS.c.memory, live),
        _count_prompt_pins(live),
    )
    rows = [PinnedText(**row) for row in (await connection.execute(found)).mappings()]
    return tuple(sorted(rows, key=_get_sort_key))


def match_pinned_text(digest: Digest) -> ColumnElement[bool]:
    """Match sessions that are pinned to a text, whatever its kind."""
    own = (SESSIONS.c.blueprint_digest, SESSIONS.c.cartridge, SESSIONS.c.memory)
    prompt = exists().where(_match_current_prompts(), PROMPTS.c.digest == digest)
    return or_(*(column == digest for column in own), prompt)


def _get_sort_key(pin: PinnedText) -> tuple[str, str, str, str, int, str]:
    place = (pin.blueprint, pin.what, pin.layer or "", pin.provider or "")
    return (*place, -pin.sessions, pin.digest)


def _count_session_pins(
    what: PinKind, digest: ColumnElement[str], live: ColumnElement[bool]
) -> Select[*tuple[Any, ...]]:
    """Count the pins that are columns of the session row."""
    version = SESSIONS.c.blueprint_version if what == "blueprint" else null()
    groups = [SESSIONS.c.blueprint, digest, *([version] if what == "blueprint" else [])]
    return (
        select(
            SESSIONS.c.blueprint,
            literal(what).label("what"),
            version.label("version"),
            *_build_null_columns("provider", "layer", "path"),
            digest.label("digest"),
            func.count().label("sessions"),
        )
        .where(live, digest.is_not(None))
        .group_by(*groups)
    )


def _build_null_columns(*names: str) -> list[Label[None]]:
    return [null().label(name) for name in names]


def _count_prompt_pins(live: ColumnElement[bool]) -> Select[*tuple[Any, ...]]:
    rows = PROMPTS.c
    named = (rows.provider, rows.layer, rows.path, rows.digest)
    return (
        select(
            SESSIONS.c.blueprint,
            literal("prompt").label("what"),
            null().label("version"),
            *named,
            func.count().label("sessions"),
        )
        .join(PROMPTS, _match_current_prompts())
        .where(live)
        .group_by(SESSIONS.c.blueprint, *named)
    )


def _match_current_prompts() -> ColumnElement[bool]:
    """Join a session with the prompt files it is currently pinned to."""
    rows = PROMPTS.c
    return and_(
        rows.build == SESSIONS.c.build,
        rows.tenant == SESSIONS.c.tenant,
        rows.session == SESSIONS.c.session,
        rows.pinned_in > SESSIONS.c.blueprint_in,
    )
