"""A model with a window of so many tokens, which counts every script as a real one would.

It refuses a prompt that is too long in the words of its provider, and reports what it counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import cast

from tests.support.servers.model_behaviours import ModelAnswer, ModelBehaviour, ModelRefusal

PER_MESSAGE = 4
"""Tokens that a template adds to each message."""


@lru_cache(maxsize=4096)  # A prompt repeats the texts of the prompts before it.
def count_model_tokens(text: str) -> int:
    """Count a token for four Latin letters, two for an emoji, and one for any other character."""
    letters = sum(each.isascii() and (each.isalnum() or each == " ") for each in text)
    emoji = sum(ord(each) >= 0x1F000 for each in text)
    return -(-letters // 4) + 2 * emoji + len(text) - letters - emoji


def describe_openai_refusal(tokens: int, limit: int) -> str:
    """Return what OpenAI says of a prompt that is too long."""
    return (
        f"This model's maximum context length is {limit} tokens. However, your messages resulted "
        f"in {tokens} tokens. Please reduce the length of the messages."
    )


@dataclass(kw_only=True)
class ModelWindow:
    """Answers requests within its window; `OpenAIServer.choose_behaviour` takes `choose`."""

    tokens: int = 8_192
    reply: str = "ok"
    reports_usage: bool = True
    describe: Callable[[int, int], str] = describe_openai_refusal
    counts: list[int] = field(default_factory=list[int])
    """The tokens of every request so far."""
    refusals: int = 0

    def choose(self, body: dict[str, object]) -> ModelBehaviour:
        """Return the answer to a request, or its refusal."""
        messages = cast("Sequence[Mapping[str, object]]", body["messages"])
        counted = sum(count_model_tokens(str(each["content"])) + PER_MESSAGE for each in messages)
        self.counts.append(counted)
        if counted > self.tokens:
            self.refusals += 1
            message = self.describe(counted, self.tokens)
            return ModelRefusal(status=400, message=message, code="context_length_exceeded")
        written = count_model_tokens(self.reply)
        usage = {
            "prompt_tokens": counted,
            "completion_tokens": written,
            "total_tokens": counted + written,
        }
        return ModelAnswer(tokens=(self.reply,), usage=usage if self.reports_usage else None)
