"""Embedders: what turns texts into vectors for the knowledge search.

A setting names one: `wordllama`, or `litellm:openai/text-embedding-3-small`. The part before the
colon is an entry point of the group `turnlog.embedders`, the rest is its model. An embedder names
itself with its version; when that name is not the one of the index, the projector builds another
index, and the former embedder is asked for the former one until then.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol, cast

from turnlog.events.errors import Refused, Unavailable
from turnlog.projections.store.knowledge.knowledge_builds import EmbedderVersion
from turnlog.services.extensions.plugins import EMBEDDER_GROUP, load_entry_point
from turnlog.services.platform.concurrency import run_in_thread

DEFAULT_EMBEDDER: Final = "wordllama"

EMBED_TIMEOUT: Final = 60.0
"""Seconds that an embedder has for one batch of texts."""


class Embedder(Protocol):
    """Turns texts into vectors."""

    @property
    def name(self) -> str:
        """The name with the version of the model, such as `wordllama-0.4.0-256`."""
        ...

    async def embed_texts(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector for each text, all of the same length.

        A failure is `Unavailable`, also where the embedder's service refuses: the index waits
        until it is corrected.
        """
        ...


CreateEmbedder = Callable[[str], Embedder]
"""The object behind an entry point: creates an embedder for a model, which may be empty."""


@dataclass(slots=True, kw_only=True)
class CheckedEmbedder:
    """An embedder whose answers are checked, and whose vectors have length 1.

    It is created when it is first used, in a thread, because a service without knowledge does
    without.
    """

    setting: str = DEFAULT_EMBEDDER
    timeout: float = EMBED_TIMEOUT
    _created: Embedder | None = None
    _former: dict[str, CheckedEmbedder] = field(default_factory=dict[str, "CheckedEmbedder"])
    _creation: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    """Held while it is created: two first uses may come at once."""

    async def load_embedder(self) -> Embedder:
        """Return the embedder; raises `Refused` for a setting that names none."""
        # The import of its package may take any time, and the model may be read with it.
        return await run_in_thread(self._create_once) if self._created is None else self._created

    def _create_once(self) -> Embedder:
        with self._creation:
            if self._created is None:
                self._created = create_embedder(self.setting)
            return self._created

    async def load_version(self) -> EmbedderVersion:
        """Return the version of the embedder, as an index records it; raises `Refused`."""
        return EmbedderVersion((await self.load_embedder()).name, self.setting)

    async def find_version(self, wanted: EmbedderVersion) -> CheckedEmbedder | None:
        """Return the embedder of an index; None if that version is no longer available."""
        if wanted.name == (await self.load_embedder()).name:
            return self
        former = self._former.setdefault(
            wanted.setting, CheckedEmbedder(setting=wanted.setting, timeout=self.timeout)
        )
        try:
            return former if (await former.load_embedder()).name == wanted.name else None
        except Refused:
            return None

    async def embed_texts(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector of length 1 for each text; raises `Unavailable`.

        A text without anything that the embedder knows has a vector of zeros.
        """
        embedder = await self.load_embedder()
        try:
            async with asyncio.timeout(self.timeout):
                vectors = await embedder.embed_texts(texts)
        except TimeoutError:
            raise _build_failure(embedder, f"no answer in {self.timeout:g} s") from None
        if len(vectors) != len(texts):
            raise _build_failure(embedder, f"{len(vectors)} vectors for {len(texts)} texts")
        lengths = {len(vector) for vector in vectors}
        if len(lengths) > 1 or lengths & {0}:
            raise _build_failure(embedder, f"vectors of {sorted(lengths)} numbers in one answer")
        unit = await run_in_thread(partial(_normalise_vectors, vectors))
        if unit is None:
            raise _build_failure(embedder, "a vector with a number that is not finite")
        return unit


def _normalise_vectors(vectors: Sequence[Sequence[float]]) -> list[list[float]] | None:
    """Return the vectors with length 1, zeros as they are; None if a number is not finite."""
    import numpy as np  # noqa: PLC0415 - 30 MB that only a process with knowledge needs

    matrix = np.asarray(vectors, np.float32)
    if not np.isfinite(matrix).all():
        return None
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    return cast("list[list[float]]", (matrix / np.where(norms == 0, 1, norms)).tolist())


def _build_failure(embedder: Embedder, detail: str) -> Unavailable:
    return Unavailable("embedder", f"{embedder.name}: {detail}")


def create_embedder(setting: str) -> Embedder:
    """Create the embedder that a setting names; raises `Refused`. Blocks while it is imported."""
    name, _, model = setting.partition(":")
    create = load_entry_point(EMBEDDER_GROUP, name)
    if not callable(create):
        raise Refused("unknown-embedder", f"{name!r} cannot be called", field="embedder")
    return cast("CreateEmbedder", create)(model)
