"""What a user used in a month, and whether another turn is allowed by the limits.

The last event of a balance's history contains the whole balance. So nothing is folded: the state is
that of the last event, however many there were. A turn is allowed while something is left of every
limit, and then reserves all that it may use. A turn that is not settled counts with that, so turns
that begin at the same time exceed a limit by no more than what the last of them reserved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from turnlog.events.codec import decode_library_event
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.model.quota_events import (
    QuotaBalance,
    QuotaEvent,
    QuotaLimits,
    QuotaReleased,
    QuotaReservation,
    QuotaReserved,
    QuotaSettled,
    QuotaTokens,
)
from turnlog.projections.quotas.turn_bound import TurnBound

MAX_UNSETTLED_TURNS: Final = 200
"""Turns of one user that may be unsettled at once, so that an event stays small."""

OPEN_TURN_DELAY: Final = timedelta(seconds=5)
"""When to ask again where turns that are not settled have reserved what is left."""

LimitName = Literal[
    "input_tokens", "output_tokens", "requests_per_hour", "requests_per_day", "unsettled_turns"
]

_UNITS: Final[Mapping[str, tuple[str, str]]] = {
    "input_tokens": ("input token", "month"),
    "output_tokens": ("output token", "month"),
    "requests_per_hour": ("request", "hour"),
    "requests_per_day": ("request", "day"),
}
"""What is counted, and the calendar period in which it is."""

EMPTY_BALANCE: Final = QuotaBalance()


@dataclass(frozen=True, slots=True)
class UserBalance:
    """What a user used in a month, after an event."""

    head: ChainHead | None = None
    """The last event; None before the first."""
    balance: QuotaBalance = EMPTY_BALANCE

    def find_reservation(self, reservation: str) -> QuotaReservation | None:
        """Return a reservation that is not settled, or None."""
        return _find_reservation(self.balance, reservation)


def read_balance(recorded: RecordedEvent) -> UserBalance:
    """Return the balance after an event."""
    event = decode_library_event(recorded)
    if not isinstance(event, QuotaReserved | QuotaSettled | QuotaReleased):
        raise Corrupt(f"LIBRARY, stream sequence {recorded.stream_sequence}", "it has no balance")
    return UserBalance(recorded.head, event.balance)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitUse:
    """One limit of a user, and how much of it is left."""

    name: LimitName
    limit: int
    used: int
    reserved: int
    """What turns that are not settled may still use."""
    resets_at: datetime
    """When nothing of it is used any more."""

    @property
    def left(self) -> int:
        """What is left for another turn."""
        return max(0, self.limit - self.used - self.reserved)

    @property
    def is_used_up(self) -> bool:
        """Whether nothing would be left even if the turns that are not settled used nothing."""
        return self.used >= self.limit

    @property
    def is_of_tokens(self) -> bool:
        """Whether only turns that call a model use it."""
        return self.name in _TOKEN_LIMITS


class QuotaExceeded(Refused):
    """Nothing is left of a limit, so no turn is allowed: it is used up, or reserved for now."""

    def __init__(self, use: LimitUse, at: datetime) -> None:
        detail, fix = _describe_refusal(use)
        super().__init__("quota-exceeded" if use.is_used_up else "quota-busy", detail, fix=fix)
        self.use = use
        waits = use.resets_at - at if use.is_used_up else OPEN_TURN_DELAY
        self.retry_after = max(1.0, waits.total_seconds())


def _describe_refusal(use: LimitUse) -> tuple[str, str]:
    if use.name == "unsettled_turns":
        detail = f"{use.reserved} turns of the user are not settled yet, and no more may be"
        return detail, "wait until one of them is settled"
    thing, period = _UNITS[use.name]
    resets = format_reset(use.resets_at)
    reserved = f", {use.reserved:,} reserved by turns that are not settled" if use.reserved else ""
    limit = f"{use.limit:,} {thing}{'' if use.limit == 1 else 's'} per {period}"
    if not use.is_used_up:
        detail = f"of {limit} nothing is left at the moment: {use.used:,} used{reserved}"
        return detail, "wait until a turn of the user is settled, or have the limit raised"
    detail = (
        f"nothing is left of {limit}: {use.used:,} used{reserved}; the limit resets at {resets}"
    )
    return detail, f"wait until {resets}, or have the limit raised"


def format_reset(at: datetime) -> str:
    """Format when a limit resets: a whole second in UTC, such as `2026-12-01T00:00:00Z`."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_period(at: datetime) -> str:
    """Return the month of a time, such as `2026-11`."""
    return at.astimezone(UTC).strftime("%Y-%m")


def list_limit_uses(limits: QuotaLimits, balance: QuotaBalance, at: datetime) -> list[LimitUse]:
    """Return every limit that a user has, with what is left of it."""
    now = at.astimezone(UTC)
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    hour = now.replace(minute=0, second=0, microsecond=0)
    month = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
    open_turns = balance.reservations
    held_input = sum(each.input_tokens for each in open_turns)
    held_output = sum(each.output_tokens for each in open_turns)
    in_hour = balance.hour_requests if balance.hour >= _format_hour(now) else 0
    in_day = balance.day_requests if balance.day >= _format_day(now) else 0
    next_hour, next_day = hour + timedelta(hours=1), day + timedelta(days=1)
    rows: tuple[tuple[LimitName, int | None, int, int, datetime], ...] = (
        ("input_tokens", limits.input_tokens, balance.input_tokens, held_input, month),
        ("output_tokens", limits.output_tokens, balance.output_tokens, held_output, month),
        ("requests_per_hour", limits.requests_per_hour, in_hour, 0, next_hour),
        ("requests_per_day", limits.requests_per_day, in_day, 0, next_day),
    )
    return [
        LimitUse(name=name, limit=limit, used=used, reserved=reserved, resets_at=resets)
        for name, limit, used, reserved, resets in rows
        if limit is not None
    ]


