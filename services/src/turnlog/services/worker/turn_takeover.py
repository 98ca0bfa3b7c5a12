"""Whether a worker may take a turn over from another one that went silent.

Three parts decide together: the server redelivers a turn after `ack_wait`, `compute_grace` says
whether the silence lasted long enough, and the rules of the session allow or refuse the claim.
"""

from __future__ import annotations

from turnlog.events.store.ports import TokenStream
from turnlog.services.worker.turn_queue import TurnDelivery


async def measure_silence(
    tokens: TokenStream, delivery: TurnDelivery, attempt: int
) -> float | None:
    """Return the seconds since the attempt's last token or sign of life, by the server's clock.

    None if none is stored. What an earlier attempt still publishes does not count: its worker was
    superseded.
    """
    events = await tokens.read_token_events(delivery.tenant, delivery.session, delivery.turn)
    since = await tokens.measure_silence(delivery.tenant, delivery.session, delivery.turn)
    own = [stamped.at for stamped in events if stamped.event.attempt == attempt]
    if since is None or not own:
        return None
    return since + (events[-1].at - own[-1]).total_seconds()


class AttemptSuperseded(Exception):
    """The attempt has lost the lease of its turn; only its cost may still be recorded."""


async def compute_grace(
    tokens: TokenStream, delivery: TurnDelivery, attempt: int, ack_wait: float
) -> float:
    """Return the seconds to leave a running attempt alone; 0 when it may be taken over.

    A redelivery of an attempt that left no tokens counts as silence.
    """
    silence = await measure_silence(tokens, delivery, attempt)
    if silence is None:
        return 0 if delivery.redelivered else ack_wait
    return max(0.0, ack_wait - silence)
