"""How far the deliverer of a webhook has got, while it runs: what the record's place is made from.

Everything up to `after` is delivered, except what sessions have to get that are behind. A session
falls behind when a delivery of it fails, or takes long; it then has a place of its own, so that
the others go on, and the order of its events stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from turnlog.events.codec import format_rfc3339
from turnlog.events.model.webhook_events import (
    DeliveryFailure,
    SessionPlace,
    WebhookPlace,
)
from turnlog.projections.webhooks.webhook_subscriptions import StoredWebhook


@dataclass(kw_only=True)
class DeliveryProgress:
    """The place of a webhook, as its deliverer moves it."""

    claim: int
    handled: int
    after: int
    behind: dict[str, SessionPlace] = field(default_factory=dict[str, SessionPlace])
    delivered: int = 0
    delivered_at: str | None = None
    stopped: DeliveryFailure | None = None
    _pending: set[int] = field(default_factory=set[int])
    """Positions of the batch that is being delivered, without those that are."""

    def build_place(self) -> WebhookPlace:
        """Return the place as it is recorded."""
        floor = min(self._pending) - 1 if self._pending else self.after
        return WebhookPlace(
            after=floor,
            behind=tuple(self.behind.values()),
            delivered=self.delivered,
            delivered_at=self.delivered_at,
            stopped=self.stopped,
            handled=self.handled,
            claim=self.claim,
        )

    def begin_batch(self, end: int, positions: Iterable[int]) -> None:
        """Move to the end of a batch, of which these positions are to be delivered."""
        self.after = end
        self._pending = set(positions)

    def note_delivery(self, position: int, at: datetime) -> None:
        """Note that an event was accepted."""
        self._pending.discard(position)
        self.delivered += 1
        self.delivered_at = format_rfc3339(at)

    def is_pending(self, position: int) -> bool:
        """Return whether an event of the batch is not delivered."""
        return position in self._pending

    def extend_session(self, session: str, position: int) -> bool:
        """Leave an event to a session that is behind; return whether it is."""
        place = self.behind.get(session)
        if place is None:
            return False
        if position > place.upto:
            self.behind[session] = place.model_copy(update={"upto": position})
        return True

    def put_behind(self, session: str, after: int, positions: Sequence[int]) -> None:
        """Give a session a place of its own, from the events on that are not delivered."""
        self.behind[session] = SessionPlace(session=session, after=after, upto=positions[-1])
        self._pending.difference_update(positions)

    def advance_session(self, session: str, position: int) -> None:
        """Note up to where a session that is behind is delivered."""
        self.behind[session] = self.behind[session].model_copy(
            update={
                "after": position,
                "tries": 0,
                "failing_since": None,
                "next_try": None,
                "failure": None,
            }
        )

    def note_failure(
        self,
        session: str,
        failure: DeliveryFailure,
        delays: Sequence[float],
        at: datetime,
        at_least: float = 0.0,
    ) -> bool:
        """Note a failed try of a session that is behind; return whether it was the last one.

        The next one is `at_least` so many seconds later.
        """
        place = self.behind[session]
        tries = place.tries + 1
        is_last = tries > len(delays)
        wait = timedelta(seconds=0 if is_last else max(delays[tries - 1], at_least))
        self.behind[session] = place.model_copy(
            update={
                "tries": tries,
                "failing_since": place.failing_since or format_rfc3339(at),
                "next_try": None if is_last else format_rfc3339(at + wait),
                "failure": failure,
            }
        )
        return is_last

    def stop_session(self, session: str, failure: DeliveryFailure) -> None:
        """Try a session no more until that is requested."""
        self.behind[session] = self.behind[session].model_copy(
            update={"given_up": True, "next_try": None, "failure": failure}
        )

    def is_failing_as_a_whole(self, session: str, others: int) -> bool:
        """Return whether others fail too, and nothing was accepted since a session began to."""
        since = self.behind[session].failing_since
        failing = [each for each in self.behind.values() if each.tries and not each.given_up]
        nothing_since = self.delivered_at is None or (since or "") > self.delivered_at
        return nothing_since and len(failing) > others

    def list_retried(self) -> list[str]:
        """Return the sessions that are behind and were not given up."""
        return [each.session for each in self.behind.values() if not each.given_up]

    def list_failing_since(self) -> list[str]:
        """Return since when sessions fail that were not given up."""
        return [
            each.failing_since
            for each in self.behind.values()
            if each.failing_since is not None and not each.given_up
        ]

    def count_given_up(self) -> int:
        """Return how many sessions were given up."""
        return sum(each.given_up for each in self.behind.values())


def resume_progress(
    place: WebhookPlace | None, webhook: StoredWebhook, claim: int
) -> DeliveryProgress:
    """Return how far a webhook is under a new claim, after the commands that came since.

    A resumed one tries at once what had failed. What was given up is tried again if that was
    requested.
    """
    before = place or WebhookPlace(after=webhook.after)
    is_resumed = webhook.resumed > before.handled
    redelivered = [each for each in webhook.redeliveries if each.sequence > before.handled]
    wanted = {each.session for each in redelivered}
    behind: dict[str, SessionPlace] = {}
    for each in before.behind:
        is_again = each.given_up and bool(wanted & {None, each.session})
        if is_again or (is_resumed and not each.given_up):
            update = {"given_up": False, "tries": 0, "failing_since": None, "next_try": None}
            behind[each.session] = each.model_copy(update=update)
        else:
            behind[each.session] = each
    return DeliveryProgress(
        claim=claim,
        handled=webhook.changed,
        after=before.after,
        behind=behind,
        delivered=before.delivered,
        delivered_at=before.delivered_at,
        stopped=None if is_resumed else before.stopped,
    )
