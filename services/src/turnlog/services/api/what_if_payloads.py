"""The request and the response lines of the what-if comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, get_args

from pydantic import Field, JsonValue

from turnlog.contract.payload_models import ResponseModel
from turnlog.events.content import Digest
from turnlog.projections.audit.what_if.reassembled_calls import PromptAlteration, PromptSize
from turnlog.projections.audit.what_if.what_if_report import AlterationCount, RefusalCount

EXACTNESS_NOTE = (
    "Exact for context, not for behaviour: it shows what each recorded call would have been sent, "
    "with the messages of users and models as they were recorded, and the knowledge that each turn "
    "had retrieved. What a model would have answered instead, what users would have written then, "
    "and what another search would have found, is unknown."
)


class WhatIfBlueprint(ResponseModel):
    """The blueprint of the hypothetical change."""

    blueprint: str
    """The name."""
    version: int
    """The version number set by its author."""
    digest: Digest
    """The digest of its structure."""


class WhatIfStart(ResponseModel):
    """The first line: the change and the number of sessions."""

    line: Literal["begun"] = "begun"
    sessions: int
    """The number of lines before the last."""
    behind: int
    """By how many events the read models lagged when sessions were listed; 0 when they were named.
    """
    blueprint: WhatIfBlueprint | None
    """The blueprint in the request."""
    budget: int | None
    """The budget in the request."""
    model: str | None
    """The model in the request."""
    ladder: Mapping[str, Mapping[str, JsonValue]] | None = None
    """The settings of steps in the request."""
    exact: str = EXACTNESS_NOTE
    """How far the figures can be relied on."""


class PromptTotalsView(ResponseModel):
    """The totals of prompts, before or after the change."""

    tokens: int
    """Tokens of all prompts."""
    largest: int
    """Tokens of the largest prompt."""
    prefix: int
    """Tokens that equal the beginning of the previous call of the same kind, which a provider's
    cache could reuse.
    """
    models: Mapping[str, int]
    """Tokens by model."""
    counters: tuple[str, ...]
    """The token counters; figures of different counters are not comparable."""
    micro_dollars: int
    """The price of the prompts alone in millionths of a dollar, without caching."""
    cached_micro_dollars: int
    """The same if providers read from their caches what they can, and nothing expires; without
    caching where the terms of a provider are not known.
    """
    cached_tokens: int
    """What they could read."""
    lost_tokens: int
    """What they could read besides, if every prompt went on from the whole one before it."""
    lost_micro_dollars: int
    """What these cost more than read from a cache."""
    guessed: bool
    """Whether a price in it is a guess, because no table has the very model."""


class WhatIfTotalsView(ResponseModel):
    """The totals of a hypothetical change."""

    calls: int
    """The number of recorded calls."""
    again: int
    """Calls that could be assembled under the change; all sums are over these."""
    same: int
    """Calls whose request would be identical."""
    before: PromptTotalsView
    """The totals as recorded."""
    after: PromptTotalsView
    """The totals under the change."""
    altered: tuple[AlterationCount, ...]
    """The differences, most frequent first."""
    refused: tuple[RefusalCount, ...]
    """Why calls could not be assembled, most frequent first."""


class LayerSizeView(ResponseModel):
    """A layer that is always kept and does not fit."""

    layer: str
    """The layer."""
    tokens: int
    """Its tokens."""


class CallRefusalView(ResponseModel):
    """Why a call could not be assembled."""

    code: str
    """The error code, for programs."""
    detail: str
    """The error, for people."""
    field: str | None
    """The field at fault."""
    fix: str
    """How to fix it."""
    over: int | None = None
    """By how many tokens it exceeds its budget."""
    limit: int | None = None
    """The budget in tokens."""
    section: str | None = None
    """The layer whose limit is exceeded; null when it is another limit."""
    component: str | None = None
    """The component whose limit is exceeded; null when it is another limit."""
    kept: tuple[LayerSizeView, ...] = ()
    """The layers that are always kept and do not fit."""


class WhatIfCall(ResponseModel):
    """A recorded call, before and after the change."""

    call: str
    """The call id."""
    turn: int
    """The turn number."""
    sequence: int
    """The sequence of the event that recorded its prompt."""
    before: PromptSize
    """The prompt as recorded."""
    after: PromptSize | None
    """The prompt under the change; null when it could not be assembled."""
    altered: tuple[PromptAlteration, ...]
    """The differences."""
    refused: CallRefusalView | None
    """Why it could not be assembled."""


class WhatIfPrompt(ResponseModel):
    """The prompt of one call, as recorded or under the change."""

    tokens: int
    """Its tokens."""
    budget: int | None
    """Its budget in tokens; null if it has none."""
    components: Mapping[str, int]
    """The tokens by component."""
    cut_by: tuple[str, ...]
    """The steps of the ladder that made it fit."""
    cached_micro_dollars: int
    """Its price, if its provider reads from its cache what it can."""
    lost_tokens: int
    """What the provider could read besides, if it went on from the whole prompt before it."""
    lost_micro_dollars: int
    """What these cost more than read from a cache."""


class WhatIfComparison(ResponseModel):
    """The prompts of one call, before and after the change."""

    call: str
    """The call id."""
    turn: int
    """The turn number."""
    kind: str
    """The blueprint's name for this kind of call."""
    before: WhatIfPrompt
    """The prompt as recorded."""
    after: WhatIfPrompt | None
    """The prompt under the change; null when it could not be assembled."""


class WhatIfSession(WhatIfTotalsView):
    """The line of one session."""

    line: Literal["session"] = "session"
    session: str
    """The session id."""
    sequence: int
    """The last sequence."""
    blueprint: str
    """The session's blueprint."""
    version: int
    """The blueprint's latest version in this session."""
    worst: tuple[WhatIfCall, ...]
    """The calls with the largest differences, worst first; their number is limited."""
    compared: tuple[WhatIfComparison, ...]
    """The last 1,000 calls in their order, where there is one session; else none."""
    badness: tuple[int, ...]
    """The sort key for sessions, greatest first: calls that could not be assembled, cuts, lost
    cache tokens, added tokens.
    """


class WhatIfFailedSession(ResponseModel):
    """The line of a session that could not be evaluated."""

    line: Literal["untold"] = "untold"
    session: str
    """The session id."""
    code: str
    """`corrupt` or `unknown-session`."""
    detail: str
    """What is wrong with it."""


class WhatIfSummary(WhatIfTotalsView):
    """The last line: the totals of all sessions."""

    line: Literal["ended"] = "ended"
    sessions: int
    """The number of evaluated sessions."""
    untold: int
    """The number of sessions that could not be evaluated."""


_AnyWhatIfLine = WhatIfStart | WhatIfSession | WhatIfFailedSession | WhatIfSummary

WHAT_IF_LINES: Final = get_args(_AnyWhatIfLine)

WhatIfLine = Annotated[_AnyWhatIfLine, Field(discriminator="line")]
"""One line of the response."""
