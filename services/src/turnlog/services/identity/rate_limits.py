"""How many requests a key and a tenant may send, and how many streams a key may have open.

Each gateway counts for itself, in memory: a limit is that of one gateway, and a restart forgets it.
Requests may come in a burst, of as many as ten seconds allow; after it they pass as time does. What
a tenant is refused for costs no other tenant anything.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from turnlog.events.errors import Refused
from turnlog.services.identity.principals import Principal

BURST_SECONDS: Final = 10.0
"""Seconds whose requests may come at once."""

MAX_BUCKETS: Final = 10_000
"""Keys and tenants that are counted; the one that was quiet longest is forgotten first."""


class TooManyRequests(Refused):
    """A key or a tenant has sent more than its gateway takes; it may go on after a while."""

    def __init__(self, what: str, retry_after: float) -> None:
        super().__init__("too-many-requests", what, fix="wait as long as Retry-After says")
        self.retry_after = retry_after


@dataclass(slots=True)
class _Bucket:
    """Requests that may be sent at once, and when that was so."""

    left: float
    at: float


@dataclass
class RequestRates:
    """The requests a second of any number of senders, each with a bucket of its own."""

    rate: float
    """Requests a second; a bucket holds those of `BURST_SECONDS`."""
    clock: Callable[[], float]
    """Seconds, monotonic."""
    _buckets: OrderedDict[str, _Bucket] = field(
        init=False, default_factory=OrderedDict[str, _Bucket]
    )

    def count_request(self, name: str) -> float:
        """Count a request of a sender; return the seconds it has to wait, 0 if it may pass."""
        most, now = max(1.0, self.rate * BURST_SECONDS), self.clock()
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = _Bucket(most, now)
        self._buckets.move_to_end(name)
        while len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        bucket.left = min(most, bucket.left + (now - bucket.at) * self.rate)
        bucket.at = now
        if bucket.left < 1:
            return (1 - bucket.left) / self.rate
        bucket.left -= 1
        return 0.0


@dataclass(kw_only=True)
class RateLimits:
    """The limits of a gateway; those that are None are not set."""

    keys: RequestRates | None = None
    """Requests of one key, or of one user who signs in otherwise."""
    tenants: RequestRates | None = None
    """Requests of all keys of a tenant together."""
    streams: int | None = None
    """Streams of one key that may be open at once."""
    _open_streams: Counter[str] = field(init=False, default_factory=Counter[str])

    @contextmanager
    def limit_request(self, principal: Principal, *, is_stream: bool) -> Generator[None]:
        """Count a request while it runs; raises `TooManyRequests`."""
        sender = f"{principal.tenant} {principal.key_id or principal.actor}"
        _require_room(self.keys, sender, "the key")
        _require_room(self.tenants, principal.tenant, "the tenant")
        if not is_stream or self.streams is None:
            yield
            return
        if self._open_streams[sender] >= self.streams:
            detail = f"the key has {self.streams} streams open, and no more may be"
            raise TooManyRequests(detail, 1.0)
        self._open_streams[sender] += 1
        try:
            yield
        finally:
            self._open_streams[sender] -= 1
            if not self._open_streams[sender]:
                del self._open_streams[sender]


def _require_room(rates: RequestRates | None, name: str, what: str) -> None:
    if rates is not None and (wait := rates.count_request(name)):
        detail = f"{what} has sent more than {rates.rate:g} requests a second"
        raise TooManyRequests(detail, wait)
