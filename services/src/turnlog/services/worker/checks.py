from __future__ import annotations

import re

from pydantic import JsonValue


def find_listed_topic(text: str, topics: JsonValue) -> str | None:
    """Return why a text is refused: the first topic that it names, as whole words, in any case."""
    for topic in topics if isinstance(topics, list) else []:
        words = r"\s+".join(re.escape(word) for word in str(topic).split())
        if words and re.search(rf"\b{words}\b", text, re.IGNORECASE):
            return f"it names {topic}"
    return None
