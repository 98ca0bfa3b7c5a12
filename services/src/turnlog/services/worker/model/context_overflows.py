"""What a provider says of a prompt that is too long for its model, in tokens.

No two of them say it alike. Each pattern names a provider or server that writes so; a number is all
that is taken from a message, since messages repeat prompts and keys. What a message quotes is the
user's own text, which may name numbers too: quotations are not searched, and of numbers that
contradict each other none is believed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from turnlog.events.model.call_events import ContextOverflow

OVERFLOW_WORDS: Final = re.compile(
    r"maximum (?:context|prompt|model) (?:length|limit|window|size)"
    r"|exceed(?:s|ed|ing)? (?:the )?(?:available |model's |maximum |max )*context"
    r"|context (?:length|size|window) exceeded"
    r"|longer than the model's context|input length exceeds|exceeds the context window"
    r"|prompt (?:is )?too long|input is too long|too large for model with \d+ maximum context"
    r"|exceeds the maximum number of tokens allowed|range of input length should be"
    r"|`inputs` tokens \+ `max_new_tokens` must be|context the overflows"
    r"|reduce the length of the (?:messages|input)",
    re.IGNORECASE,
)
"""What providers call a prompt that is too long, where they send no code."""

_SEARCHED_CHARACTERS: Final = 8_192
"""How much of a message is searched for numbers."""

_QUOTATION: Final = re.compile(
    r"(?<!\w)(?:'[^'\s]*\s[^']*'|`[^`\s]*\s[^`]*`)(?!\w)|“[^“”]*”|«[^«»]*»"
)
"""A quotation in a message. A single word in quotes is the name of a parameter.

None of its forms passes over the beginning of another one, so the time for a text is linear.
"""

_ESCAPED_QUOTES: Final = (("\\u201c", "“"), ("\\u201d", "”"), ("\\u00ab", "«"), ("\\u00bb", "»"))
"""How JSON may write quotes."""

_NUMBER: Final = r"(\d{1,3}(?:[,_]\d{3}){1,2}|\d{1,9})"

_LIMITS: Final[Sequence[str]] = (
    # OpenAI, vLLM, xAI
    rf"maximum (?:context|prompt|model) (?:length|limit|window|size)[^\d]{{0,24}}{_NUMBER}",
    rf"context length of (?:only )?{_NUMBER}",  # LM Studio
    rf"(?:context length|context size|context window)[^\d]{{0,24}}{_NUMBER}",  # SGLang, llama.cpp
    rf"\"n_ctx\"\s{{0,4}}:\s{{0,4}}{_NUMBER}",  # llama.cpp
    rf"> {_NUMBER}",  # Anthropic
    rf"maximum number of tokens allowed[^\d]{{0,24}}{_NUMBER}",  # Gemini
    rf"model with {_NUMBER} maximum context",  # Mistral
    rf"range of input length should be \[\d{{1,9}}, {_NUMBER}\]",  # Qwen
    rf"must be <= {_NUMBER}",  # text-generation-inference
)
"""The most that the model takes, the answer included where that is counted too."""

_PROMPTS: Final[Sequence[str]] = (
    # OpenAI, OpenRouter
    rf"{_NUMBER} (?:tokens )?(?:in the messages|of text input|in your prompt|in the prompt)",
    rf"{_NUMBER} tokens from the input",  # SGLang
    rf"messages resulted in {_NUMBER} tokens",  # OpenAI
    rf"{_NUMBER} input tokens",  # vLLM
    rf"prompt is too long: {_NUMBER}",  # Anthropic
    rf"exceed context limit: {_NUMBER} \+",  # Anthropic
    rf"input token count[^\d]{{0,24}}{_NUMBER}",  # Gemini
    rf"prompt contains {_NUMBER} tokens",  # Mistral
    rf"request contains {_NUMBER} tokens",  # xAI
    rf"(?:request|input|prompt) \({_NUMBER} tokens\)",  # llama.cpp, SGLang
    rf"\"n_prompt_tokens\"\s{{0,4}}:\s{{0,4}}{_NUMBER}",  # llama.cpp
    rf"given: {_NUMBER} `inputs`",  # text-generation-inference
)
"""The tokens of the prompt alone."""

_TOTALS: Final[Sequence[str]] = (
    rf"you requested (?:a total of |about )?{_NUMBER} tokens",  # OpenAI, SGLang, OpenRouter
)
"""The tokens of prompt and answer together."""

_ANSWERS: Final[Sequence[str]] = (
    rf"{_NUMBER} (?:tokens )?(?:in|for) the (?:completion|output)",  # OpenAI, SGLang
    rf"requested {_NUMBER} output tokens",  # vLLM
    rf"\+ {_NUMBER} >",  # Anthropic
    rf"and {_NUMBER} `max_new_tokens`",  # text-generation-inference
    rf"max_(?:completion_)?tokens'? is too large: {_NUMBER}",  # vLLM
)
"""The tokens that the request keeps for the answer, as a part of the limit."""


def _compile(patterns: Sequence[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(each, re.IGNORECASE) for each in patterns)


_LIMIT_FORMS: Final = _compile(_LIMITS)
_PROMPT_FORMS: Final = _compile(_PROMPTS)
_TOTAL_FORMS: Final = _compile(_TOTALS)
_ANSWER_FORMS: Final = _compile(_ANSWERS)


def read_overflow(words: str) -> ContextOverflow | None:
    """Return the numbers that a refusal names; None if it names none.

    `words` are JSON, or text without double quotes. A limit that is not below the prompt's own size
    did not refuse it, and is not believed.
    """
    searched = _remove_quotations(words[:_SEARCHED_CHARACTERS])
    limit, answer = _find_number(searched, _LIMIT_FORMS), _find_number(searched, _ANSWER_FORMS)
    tokens = _find_number(searched, _PROMPT_FORMS)
    if tokens is None and (total := _find_number(searched, _TOTAL_FORMS)) is not None:
        tokens = total - (answer or 0)
    if limit is not None:
        limit -= answer or 0
    if limit is not None and (limit <= 0 or (tokens is not None and limit >= tokens)):
        limit = None
    if tokens is not None and tokens <= 0:
        tokens = None
    return ContextOverflow(tokens=tokens, limit=limit) if tokens or limit else None


def _remove_quotations(words: str) -> str:
    for escaped, quote in _ESCAPED_QUOTES:
        words = words.replace(escaped, quote)
    # Between two double quotes, which are escaped in JSON, every other piece is quoted.
    return _QUOTATION.sub("", "".join(words.split('\\"')[::2]))


def _find_number(text: str, forms: Sequence[re.Pattern[str]]) -> int | None:
    """Return the number of the first form that is in a text; None if it names two."""
    named = next((found for form in forms if (found := set(form.findall(text)))), set[str]())
    numbers = {int(re.sub("[,_]", "", each)) for each in named}
    return numbers.pop() if len(numbers) == 1 else None
