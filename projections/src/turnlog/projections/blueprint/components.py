"""Layer specs: where a layer's text comes from, and under which condition a call includes it.

Conditions are a fixed vocabulary and sources are data; there is no expression language. The
components are the names under which tokens are counted. The standard ones exist in every prompt,
whatever its layers are called, so that prompts of different blueprints can be compared.
"""

from __future__ import annotations

from typing import Final

SYSTEM_PROMPT_COMPONENT: Final = "system_prompt"
"""The component of layers that name no other."""
TOOLS_COMPONENT: Final = "tools_context"
"""Tool definitions, offered beside the messages or described in them."""
HISTORY_COMPONENT: Final = "history"
"""Messages of earlier turns."""
RAG_COMPONENT: Final = "rag_context"
"""Retrieved documents."""
QUERY_COMPONENT: Final = "query"
"""The input text of the turn."""
STANDARD_COMPONENTS: Final = (SYSTEM_PROMPT_COMPONENT, TOOLS_COMPONENT, HISTORY_COMPONENT, RAG_COMPONENT, QUERY_COMPONENT)
