from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from turnlog.services.worker.model.exchange import FinishReason

_NAMES_BY_REASON: Mapping[FinishReason, tuple[str, ...]] = MappingProxyType(
    {
        "stop": ("stop", "end_turn", "stop_sequence", "complete", "eos", "eos_token"),
        "length": ("length", "max_tokens", "model_length", "compaction"),
        "tool_calls": ("tool_calls", "tool_use", "function_call"),
        "content_filter": (
            "content_filter",
            "content_filtered",
            "refusal",
            "sensitive",
            "error_toxic",
            "guardrail_intervened",
            "blocklist",
            "prohibited_content",
            "spii",
            "language",
            "other",
        ),
        "safety": ("safety", "image_safety"),
        "recitation": ("recitation", "image_recitation"),
    }
)
_REASON_BY_NAME: Mapping[str, FinishReason] = MappingProxyType(
    {name: reason for reason, names in _NAMES_BY_REASON.items() for name in names}
)


def map_finish_reason(said: str) -> FinishReason | None:
    """Return our finish reason for a provider's; None if the answer cannot count as whole.

    Only reasons that end an answer on purpose are known. Others, such as `abort` or
    `network_error`, mean that the answer is not whole.
    """
    return _REASON_BY_NAME.get(said.lower())
