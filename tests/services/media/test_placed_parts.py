"""Parts of a turn: their URLs and digests, and their places in a text that a rule has changed."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from types import MappingProxyType

import pytest

from tests.services.media.media_samples import PNG, SAMPLES
from turnlog.contract.session_requests import SubmitTurnRequest
from turnlog.events.content import Digest
from turnlog.events.errors import AlteredMedia, Corrupt, Refused
from turnlog.events.store.media_chunks import iterate_bytes
from turnlog.events.store.memory_log import MemoryMediaStore
from turnlog.services.media.turn_parts import PLACEHOLDER, TurnPartsIntake, place_parts

INTAKE = TurnPartsIntake(store=MemoryMediaStore(), most_bytes=1_000_000)


def build_form(*parts: object) -> SubmitTurnRequest:
    return SubmitTurnRequest.model_validate({"parts": [*parts]})


def build_url(head: str) -> SubmitTurnRequest:
    url = f"data:{head};base64,{b64encode(PNG).decode()}"
    return build_form({"type": "image_url", "image_url": {"url": url}})


async def test_parts_whose_places_a_rule_masks_are_at_the_end_of_the_text() -> None:
    data = [b64encode(each).decode() for each in (PNG, SAMPLES["image/gif"])]
    words = [{"type": "text", "text": each} for each in ("my secret", "ends")]
    pictures = [{"type": "image", "data": each} for each in data]
    form = build_form(words[0], *pictures, words[1])
    submitted = await INTAKE.read_parts("t", form)
    assert submitted.form.text == f"my secret{PLACEHOLDER * 2}\nends"
    masked = submitted.form.model_copy(update={"text": "my [masked]"})
    request, placed = place_parts(masked, submitted.parts)
    assert request.text == "my [masked]"
    assert [each.media_type for each in placed] == ["image/png", "image/gif"]
    assert [each.at for each in placed] == [11, 11]


async def test_url_is_read_up_to_its_bytes_and_not_searched_for_them() -> None:
    ((part,)) = (await INTAKE.read_parts("t", build_url("image/png;charset=utf-8"))).parts
    assert part.media_type == "image/png"
    with pytest.raises(Refused, match="only a `data:` URL in base64 is taken"):
        await INTAKE.read_parts("t", build_url("image/png" + ";a=b" * 1_000))


class DamagedStore(MemoryMediaStore):
    """Finds an item whose bytes cannot be read."""

    faults: Mapping[tuple[str, Digest], Corrupt] = MappingProxyType({})

    async def get_media(self, tenant: str, digest: Digest) -> bytes:
        raise self.faults[tenant, digest]


async def test_item_without_all_of_its_chunks_is_to_be_uploaded_again() -> None:
    store = DamagedStore()
    stored = await store.put_media("t", iterate_bytes(PNG), most_bytes=1_000)
    intake = TurnPartsIntake(store=store, most_bytes=1_000)
    form, key = build_form({"type": "image", "digest": stored.digest}), ("t", stored.digest)
    store.faults = {key: Corrupt("media", "chunk 2 of 3 is gone")}
    with pytest.raises(Refused, match="chunk 2 of 3 is gone") as refused:
        await intake.read_parts("t", form)
    assert (refused.value.code, refused.value.field) == ("unknown-blob", "parts.0.digest")
    # Of altered bytes an upload would change nothing: the first message of a subject stays.
    store.faults = {key: AlteredMedia(stored.digest, "the bytes of chunk 2 of 3 have changed")}
    with pytest.raises(AlteredMedia):
        await intake.read_parts("t", form)
