"""Pictures, recordings and files in rebuilt prompts, and in the bodies that were sent.

A bundle's `verify.py` has this module in it, so it needs nothing but Python's standard library.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

AUDIO_FORMATS = {"audio/mpeg": "mp3"}
KIND_NAMES = {"image": "picture", "audio": "recording", "file": "file"}


def add_media(
    messages: list[dict[str, Any]], part: Mapping[str, Any], known: Sequence[Mapping[str, Any]]
) -> None:
    """Add a picture, a recording or a file to its message, or lines in the place of some.

    Raise where it is another one. `known` are the events up to the call.
    """
    source = part["source"]
    media = read_media(source, known)
    if media["digest"] != part["digest"]:
        raise ValueError(f"the digest of {source['field']} is another one")
    add_placed(messages, part, part, media)
    for each in part.get("others", ()):
        add_placed(messages, part, each, read_media({"field": "parts.0", **each}, known))


def read_media(source: Mapping[str, Any], known: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    event = known[int(source["sequence"]) - 1]["data"]
    return cast("Mapping[str, Any]", event["parts"][int(source["field"].removeprefix("parts."))])


def add_placed(
    messages: list[dict[str, Any]],
    part: Mapping[str, Any],
    place: Mapping[str, Any],
    media: Mapping[str, Any],
) -> None:
    plain = {"type": media["kind"], "digest": media["digest"], "media_type": media["media_type"]}
    plain |= {"name": media["name"]} if media.get("name") else {}
    if part.get("treatment") == "dropped":
        named = f": {media['name']}" if media.get("name") else ""
        plain = {"type": "note", "text": f"(a {KIND_NAMES[media['kind']]} is left out{named})"}
    if place["message"] == len(messages):
        messages.append({"role": part["role"], "content": ""})
    messages[place["message"]].setdefault("media", []).append((place.get("at", 0), plain))


def place_media(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message in canonical form, its texts and media in their order."""
    if "media" not in message:
        return dict(message)
    placed = {name: value for name, value in message.items() if name != "media"}
    return {**placed, "content": [*split_content(message["content"], message["media"])]}


def split_content(
    text: str, media: Sequence[tuple[int, dict[str, Any]]]
) -> Iterator[dict[str, Any]]:
    """Yield the texts and the media of a message in their order."""
    begin = 0
    for at, plain in (*media, (len(text), None)):
        if text[begin:at]:
            yield {"type": "text", "text": text[begin:at]}
        if plain is not None:
            yield plain
        begin = max(begin, at)


def write_sent_messages(
    messages: Sequence[Mapping[str, Any]], blobs: Mapping[str, bytes]
) -> list[dict[str, Any]] | None:
    """Return the messages as a server was sent them; None where the bundle lacks their bytes."""
    pieces = (piece for each in messages for piece in get_pieces(each))
    if any(piece.get("digest", "") not in {"", *blobs} for piece in pieces):
        return None
    return [
        {**each, "content": write_content(get_pieces(each), blobs)}
        if get_pieces(each)
        else {**each}
        for each in messages
    ]


def get_pieces(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of a content; none of a plain text."""
    content = message["content"]
    return cast("list[dict[str, Any]]", content) if isinstance(content, list) else []


def write_content(
    pieces: Sequence[Mapping[str, Any]], blobs: Mapping[str, bytes]
) -> str | list[dict[str, Any]]:
    if all("text" in piece for piece in pieces):
        return "\n".join(piece["text"] for piece in pieces)
    return [
        {"type": "text", "text": piece["text"]} if "text" in piece else write_media(piece, blobs)
        for piece in pieces
    ]


def write_media(piece: Mapping[str, Any], blobs: Mapping[str, bytes]) -> dict[str, Any]:
    data, named = blobs[piece["digest"]], piece.get("name")
    if piece["media_type"] == "text/plain":
        return {"type": "text", "text": f"{named or 'file.txt'}:\n{data.decode()}"}
    encoded = b64encode(data).decode()
    url = f"data:{piece['media_type']};base64,{encoded}"
    if piece["type"] == "image":
        return {"type": "image_url", "image_url": {"url": url}}
    if piece["type"] == "audio":
        subtype = piece["media_type"].partition("/")[2]
        sound = {"data": encoded, "format": AUDIO_FORMATS.get(piece["media_type"], subtype)}
        return {"type": "input_audio", "input_audio": sound}
    return {"type": "file", "file": {"filename": named or "document.pdf", "file_data": url}}
