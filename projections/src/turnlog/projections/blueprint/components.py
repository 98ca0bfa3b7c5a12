"""Components that every prompt may have, whatever its layers are called.

A layer says what its tokens are counted under; these names stand for what no author lists as a
layer, and for what all kinds of prompts are compared by.
"""

from __future__ import annotations

from typing import Final

SYSTEM_PROMPT: Final = "system_prompt"
"""Layers that say nothing else."""
TOOLS_CONTEXT: Final = "tools_context"
"""Tools, offered beside the messages or told of in them."""
HISTORY: Final = "history"
"""What was said in earlier turns."""
RAG_CONTEXT: Final = "rag_context"
"""What was retrieved."""
QUERY: Final = "query"
"""The text of the turn."""
COMPONENTS: Final = (SYSTEM_PROMPT, TOOLS_CONTEXT, HISTORY, RAG_CONTEXT, QUERY)
