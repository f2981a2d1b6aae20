"""The library mem0, brought to work with nothing but a directory and a function.

By itself it reports what is done with it, fetches notices, writes into the home directory, loads models of language
and of words from elsewhere, logs what it keeps, and has a history of what was deleted. Each is declined here.
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from wfcore.domain.kernel.errors import Unavailable

Embed = Callable[[str], Sequence[float]]
"""From a text to its vector. Texts of white space alone never reach it."""

_COLLECTION: Final = "memories"
_NONE: Final = "none"
"""Under this name mem0 finds what stands in the place of a model."""


def opened(place: Path, embed: Embed, dimensions: int) -> Any:
    """A `mem0.Memory` on the local store in this directory, to be used by the calling thread alone.

    Raises ImportError without the extra; ValueError when the vectors in the store have another length; RuntimeError
    when the store is open already, or mem0 was imported with its telemetry on.
    """
    place.mkdir(parents=True, exist_ok=True)
    library = _imported(place)
    memory = library.Memory(_configuration(place, dimensions))
    memory.embedding_model = _Embedder(embed, dimensions)
    memory.vector_store._has_bm25_slot = False  # noqa: SLF001  (else a model of words is loaded, where fastembed is)
    memory.db.close()
    memory.db = _NoHistory()
    found = memory.vector_store.col_info().config.params.vectors.size
    if found != dimensions:
        close(memory)
        raise ValueError(f"the vectors in `{place}` have {found} numbers, and `dimensions` is {dimensions}")
    return memory


def close(memory: Any) -> None:
    """Another may open the store."""
    memory.close()
    memory.vector_store.client.close()


class _Embedder:
    """The function that was given, as mem0 calls it."""

    def __init__(self, embed: Embed, dimensions: int) -> None:
        self._embed, self._dimensions = embed, dimensions

    def embed(self, text: str, _action: str | None = None) -> list[float]:
        if not text.strip():
            return [0.0] * self._dimensions
        try:
            vector = [float(number) for number in self._embed(text)]
        except Exception as error:
            raise Unavailable("the embedder of memories gave no vector") from error
        if len(vector) != self._dimensions:
            raise ValueError(f"`embed` gave {len(vector)} numbers, and `dimensions` is {self._dimensions}")
        return vector


class Nothing:
    """In the place of a language model: memories are kept as they are given."""

    def __init__(self, config: object) -> None:
        pass


class _NoHistory:
    """In the place of the history, which would keep what was replaced and deleted."""

    def add_history(self, *_: object, **__: object) -> None:
        pass

    def close(self) -> None:
        pass


def _imported(place: Path) -> Any:
    """The library, imported so that it neither reports nor writes outside of the directory."""
    try:
        with _environment(MEM0_TELEMETRY="False", MEM0_DIR=str(place)):
            library = import_module("mem0")
    except ImportError as error:
        raise ImportError("memories in mem0 need an extra: pip install 'wfcore[mem0]'", name=error.name) from None
    if import_module("mem0.memory.telemetry").MEM0_TELEMETRY:
        raise RuntimeError("mem0 was imported with its telemetry on: set MEM0_TELEMETRY=False in the environment")
    language: Any = import_module("mem0.utils.spacy_models")
    language._load_failed_full = language._load_failed_lemma = True  # noqa: SLF001  (else models are downloaded)
    log = logging.getLogger("mem0")
    if log.level == logging.NOTSET:
        log.setLevel(logging.WARNING)
    return library


def _configuration(place: Path, dimensions: int) -> Any:
    factories, configs = import_module("mem0.utils.factory"), import_module("mem0.configs.base")
    nothing = f"{__name__}.{Nothing.__name__}"
    factories.EmbedderFactory.provider_to_class[_NONE] = nothing
    factories.LlmFactory.register_provider(_NONE, nothing)
    store = {"path": str(place), "collection_name": _COLLECTION, "embedding_model_dims": dimensions}
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
