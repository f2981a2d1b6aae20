"""The text of journal entries, and that a journal means the same in every process."""

import hashlib
import json
import os
import subprocess
import sys

import pytest

from wfcore.domain.run.entries import (
    Aborted,
    Actor,
    Cancelled,
    Decision,
    Entry,
    Failed,
    Limits,
    Opened,
    Paused,
    Progressed,
    Resumed,
    Said,
    Sent,
    Started,
    Succeeded,
    TimePassed,
    decode_entry,
    encode_entry,
)

ANN = Actor("ann", "ann@example.org")
ENTRIES: list[tuple[Entry, str]] = [
    (
        Started(1, "r", ANN, {"n": 1}, {}),
        '["start",1,1,"r",{"user_id":"ann","email":"ann@example.org"},{"n":1},{}]',
    ),
    (
        Started(1, "r", Actor("u"), None, {}, Limits(5, 6.0, 7)),
        (
            '["start",1,1,"r",{"user_id":"u","email":null},null,{},'
            '{"max_node_visits":5,"max_run_seconds":6.0,"max_concurrent_effects":7,"max_agent_rounds":25}]'
        ),
    ),
    (
        Started(1, "r", Actor("u"), None, {}, Limits(), "", "k"),
        (
            '["start",1,1,"r",{"user_id":"u","email":null},null,{},'
            '{"max_node_visits":10000,"max_run_seconds":2592000.0,"max_concurrent_effects":1000,"max_agent_rounds":25},'
            '"","k"]'
        ),
    ),
    (Resumed(2, "r"), '["resume",1,2,"r"]'),
    (
        Resumed(2, "r", Actor("u"), (Decision("i", "deny", [1]),)),
        '["resume",1,2,"r",{"user_id":"u","email":null},[{"interrupt_id":"i","decision":"deny","data":[1]}]]',
    ),
    (Resumed(2, "r", Actor("u")), '["resume",1,2,"r",{"user_id":"u","email":null}]'),
    (Succeeded(3, 1, 1, 0, 1, "x"), '["ok",1,3,1,1,0,1,"x"]'),
    (Succeeded(3, 1, 1, 0, 1, None, {"t": 2}), '["ok",1,3,1,1,0,1,null,{"t":2}]'),
    (Failed(4, 1, 1, 0, 1, "m"), '["fail",1,4,1,1,0,1,"m"]'),
    (Failed(4, 1, 1, 0, 1, "m", "failed", False), '["fail",1,4,1,1,0,1,"m","failed",false]'),
    (Said(5, 1, 1, 0, 1, "t"), '["say",1,5,1,1,0,1,"t"]'),
    (Succeeded(3, 1, 1, 0, 1, None, None, (2, 1, 0, 1)), '["ok",1,3,1,1,0,1,null,null,[2,1,0,1]]'),
    (
        Failed(4, 1, 1, 0, 1, "m", info={"provider": "x"}),
        '["fail",1,4,1,1,0,1,"m","failed",true,[],{"provider":"x"}]',
    ),
    (Said(5, 1, 1, 0, 1, "t", (2, 1, 0, 1)), '["say",1,5,1,1,0,1,"t",[2,1,0,1]]'),
    (Progressed(5, 1, 1, 0, 1, 0.5), '["progress",1,5,1,1,0,1,0.5]'),
    (
        Progressed(5, 1, 1, 0, 1, None, 7, "m", (2, 1, 0, 1)),
        '["progress",1,5,1,1,0,1,null,7,"m",[2,1,0,1]]',
    ),
    (Opened(6, 1, 1, 0, 1, "workflow", 7, "v", {"n": 1}), '["open",1,6,1,1,0,1,"workflow",7,"v",{"n":1}]'),
    (
        Opened(6, 1, 1, 0, 1, "skill", 7, "v", None, "m", (2, 1, 0, 1)),
        '["open",1,6,1,1,0,1,"skill",7,"v",null,"m",[2,1,0,1]]',
    ),
    (Sent(6, 1, 1, 0, 2), '["sent",1,6,1,1,0,2]'),
    (TimePassed(6), '["time",1,6]'),
    (Paused(7, ANN), '["pause",1,7,{"user_id":"ann","email":"ann@example.org"}]'),
    (Aborted(9, "m"), '["abort",1,9,"m"]'),
    (Cancelled(8, ANN), '["cancel",1,8,{"user_id":"ann","email":"ann@example.org"}]'),
]


@pytest.mark.parametrize(("entry", "line"), ENTRIES)
def test_the_form_of_an_entry_never_changes(entry: Entry, line: str) -> None:
    """Stored journals are read for ever: these arrays are what version 1 writes and reads."""
    assert json.loads(encode_entry(entry)) == json.loads(line)
    assert decode_entry(line) == entry


@pytest.mark.parametrize("line", ['["ok",2,1]', '["new",1,1]'])
def test_an_entry_of_a_later_release_is_refused(line: str) -> None:
    """An unknown tag or version is an error, never a guess."""
    with pytest.raises(ValueError, match="not known to this release"):
        decode_entry(line)


# One meaning in every process

SCRIPT = """
from wfcore.testing.histories import History, sketch
graph = sketch(
    "s -> a", "s -> b", "s -> w", "a -> j", "b -> j", "j -error-> x", "w -denied-> x",
    w={"type": "humanApproval"},
)
history = History(graph, {"z": 1, "y": {"x": 2}}).succeed("b", {"q": 1})
history.decide("w", "deny").succeed("a").fail("j").succeed("x", 1)
print([event.to_wire() for event in history.events], list(history.machine.nodes.items()))
"""


def test_a_journal_means_the_same_under_any_hash_seed() -> None:
    """Two processes with different hash seeds show the same events and outputs in the same order."""
    shown = {
        hashlib.sha256(
            subprocess.run(
                [sys.executable, "-c", SCRIPT],
                env={**os.environ, "PYTHONHASHSEED": seed},
                capture_output=True,
                check=True,
            ).stdout
        ).hexdigest()
        for seed in ("1", "2")
    }
    assert len(shown) == 1
