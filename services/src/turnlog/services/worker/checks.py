"""Checks of replies that come with Turnlog."""

from __future__ import annotations

import re

from pydantic import JsonValue


def topic_list(text: str, topics: JsonValue) -> str | None:
    """Find the first of the topics that a text names, as whole words, in any case."""
    for topic in topics if isinstance(topics, list) else []:
        words = r"\s+".join(re.escape(word) for word in str(topic).split())
        if words and re.search(rf"\b{words}\b", text, re.IGNORECASE):
            return f"it names {topic}"
    return None
