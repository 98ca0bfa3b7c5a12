"""What the token stream still holds of an attempt whose worker went silent.

Only a closed attempt counts as an answer, and only if its tokens join without a gap to the text
whose digest the closing message states. Anything less is recovered as a partial text.
"""

from __future__ import annotations

from turnlog.events.log.ports import TokenStream
from turnlog.services.worker.delivery import TurnDelivery


async def measure_silence(tokens: TokenStream, delivery: TurnDelivery, attempt: int) -> float | None:
    """Return the seconds since the attempt's last token or sign of life, by the server's clock.

    None if none is stored. What an earlier attempt still publishes does not count: its worker was
    superseded.
    """
    held = await tokens.read_token_events(delivery.tenant, delivery.session, delivery.turn)
    since = await tokens.measure_silence(delivery.tenant, delivery.session, delivery.turn)
    own = [stamped.at for stamped in held if stamped.event.attempt == attempt]
    if since is None or not own:
        return None
    return since + (held[-1].at - own[-1]).total_seconds()
