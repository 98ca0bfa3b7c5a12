"""What the contents of an MCP result become: a text for prompts, and the media beside it.

A content that is no text has a line in the text, at its place: its type and size, or the address of
a link. So a model that takes no pictures knows that there is one, and so does a later turn. A line
is all that is left of what is too much for one result.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from pydantic import JsonValue

from turnlog.events.content import encode_canonical
from turnlog.events.storable_text import replace_unstorable
from turnlog.projections.blueprint.storable_json import cut_text
from turnlog.services.media.incoming_media import (
    MAX_INCOMING_BYTES,
    IncomingMedia,
    format_media_line,
    measure_decoded,
)
from turnlog.services.platform.concurrency import run_in_thread, run_text_work
from turnlog.services.worker.tools.result_room import reserve_result_room
from turnlog.services.worker.tools.tool_server_types import ToolAnswer

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock, GetPromptResult

MAX_NAME_CHARACTERS: Final = 200
"""Characters that are kept of a media's name and of its type, which its server chose."""


async def convert_result(result: CallToolResult) -> ToolAnswer:
    """Return the structured value of a result as JSON, or else its texts, with its media."""
    await reserve_result_room(_measure_contents(result.content))
    convert = partial(_convert_result, result)
    if result.structured_content is not None:  # Its length is known when it is written
        return await run_in_thread(convert)
    return await run_text_work(convert, _measure_contents(result.content))


def _convert_result(result: CallToolResult) -> ToolAnswer:
    read = _read_contents(result.content)
    media = tuple(each.media for each in read if each.media)
    if result.structured_content is None:
        text = "\n".join([each.text for each in read])
    else:
        value = _unwrap_value(result.structured_content)
        structured = value if isinstance(value, str) else encode_canonical(value)
        text = "\n".join([structured, *(each.text for each in read if each.is_line)])
    return ToolAnswer(replace_unstorable(text), failed=result.is_error, media=media)


async def convert_prompt(result: GetPromptResult) -> ToolAnswer:
    """Return the text of a prompt, of several messages each with its role, with its media."""
    contents = [each.content for each in result.messages]
    await reserve_result_room(_measure_contents(contents))
    return await run_text_work(partial(_convert_prompt, result), _measure_contents(contents))


def _convert_prompt(result: GetPromptResult) -> ToolAnswer:
    read = _read_contents([each.content for each in result.messages])
    roles = [each.role for each in result.messages]
    lines = [f"{role}: {each.text}" for role, each in zip(roles, read, strict=True)]
    text = read[0].text if len(read) == 1 else "\n".join(lines)
    media = tuple(each.media for each in read if each.media)
    return ToolAnswer(replace_unstorable(text), media=media)


def _measure_contents(contents: Iterable[ContentBlock]) -> int:
    """Return the length of contents; long ones are read in a thread."""
    return sum(len(_get_encoded(each) or _get_text(each) or "") for each in contents)


def _get_text(block: ContentBlock) -> str | None:
    text: object = getattr(getattr(block, "resource", block), "text", None)
    return text if isinstance(text, str) else None


class _ReadContent(NamedTuple):
    """A content as a text, or as the line in its place."""

    text: str
    media: IncomingMedia | None = None
    is_line: bool = False
    """Whether it is a line in the place of media."""


def _read_contents(blocks: Iterable[ContentBlock]) -> list[_ReadContent]:
    """Read the blocks of a result.

    What is more than `MAX_INCOMING_BYTES` with those before it is not decoded; its line says so.
    """
    read: list[_ReadContent] = []
    left = MAX_INCOMING_BYTES
    for block in blocks:
        size = measure_decoded(_get_encoded(block) or "")
        if size > left:
            limit = f"a result has at most {MAX_INCOMING_BYTES}"
            line = f"({block.type}, {size} bytes, left out: {limit})"
            read.append(_ReadContent(line, is_line=True))
        elif media := _read_media(block):
            left -= len(media.data)
            line = format_media_line(media.name, media.media_type, len(media.data))
            read.append(_ReadContent(line, media, is_line=True))
        else:
            read.append(_ReadContent(_format_block(block)))
    return read


def _get_encoded(block: ContentBlock) -> str | None:
    """Return the base64 of a picture, a recording or an embedded file."""
    source: object = getattr(block, "resource", block)
    encoded: object = getattr(source, "data", None) or getattr(source, "blob", None)
    return encoded if isinstance(encoded, str) else None


def _read_media(block: ContentBlock) -> IncomingMedia | None:
    """Return the bytes of a picture, a recording or an embedded file; None of anything else."""
    source: object = getattr(block, "resource", block)
    if (encoded := _get_encoded(block)) is None:
        return None
    try:
        data = b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None
    media_type: object = getattr(source, "mime_type", None)
    uri = getattr(source, "uri", None)
    name = _derive_name(str(uri)) if uri else None
    written = media_type if isinstance(media_type, str) else "application/octet-stream"
    return IncomingMedia(
        data=data,
        media_type=cut_text(replace_unstorable(written), MAX_NAME_CHARACTERS),
        name=cut_text(replace_unstorable(name), MAX_NAME_CHARACTERS) if name else None,
    )


def _derive_name(uri: str) -> str:
    """Return the last step of a path; what follows it may be a signature, which is a secret."""
    path = uri.partition("#")[0].partition("?")[0]
    return path.rstrip("/").rpartition("/")[2]


def _format_block(block: ContentBlock) -> str:
    """Return the text of a block, or a line that says what it is."""
    if (text := _get_text(block)) is not None:
        return text
    uri = getattr(block, "uri", None)
    if uri is not None:
        return f"({getattr(block, 'name', None) or block.type}: {uri})"
    return f"({block.type})"


def _unwrap_value(value: JsonValue) -> JsonValue:
    """Return a value that its server wrapped into an object, since results must be objects."""
    return value["result"] if isinstance(value, dict) and [*value] == ["result"] else value
