"""What the contents of an MCP result become: a text for prompts, and the media beside it.

A content that is no text has a line in the text, at its place: its type and size, or the address of
a link. So a model that takes no pictures knows that there is one, and so does a later turn.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pydantic import JsonValue

from turnlog.events.content import encode_canonical
from turnlog.events.storable_text import replace_unstorable
from turnlog.services.worker.tools.tool_server_types import AnswerMedia, ToolAnswer

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock, GetPromptResult


def convert_result(result: CallToolResult) -> ToolAnswer:
    """Return the structured value of a result as JSON, or else its texts, with its media."""
    media = tuple(_iterate_media(result.content))
    if result.structured_content is None:
        text = "\n".join(map(_format_block, result.content))
    else:
        value = _unwrap_value(result.structured_content)
        structured = value if isinstance(value, str) else encode_canonical(value)
        text = "\n".join([structured, *map(_format_media, media)])
    return ToolAnswer(replace_unstorable(text), failed=result.is_error, media=media)


def convert_prompt(result: GetPromptResult) -> ToolAnswer:
    """Return the text of a prompt, of several messages each with its role, with its media."""
    texts = [(each.role, _format_block(each.content)) for each in result.messages]
    joined = "\n".join(f"{role}: {text}" for role, text in texts)
    text = texts[0][1] if len(texts) == 1 else joined
    media = tuple(_iterate_media([each.content for each in result.messages]))
    return ToolAnswer(replace_unstorable(text), media=media)


def _iterate_media(contents: Sequence[ContentBlock]) -> Iterator[AnswerMedia]:
    for each in contents:
        media = _read_media(each)
        if media is not None:
            yield media


def _read_media(block: ContentBlock) -> AnswerMedia | None:
    """Return the bytes of a picture, a recording or an embedded file; None of anything else."""
    source: object = getattr(block, "resource", block)
    encoded: object = getattr(source, "data", None) or getattr(source, "blob", None)
    if not isinstance(encoded, str):
        return None
    try:
        data = b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None
    media_type: object = getattr(source, "mime_type", None)
    uri = getattr(source, "uri", None)
    name = str(uri).rstrip("/").rpartition("/")[2] if uri else None
    written = media_type if isinstance(media_type, str) else "application/octet-stream"
    return AnswerMedia(
        data=data,
        media_type=replace_unstorable(written),
        name=replace_unstorable(name) if name else None,
    )


def _format_block(block: ContentBlock) -> str:
    """Return the text of a block, or a line that says what it is."""
    text = getattr(getattr(block, "resource", block), "text", None)
    if isinstance(text, str):
        return text
    if media := _read_media(block):
        return _format_media(media)
    uri = getattr(block, "uri", None)
    if uri is not None:
        return f"({getattr(block, 'name', None) or block.type}: {uri})"
    return f"({block.type})"


def _format_media(media: AnswerMedia) -> str:
    named = f"{media.name}, " if media.name else ""
    return f"({named}{media.media_type}, {len(media.data)} bytes)"


def _unwrap_value(value: JsonValue) -> JsonValue:
    """Return a value that its server wrapped into an object, since results must be objects."""
    return value["result"] if isinstance(value, dict) and [*value] == ["result"] else value
