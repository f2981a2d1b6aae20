"""The library mem0, configured to use only a directory and an embedding function.

By default it sends telemetry, fetches notices, writes into the home directory, downloads language models, logs the
memories, and keeps a history of deleted ones. This module turns each of these off.
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from wfcore.domain.kernel.errors import Unavailable
from wfcore.extras import needs_extra

Embed = Callable[[str], Sequence[float]]
"""Returns the vector of a text. It is never called with a text of white space only."""

_COLLECTION: Final = "memories"
_NONE: Final = "none"
"""The provider name under which mem0 finds the replacement for a model."""


def opened(directory: Path, embed: Embed, dimensions: int) -> Any:
    """A `mem0.Memory` on the local store in this directory. Only the calling thread can use it.

    Raises ImportError without the extra; ValueError when the vectors in the store have another length; RuntimeError
    when the store is already open, or mem0 was imported with its telemetry on.
    """
    directory.mkdir(parents=True, exist_ok=True)
    library = _imported(directory)
    memory = library.Memory(_configuration(directory, dimensions))
    memory.embedding_model = _Embedder(embed, dimensions)
    memory.vector_store._has_bm25_slot = False  # noqa: SLF001  (else a model is loaded if fastembed is installed)
    memory.db.close()
    memory.db = _NoHistory()
    found = memory.vector_store.col_info().config.params.vectors.size
    if found != dimensions:
        close(memory)
        raise ValueError(f"the vectors in `{directory}` have {found} numbers, but `dimensions` is {dimensions}")
    return memory


def close(memory: Any) -> None:
    """Close the store, so that it can be opened again."""
    memory.close()
    memory.vector_store.client.close()


class _Embedder:
    """The embedding function in the interface that mem0 calls."""

    def __init__(self, embed: Embed, dimensions: int) -> None:
        self._embed, self._dimensions = embed, dimensions

    def embed(self, text: str, _action: str | None = None) -> list[float]:
        if not text.strip():
            return [0.0] * self._dimensions
        try:
            vector = [float(number) for number in self._embed(text)]
        except Exception as error:
            raise Unavailable("the embedder of memories failed") from error
        if len(vector) != self._dimensions:
            raise ValueError(f"`embed` returned {len(vector)} numbers, but `dimensions` is {self._dimensions}")
        return vector


class NoModel:
    """Replaces the language model: memories are stored unchanged."""

    def __init__(self, config: object) -> None:
        pass


class _NoHistory:
    """Replaces the history, which would keep replaced and deleted memories."""

    def add_history(self, *_: object, **__: object) -> None:
        pass

    def close(self) -> None:
        pass


def _imported(directory: Path) -> Any:
    """The library, imported so that it neither sends telemetry nor writes outside of the directory."""
    with needs_extra("mem0", "the memory backend mem0"), _environment(MEM0_TELEMETRY="False", MEM0_DIR=str(directory)):
        library = import_module("mem0")
    if import_module("mem0.memory.telemetry").MEM0_TELEMETRY:
        raise RuntimeError("mem0 was imported with its telemetry on: set MEM0_TELEMETRY=False in the environment")
    language: Any = import_module("mem0.utils.spacy_models")
    language._load_failed_full = language._load_failed_lemma = True  # noqa: SLF001  (else models are downloaded)
    log = logging.getLogger("mem0")
    if log.level == logging.NOTSET:
        log.setLevel(logging.WARNING)
    return library


def _configuration(directory: Path, dimensions: int) -> Any:
    factories, configs = import_module("mem0.utils.factory"), import_module("mem0.configs.base")
    no_model = f"{__name__}.{NoModel.__name__}"
    factories.EmbedderFactory.provider_to_class[_NONE] = no_model
    factories.LlmFactory.register_provider(_NONE, no_model)
    store = {"path": str(directory), "collection_name": _COLLECTION, "embedding_model_dims": dimensions}
    return configs.MemoryConfig(
        vector_store={"provider": "qdrant", "config": store},
        embedder=configs.EmbedderConfig.model_construct(provider=_NONE, config={}),
        llm=configs.LlmConfig.model_construct(provider=_NONE, config={}),
        history_db_path=":memory:",
    )


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
