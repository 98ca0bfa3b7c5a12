"""Attributes of spans that metrics are taken from, in addition to those that only a trace has.

The names are those of the OpenTelemetry GenAI conventions where these have one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OPERATION: Final = "gen_ai.operation.name"

CALL_KIND: Final = "turnlog.call.kind"

TOKENS: Final = "turnlog.context.tokens"
"""Tokens of a prompt."""

BUDGET: Final = "turnlog.context.budget"

COMPONENTS: Final = "turnlog.context.components"
"""The components of a prompt, in the order of `COMPONENT_TOKENS`."""

COMPONENT_TOKENS: Final = "turnlog.context.component_tokens"

CUTS: Final = "turnlog.context.cuts"
"""The trim steps that were applied to a prompt."""

USAGE_FIGURES: Final[Mapping[str, str]] = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read.input_tokens": "cached_input_tokens",
    "cache_creation.input_tokens": "cache_write_tokens",
    "reasoning.output_tokens": "reasoning_tokens",
}
"""What a provider counts, by its name of the conventions after `gen_ai.usage.`."""
