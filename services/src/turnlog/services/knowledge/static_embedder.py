"""The embedder that needs no service and no download: the static vectors of WordLlama.

The package has the weights and the tokenizer in its wheel (MIT, 256 numbers a token). A text's
vector is the mean of those of its tokens. Only the files are used: the package's own code sets up
logging when it is imported, and does not find its own tokenizer without a download.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, cast

from turnlog.events.errors import Refused
from turnlog.services.platform.concurrency import run_in_thread

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PACKAGE: Final = "wordllama"
_WEIGHTS: Final = "wordllama/weights/l2_supercat_256.safetensors"
_NUMBERS: Final = 256
_TOKENIZER: Final = "wordllama/tokenizers/l2_supercat_tokenizer_config.json"


class _TokenList(Protocol):
    @property
    def ids(self) -> list[int]: ...


class _Tokenizer(Protocol):
    def encode_batch(self, texts: list[str], *, add_special_tokens: bool) -> list[_TokenList]: ...


@dataclass(frozen=True, slots=True)
class _StaticModel:
    tokenizer: _Tokenizer
    vectors: NDArray[np.float32]


class StaticEmbedder:
    """Means of token vectors; 60 MB once used, 10,000 short texts a second."""

    def __init__(self) -> None:
        self._package = distribution(_PACKAGE)
        self.name = f"{_PACKAGE}-{self._package.version}-{_NUMBERS}"

    @cached_property
    def _model(self) -> _StaticModel:
        # Half a second that only a process with knowledge pays
        import numpy  # noqa: ICN001, PLC0415
        from safetensors.numpy import load  # noqa: PLC0415
        from tokenizers import Tokenizer  # noqa: PLC0415

        stored = Path(str(self._package.locate_file(_WEIGHTS))).read_bytes()
        weights = load(stored)["embedding.weight"]
        tokenizer = Tokenizer.from_file(str(self._package.locate_file(_TOKENIZER)))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return _StaticModel(cast("_Tokenizer", tokenizer), weights.astype(numpy.float32))

    async def embed_texts(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """See `Embedder`."""
        return await run_in_thread(partial(self._compute_vectors, list(texts)))

    def _compute_vectors(self, texts: list[str]) -> list[list[float]]:
        model = self._model
        encodings = model.tokenizer.encode_batch(texts, add_special_tokens=False)
        return [
            model.vectors[encoding.ids].mean(axis=0).tolist() if encoding.ids else [0.0] * _NUMBERS
            for encoding in encodings
        ]


def create_embedder(model: str) -> StaticEmbedder:
    """Create the embedder; it has one model only."""
    if model:
        fix = "write `wordllama` without a model"
        raise Refused("unknown-embedder", f"no model {model!r}", field="embedder", fix=fix)
    return StaticEmbedder()
