"""The values that a field of an answer may have, where it is one of a closed set of words."""

from __future__ import annotations

from typing import Literal

FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "safety", "recitation"]
"""Why a model stopped, in one vocabulary for all providers."""
