"""Postgres addresses as hosts hand them out: `postgres://u:p@host/db?sslmode=require&...`.

The words of such an address are libpq's. asyncpg reads those about TLS and sends what it does not
know to the server as settings; SQLAlchemy passes each one on as an argument. So the words are
sorted here. A pooler that gives each transaction another connection keeps no prepared statement,
so none is kept here where the address shows one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

import asyncpg
from sqlalchemy import URL

from turnlog.events.errors import Refused

_TLS_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")

_SQLALCHEMY_WORDS: Final = frozenset({"host", "port"})
"""Words that SQLAlchemy reads: where the server is, for example the folder of its socket."""

_UNUSED_WORDS: Final = frozenset(
    {
        "channel_binding",
        "connection_limit",
        "gssencmode",
        "keepalives",
        "keepalives_count",
        "keepalives_idle",
        "keepalives_interval",
        "pool_timeout",
        "schema",
        "sslcompression",
        "sslsni",
        "supa",
        "tcp_user_timeout",
    }
)
"""Words of libpq and of other clients that asyncpg does not know, and no server takes."""

_POOLER_WORD: Final = "pgbouncer"
"""`pgbouncer=true` says that a pooler is in front; Prisma began with it, and hosts repeat it."""

_POOLER_PORT: Final = 6543
"""The port of the poolers of Supabase."""

_POOLER_HOST: Final = "-pooler."
"""A part of the names of the poolers of Neon."""


def split_address(url: URL, timeout: float) -> tuple[URL, dict[str, Any]]:
    """Return what SQLAlchemy connects to, and the arguments for asyncpg.

    `timeout` in seconds is for a connection, unless the address has one, and for each statement.
    Raises `Refused` for a value that libpq does not have either.
    """
    words = {name: _take_last(value) for name, value in url.query.items()}
    mode = words.get("sslmode", "prefer")
    if mode not in _TLS_MODES:
        raise _refuse_word("sslmode", f"one of {', '.join(_TLS_MODES)}")
    try:
        connect = float(words.pop("connect_timeout", timeout))
    except ValueError:
        raise _refuse_word("connect_timeout", "a number of seconds") from None
    arguments: dict[str, Any] = {
        # Of libpq, 0 and less mean to wait for ever, which none of the processes may do.
        "timeout": connect if 0 < connect < math.inf else timeout,
        "command_timeout": timeout,
        "async_creator_fn": _connect,
    }
    if _has_pooler(url, words):
        arguments |= {
            "statement_cache_size": 0,
            "prepared_statement_cache_size": 0,
            "prepared_statement_name_func": lambda: "",
        }
    sent = words.keys() - _SQLALCHEMY_WORDS - _UNUSED_WORDS - {_POOLER_WORD}
    if sent:
        # asyncpg alone knows what sslrootcert, service, options and the like mean.
        arguments["dsn"] = "postgresql://?" + urlencode({name: words[name] for name in sent})
    kept = {name: url.query[name] for name in url.query.keys() & _SQLALCHEMY_WORDS}
    return url.set(drivername="postgresql+asyncpg", query=kept), arguments


def _take_last(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else value[-1]


def _has_pooler(url: URL, words: Mapping[str, str]) -> bool:
    said = words.get(_POOLER_WORD)
    if said is not None:
        return said.lower() in {"1", "on", "true", "yes"}
    return url.port == _POOLER_PORT or _POOLER_HOST in (url.host or "")


def _refuse_word(name: str, allowed: str) -> Refused:
    detail = f"no database for the read models: `{name}` of the address is not {allowed}"
    return Refused("bad-database", detail, field="database", fix=f"make `{name}` {allowed}")


async def _connect(**arguments: Any) -> asyncpg.Connection[Any]:  # noqa: ANN401 - asyncpg's own
    """Connect, and raise what cannot be set up, such as a missing certificate, as `OSError`."""
    try:
        connection: asyncpg.Connection[Any] = await asyncpg.connect(**arguments)
    except asyncpg.InterfaceError as error:
        raise ConnectionError(str(error)) from error
    return connection
