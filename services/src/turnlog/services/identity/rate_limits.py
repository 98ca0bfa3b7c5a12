"""How many requests and bytes a key and a tenant may send, and how many streams a key may open.

Each gateway counts for itself, in memory: a limit is that of one gateway, and a restart forgets it.
Requests may come in a burst, of as many as ten seconds allow; after it they pass as time does. What
a tenant is refused for costs no other tenant anything.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from turnlog.events.errors import Refused
from turnlog.services.identity.principals import Principal

BURST_SECONDS: Final = 10.0
"""Seconds whose requests may come at once."""

MINUTE: Final = 60.0
"""Seconds whose bytes may come at once."""

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


@dataclass
class BodyRates:
    """The bytes of request bodies in a minute of any number of senders; they may come at once."""

    clock: Callable[[], float]
    """Seconds, monotonic."""
    _buckets: OrderedDict[str, _Bucket] = field(
        init=False, default_factory=OrderedDict[str, _Bucket]
    )

    def measure_wait(self, name: str, most: int, size: int) -> float:
        """Return the seconds until a sender of `most` bytes a minute may send so many."""
        lacking = size - self._fill_bucket(name, most).left
        return max(0.0, lacking) * MINUTE / most

    def count_bytes(self, name: str, most: int, size: int) -> None:
        """Count bytes of a sender, or with a negative size give them back."""
        self._fill_bucket(name, most).left -= size

    def _fill_bucket(self, name: str, most: int) -> _Bucket:
        now = self.clock()
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = _Bucket(float(most), now)
        self._buckets.move_to_end(name)
        while len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        bucket.left = min(float(most), bucket.left + (now - bucket.at) * most / MINUTE)
        bucket.at = now
        return bucket


@dataclass(frozen=True, slots=True)
class BodyShare:
    """The bytes that a sender may send, of one key or of a whole tenant."""

    rates: BodyRates
    name: str
    what: str
    most: int

    def require_room(self, size: int) -> None:
        """Raise `TooManyRequests` if so many bytes may not be sent now."""
        if wait := self.rates.measure_wait(self.name, self.most, size):
            detail = f"{self.what} has sent more than {self.most:,} bytes of bodies in a minute"
            raise TooManyRequests(detail, wait)


@dataclass
class BodyBudget:
    """What the body of one request is counted against.

    A body that is larger than a minute's bytes is taken when none of them are used, so that none is
    too large for ever; what it has beyond them is owed.
    """

    shares: Sequence[BodyShare]
    _reserved: int = field(init=False, default=0)
    _received: int = field(init=False, default=0)
    _is_refused: bool = field(init=False, default=False)

    def reserve_bytes(self, size: int) -> None:
        """Count a body of a stated length before it is read; raises `TooManyRequests`.

        Of one that is larger than a minute's bytes, the rest is counted as it comes.
        """
        for each in self.shares:
            each.require_room(min(size, each.most))
        self._reserved = min((size, *(each.most for each in self.shares)))
        self._count(self._reserved)

    def count_piece(self, size: int) -> None:
        """Count a piece that came; raises `TooManyRequests` if no length was stated before."""
        beyond = max(0, self._received + size - max(self._reserved, self._received))
        self._received += size
        if beyond and not self._reserved and not self._is_refused:
            self._is_refused = True  # What is left of a refused body is read and thrown away.
            for each in self.shares:
                each.require_room(1)
            self._is_refused = False
        self._count(beyond)

    def release_rest(self) -> None:
        """Give back what was stated and never came."""
        self._count(min(0, self._received - self._reserved))

    def _count(self, size: int) -> None:
        for each in self.shares:
            each.rates.count_bytes(each.name, each.most, size)


@dataclass(kw_only=True)
class RateLimits:
    """The limits of a gateway; those that are None are not set."""

    keys: RequestRates | None = None
    """Requests of one key, or of one user who signs in otherwise."""
    tenants: RequestRates | None = None
    """Requests of all keys of a tenant together."""
    streams: int | None = None
    """Streams of one key that may be open at once."""
    key_bytes: int | None = None
    """Bytes of bodies a minute of one key, or of one user who signs in otherwise."""
    tenant_bytes: int | None = None
    """Bytes of bodies a minute of all keys of a tenant whose settings say no other number."""
    bodies: BodyRates = field(default_factory=lambda: BodyRates(time.monotonic))
    tenants_bodies: BodyRates = field(default_factory=lambda: BodyRates(time.monotonic))
    _open_streams: Counter[str] = field(init=False, default_factory=Counter[str])

    @contextmanager
    def limit_request(self, principal: Principal, *, is_stream: bool) -> Generator[None]:
        """Count a request while it runs; raises `TooManyRequests`."""
        sender = _name_sender(principal)
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

    def create_body_budget(self, principal: Principal, own: int | None) -> BodyBudget:
        """Return what the body of a request is counted against; `own` is the tenant's setting."""
        most, shares = own or self.tenant_bytes, list[BodyShare]()
        if self.key_bytes is not None:
            sender = _name_sender(principal)
            shares.append(BodyShare(self.bodies, sender, "the key", self.key_bytes))
        if most is not None:
            shares.append(BodyShare(self.tenants_bodies, principal.tenant, "the tenant", most))
        return BodyBudget(shares)


def _name_sender(principal: Principal) -> str:
    return f"{principal.tenant} {principal.key_id or principal.actor}"


def _require_room(rates: RequestRates | None, name: str, what: str) -> None:
    if rates is not None and (wait := rates.count_request(name)):
        detail = f"{what} has sent more than {rates.rate:g} requests a second"
        raise TooManyRequests(detail, wait)
