"""An embedder that calls a provider through litellm.

Addresses and keys come from the environment as litellm reads it. What a provider refuses is told
with its status and without its message, which may repeat texts and keys. OpenAI's client asks
three times by itself, and litellm has no way to forbid it here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from operator import attrgetter
from typing import Final, cast

from turnlog.events.errors import Refused, Unavailable
from turnlog.services.platform.concurrency import run_in_thread
from turnlog.services.worker.model.litellm_library import load_litellm

_BATCH: Final = 64
"""Texts in one request; providers accept some hundreds at least."""

_CALL_SECONDS: Final = 30.0


RequestVectors = Callable[..., Awaitable[object]]
"""litellm's function of that purpose."""

_find_function: Final = attrgetter("aembedding")


class LitellmEmbedder:
    """The vectors of a provider's model; imports litellm at the first call."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._request_vectors: RequestVectors | None = None
        self.name = f"litellm-{model}"

    async def embed_texts(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """See `Embedder`."""
        if self._request_vectors is None:
            library = await run_in_thread(load_litellm)
            self._request_vectors = cast("RequestVectors", _find_function(library))
        found: list[Sequence[float]] = []
        for start in range(0, len(texts), _BATCH):
            found += await self._embed_batch(
                self._request_vectors, list(texts[start : start + _BATCH])
            )
        return found

    async def _embed_batch(
        self, request_vectors: RequestVectors, texts: list[str]
    ) -> list[Sequence[float]]:
        try:
            answer = await request_vectors(
                model=self._model,
                input=texts,
                timeout=_CALL_SECONDS,
                num_retries=0,
                encoding_format="float",
            )
        except Exception as error:  # noqa: BLE001 - litellm raises of every kind
            raise self._convert_error(error) from None
        data = getattr(answer, "data", None)
        if not isinstance(data, list) or not data:
            raise Unavailable("embedder", f"{self.name}: the answer has no vectors")
        return [self._read_vector(item) for item in cast("list[object]", data)]

    def _read_vector(self, item: object) -> list[float]:
        vector = (
            cast("Mapping[str, object]", item).get("embedding")
            if isinstance(item, Mapping)
            else getattr(item, "embedding", None)
        )
        if not isinstance(vector, list) or not all(
            isinstance(number, int | float) for number in cast("list[object]", vector)
        ):
            raise Unavailable("embedder", f"{self.name}: a vector is no list of numbers")
        return [float(number) for number in cast("list[float]", vector)]

    def _convert_error(self, error: Exception) -> Unavailable:
        status = getattr(error, "status_code", None)
        reason = f"{type(error).__name__}, status {status}" if status else type(error).__name__
        fix = {
            401: ": set the provider's key in the environment",
            404: ": the provider has no such model",
            429: ": it is asked again",
        }.get(status or 0, "")
        return Unavailable("embedder", f"{self.name}: {reason}{fix}")


def create_embedder(model: str) -> LitellmEmbedder:
    """Create the embedder of a model in litellm's words."""
    if not model:
        fix = "write the model too, such as `litellm:openai/text-embedding-3-small`"
        raise Refused("unknown-embedder", "litellm needs a model", field="embedder", fix=fix)
    return LitellmEmbedder(model)