def find_refusal(limits: QuotaLimits, balance: QuotaBalance, at: datetime) -> QuotaExceeded | None:
    """Return why no turn is allowed: of the limits with nothing left, the one that lasts longest.

    How much a turn may use does not matter. It is known only once the turn is over, and a user of
    a small quota could otherwise ask nothing at all.
    """
    unsettled = LimitUse(
        name="unsettled_turns",
        limit=MAX_UNSETTLED_TURNS,
        used=0,
        reserved=len(balance.reservations),
        resets_at=at.astimezone(UTC) + OPEN_TURN_DELAY,
    )
    uses = (unsettled, *list_limit_uses(limits, balance, at))
    refusals = (QuotaExceeded(use, at) for use in uses if use.left == 0)
    return max(refusals, key=lambda each: each.retry_after, default=None)


def reserve_turn(
    limits: QuotaLimits, balance: QuotaBalance, user: str, wanted: QuotaReservation, at: datetime
) -> QuotaEvent | None:
    """Return the event of a reservation, or None if it is there already.

    Raises `QuotaExceeded` if nothing is left for a turn that is not there yet.
    """
    before = _find_reservation(balance, wanted.id)
    if before == wanted:
        return None
    others = tuple(each for each in balance.reservations if each.id != wanted.id)
    if before is not None:
        # Another turn was submitted first, so the same request has another number.
        return _replace_reservation(balance, user, wanted)
    refusal = None if wanted.child else find_refusal(limits, balance, at)
    if refusal is not None:
        raise refusal
    hour, day = max(balance.hour, _format_hour(at)), max(balance.day, _format_day(at))
    begun = 0 if wanted.child else 1
    after = balance.model_copy(
        update={
            "hour": hour,
            "hour_requests": begun + (balance.hour_requests if hour == balance.hour else 0),
            "day": day,
            "day_requests": begun + (balance.day_requests if day == balance.day else 0),
            "reservations": (*others, wanted),
        }
    )
    return QuotaReserved(user=user, reservation=wanted, balance=after)


def pause_turn(
    balance: QuotaBalance, user: str, reservation: str, used: TurnBound
) -> QuotaEvent | None:
    """Return the event that leaves a waiting turn what it used; None if it is so already."""
    found = _find_reservation(balance, reservation)
    if found is None or found.paused is not None:
        return None
    whole = QuotaTokens(input_tokens=found.input_tokens, output_tokens=found.output_tokens)
    return _replace_reservation(
        balance,
        user,
        found.model_copy(
            update={
                "input_tokens": used.input_tokens,
                "output_tokens": used.output_tokens,
                "paused": whole,
            }
        ),
    )


def resume_turn(balance: QuotaBalance, user: str, reservation: str) -> QuotaEvent | None:
    """Return the event that reserves for a turn that goes on; None if it is reserved for."""
    found = _find_reservation(balance, reservation)
    if found is None or found.paused is None:
        return None
    whole = found.paused
    update = {
        "input_tokens": whole.input_tokens,
        "output_tokens": whole.output_tokens,
        "paused": None,
    }
    return _replace_reservation(balance, user, found.model_copy(update=update))


def find_used_up_tokens(
    limits: QuotaLimits, balance: QuotaBalance, at: datetime
) -> QuotaExceeded | None:
    """Return why a turn that waited may not go on, or None.

    It was allowed once, so what others have reserved does not stop it, and it is one of the
    requests already.
    """
    uses = [each for each in list_limit_uses(limits, balance, at) if each.is_of_tokens]
    refusals = (QuotaExceeded(use, at) for use in uses if use.is_used_up)
    return next(refusals, None)


_TOKEN_LIMITS: Final = frozenset[LimitName]({"input_tokens", "output_tokens"})


def _find_reservation(balance: QuotaBalance, reservation: str) -> QuotaReservation | None:
    return next((each for each in balance.reservations if each.id == reservation), None)


def _replace_reservation(
    balance: QuotaBalance, user: str, changed: QuotaReservation
) -> QuotaReserved:
    others = tuple(each for each in balance.reservations if each.id != changed.id)
    after = balance.model_copy(update={"reservations": (*others, changed)})
    return QuotaReserved(user=user, reservation=changed, balance=after)


def settle_turn(
    balance: QuotaBalance, user: str, reservation: str, used: TurnBound
) -> QuotaEvent | None:
    """Return the event that replaces a reservation by what was used; None if it is settled."""
    rest = tuple(each for each in balance.reservations if each.id != reservation)
    if len(rest) == len(balance.reservations):
        return None
    after = balance.model_copy(
        update={
            "input_tokens": balance.input_tokens + used.input_tokens,
            "output_tokens": balance.output_tokens + used.output_tokens,
            "reservations": rest,
        }
    )
    return QuotaSettled(
        user=user,
        reservation=reservation,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        balance=after,
    )


def release_turn(balance: QuotaBalance, user: str, reservation: str) -> QuotaEvent | None:
    """Return the event that releases a reservation with its request; None if there is none."""
    found = _find_reservation(balance, reservation)
    if found is None:
        return None
    at = datetime.fromisoformat(found.at)
    in_hour = not found.child and balance.hour == _format_hour(at)
    in_day = not found.child and balance.day == _format_day(at)
    after = balance.model_copy(
        update={
            "hour_requests": balance.hour_requests - in_hour,
            "day_requests": balance.day_requests - in_day,
            "reservations": tuple(each for each in balance.reservations if each is not found),
        }
    )
    return QuotaReleased(user=user, reservation=reservation, balance=after)


def _format_hour(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H")


def _format_day(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d")
