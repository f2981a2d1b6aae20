"""The types of `SyncCore` are those of the use cases, with what the sync calls return."""

import importlib.util
from pathlib import Path
from typing import Any

import wfcore.sync_types

FILES = [*Path(wfcore.sync_types.__file__ or "").parent.glob("*.pyi")]


def writing() -> Any:
    spec = importlib.util.spec_from_file_location("write_sync_types", Path(__file__).with_name("write_sync_types.py"))
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_the_files_are_what_the_use_cases_make() -> None:
    """After a change of a signature or a docstring, `python tests/typing/write_sync_types.py` writes them."""
    assert {file.name: file.read_text("utf-8") for file in FILES} == writing().made()


def test_no_sync_call_returns_something_to_await() -> None:
    """A result that is awaited or iterated with `async for` would have to be one of an async core."""
    texts = [file.read_text("utf-8") for file in FILES]
    results = [line.partition(" -> ")[2] for text in texts for line in text.splitlines() if " -> " in line]
    assert len(results) > 120
    assert not [each for each in results if "Async" in each or "Awaitable" in each or "Coroutine" in each]
