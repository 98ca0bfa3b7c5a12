"""The keys of one issuer, found by its discovery document, fetched when needed, and kept.

A key that is not known is looked for at most once a minute, whatever tokens name, and there is one
fetch at a time, which all that need it wait for. Known keys go on counting while a fetch is under
way or the issuer is gone, for at most a day: after that, nobody knows which it has withdrawn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import httpx
import structlog

from turnlog.events.errors import Unavailable
from turnlog.projections.blueprint.bounded_json import InvalidJson
from turnlog.services.identity.issuer_documents import (
    FETCH_SECONDS,
    IssuerFault,
    fetch_discovery,
    fetch_document,
    get_address,
)
from turnlog.services.identity.key_sets import (
    InvalidKeySet,
    VerificationKey,
    has_key_id,
    parse_key_set,
)

REFETCH_SECONDS: Final = 60.0
"""Seconds between two fetches for keys that are not known."""

RETRY_SECONDS: Final = 5.0
"""Seconds after a fetch that failed, while no key is known."""

STALE_SECONDS: Final = 600.0
"""Age of a key set at which it is fetched again, so that keys an issuer withdrew are forgotten."""

DEAD_SECONDS: Final = 86_400.0
"""Age of a key set at which it counts no more."""

_log = structlog.get_logger("turnlog.identity")


@dataclass(frozen=True, slots=True)
class _KeySet:
    keys: tuple[VerificationKey, ...] = ()
    fetched: float = float("-inf")


class IssuerKeys:
    """The keys of an issuer; belongs to one event loop."""

    def __init__(
        self,
        issuer: str,
        http: httpx.AsyncClient,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        fetch_seconds: float = FETCH_SECONDS,
    ) -> None:
        self._issuer = issuer
        self._http = http
        self._monotonic = monotonic
        self._fetch_seconds = fetch_seconds
        self._known = _KeySet()
        self._fetch: asyncio.Task[None] | None = None
        self._tried = float("-inf")
        self._fault: str | None = None
        self.generation = 0
        """Grows when a key is gone, so that what it verified can be forgotten."""

    async def list_keys(self, key_id: str | None) -> Sequence[VerificationKey]:
        """Return the keys, those of a new key set if no known one has this id.

        Raises `Unavailable` where the key may be one that cannot be fetched now.
        """
        self.refresh_stale_keys()
        keys = self._list_live_keys()
        if has_key_id(keys, key_id):
            return keys
        wait = REFETCH_SECONDS if keys else RETRY_SECONDS
        if self._fetch is not None or self._monotonic() - self._tried >= wait:
            await asyncio.shield(self._start_fetch())
        keys = self._list_live_keys()
        if self._fault is not None and not has_key_id(keys, key_id):
            raise Unavailable("the issuer of tokens", self._fault, retry_after=RETRY_SECONDS)
        return keys

    def refresh_stale_keys(self) -> None:
        """Begin to fetch a key set that is old, without waiting for it."""
        now = self._monotonic()
        is_stale = bool(self._known.keys) and now - self._known.fetched >= STALE_SECONDS
        if is_stale and now - self._tried >= REFETCH_SECONDS:
            self._start_fetch()

    async def close(self) -> None:
        """End a fetch that is under way."""
        if self._fetch is not None:
            self._fetch.cancel()
            await asyncio.wait((self._fetch,))

    def _list_live_keys(self) -> Sequence[VerificationKey]:
        is_live = self._monotonic() - self._known.fetched < DEAD_SECONDS
        return self._known.keys if is_live else ()

    def _start_fetch(self) -> asyncio.Task[None]:
        if self._fetch is None:
            self._tried = self._monotonic()
            self._fetch = asyncio.create_task(self._replace_keys())
        return self._fetch

    async def _replace_keys(self) -> None:
        try:
            async with asyncio.timeout(self._fetch_seconds):
                keys = await self._fetch_keys()
        except TimeoutError:
            self._fault = f"it did not answer within {self._fetch_seconds:g} s"
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            self._fault = f"the request failed: {type(error).__name__}"
        except (IssuerFault, InvalidKeySet, InvalidJson) as error:
            self._fault = str(error)
        else:
            self._fault = None
            if not {key.thumbprint for key in self._known.keys} <= {k.thumbprint for k in keys}:
                self.generation += 1
            self._known = _KeySet(keys, self._monotonic())
        finally:
            self._fetch = None
        if self._fault is not None:
            _log.warning("issuer-keys-not-fetched", issuer=self._issuer, reason=self._fault)

    async def _fetch_keys(self) -> tuple[VerificationKey, ...]:
        document = await fetch_discovery(self._http, self._issuer)
        address = get_address(document, "jwks_uri", "keys")
        keys = parse_key_set(await fetch_document(self._http, "GET", address))
        if not keys:
            raise IssuerFault("its key set has no key that verifies tokens")
        return keys
