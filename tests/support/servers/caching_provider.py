"""A provider with a cache of its own, as OpenAI publishes it, and a bill of what it charged."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from tests.support.servers.model_behaviours import ModelAnswer

MINIMUM: Final = 1_024

STEP: Final = 128

_CHARACTERS: Final = 5
"""Of a token, so that it counts otherwise than we do."""

_INPUT, _CACHED, _OUTPUT = Decimal("2.5"), Decimal("1.25"), Decimal(10)
"""Dollars for a million tokens of gpt-4o."""


@dataclass
class CachingProvider:
    """Answers requests with the tokens that it counted, and those that it had in its cache."""

    answer: str = "It is so."
    prompts: list[str] = field(default_factory=list[str])
    """What is in the cache."""
    charged: Decimal = Decimal(0)
    """Millionths of a dollar."""
    cached: list[int] = field(default_factory=list[int])
    """What each request read."""
    sent: list[int] = field(default_factory=list[int])
    """What each request was."""

    def answer_request(self, body: dict[str, object]) -> ModelAnswer:
        """Answer one request."""
        prompt = json.dumps(body["messages"], ensure_ascii=False).rstrip("]}")
        tokens = -(-len(prompt) // _CHARACTERS)
        read = max((self._count_cached(prompt, each) for each in self.prompts), default=0)
        self.prompts.append(prompt)
        self.cached.append(read)
        self.sent.append(tokens)
        output = len(self.answer.split())
        self.charged += (tokens - read) * _INPUT + read * _CACHED + output * _OUTPUT
        details = {"cached_tokens": read}
        usage = {"prompt_tokens": tokens, "prompt_tokens_details": details}
        return ModelAnswer(tokens=(self.answer,), usage={**usage, "completion_tokens": output})

    def forget_prompts(self) -> None:
        """Lose the cache, as a provider may at any time."""
        self.prompts.clear()

    def _count_cached(self, prompt: str, earlier: str) -> int:
        pairs = zip(prompt, earlier, strict=False)
        whole = min(len(prompt), len(earlier))
        common = next((at for at, (one, other) in enumerate(pairs) if one != other), whole)
        return count_cacheable(common // _CHARACTERS)


def count_cacheable(tokens: int) -> int:
    """Return how many tokens of a prompt can be in the cache."""
    return tokens // STEP * STEP if tokens >= MINIMUM else 0
