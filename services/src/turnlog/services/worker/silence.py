"""How long an attempt has been silent, by the server's clock."""

from __future__ import annotations

from turnlog.events.log.ports import TokenStream
from turnlog.services.worker.delivery import Delivery


async def silence_of(tokens: TokenStream, delivery: Delivery, attempt: int) -> float | None:
    """Seconds since the attempt's last token or sign of life; none when none is held.

    What an earlier attempt still publishes does not count: it is a worker that was superseded.
    """
    held = await tokens.recorded(delivery.tenant, delivery.session, delivery.turn)
    since = await tokens.silence(delivery.tenant, delivery.session, delivery.turn)
    own = [stamped.at for stamped in held if stamped.event.attempt == attempt]
    if since is None or not own:
        return None
    return since + (held[-1].at - own[-1]).total_seconds()
