"""A what-if report as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Final

from turnlog.services.api.what_if_payloads import (
    WhatIfFailedSession,
    WhatIfSession,
    WhatIfStart,
    WhatIfSummary,
)
from turnlog.services.cli.views.text_format import format_count
from turnlog.services.cli.what_if.what_if_view import (
    format_alteration,
    format_cached_cost,
    format_change,
    format_prompts_cost,
)

DETAILED_SESSIONS: Final = 200
"""Sessions whose calls are listed; more would make the page too large to open."""


def render_html_page(
    begun: WhatIfStart,
    sessions: Sequence[WhatIfSession],
    failed: Sequence[WhatIfFailedSession],
    ended: WhatIfSummary,
) -> str:
    """Render the report as one HTML page without scripts or external resources.

    `sessions` must be ordered with the worst first.
    """
    # Importing jinja2 takes time that only a report should cost.
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = files("turnlog.services.cli.what_if").joinpath("page.html").read_text()
    return environment.from_string(template).render(
        begun=begun,
        change=format_change(begun),
        sessions=sessions,
        untold=failed,
        total=ended,
        detailed=DETAILED_SESSIONS,
        widest=max((1, *(max(each.before.tokens, each.after.tokens) for each in sessions))),
        figure="{:,}".format,
        share=format_share,
        counted=format_count,
        cost=format_prompts_cost,
        cached_cost=format_cached_cost,
        otherwise=format_alteration,
    )


def format_share(after: int, before: int) -> str:
    """Format the relative change from `before` to `after`."""
    if not before:
        return "new" if after else "as it was"
    return f"{(after - before) / before:+.0%}" if after != before else "as it was"
