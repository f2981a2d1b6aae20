"""Recordings of the frozen journals: each is replayed without a difference, also with the nodes in another order."""

from typing import Any

import pytest
from frozen import FOLDER, Frozen

from wfcore.domain.run.entries import Forked, Retried, encode_entry
from wfcore.domain.run.recording import Recording

FILES = sorted(FOLDER.glob("*.jsonl"))


def recording_of(frozen: Frozen) -> Recording:
    turns = [
        {
            "runId": row["id"],
            "status": row["status"],
            **{key: (row["result"] or {}).get(key) for key in ("output", "error")},
        }
        for row in frozen.runs
    ]
    entries = [encode_entry(entry).decode() for entry in frozen.decoded()]
    return Recording(frozen.execution, frozen.children, entries, turns)


def changed_graph(frozen: Frozen) -> bool:
    """Whether a retry or a fork has chosen another variation."""
    return any(isinstance(entry, Retried | Forked) and entry.pinned is not None for entry in frozen.decoded())


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_it_is_replayed_without_a_difference(file: Any) -> None:
    """With this release; with its own structure, and with one whose nodes have other positions."""
    frozen = Frozen.read(file)
    recording = recording_of(frozen)
    assert recording.difference() is None
    marked = recording.marked()
    assert marked.difference() is None
    assert Recording.parse("\n".join(marked.lines())) == marked
    if frozen.execution["kind"] != "workflow":
        with pytest.raises(ValueError, match="only a run of a workflow"):
            marked.difference({"nodes": [], "edges": []})
        return
    structure = frozen.execution["structure"]
    moved = {**structure, "nodes": structure["nodes"][:1] + structure["nodes"][:0:-1]}
    for graph in (structure, moved):
        if changed_graph(frozen):
            with pytest.raises(ValueError, match="another variation"):
                marked.difference(graph)
        else:
            assert marked.difference(graph) is None
