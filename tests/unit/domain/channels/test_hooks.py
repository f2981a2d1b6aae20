"""Messages of hooks, and the intervals between attempts."""

from itertools import count, pairwise, takewhile

from wfcore.domain.channels.hooks import LONGEST_WAIT, MOST_TRIES, Hook, hook_issues, message_of, wait_after
from wfcore.domain.kernel.urls import URL_RULE
from wfcore.domain.projections.notices import Notice

ORG = "0192f0c0-1111-7000-8000-00000000000a"


def test_a_message_has_what_applies() -> None:
    """Keys without a value are left out; the link leads to the approval that waits, otherwise to the run."""
    opened = Notice("interrupt.opened", 0, "skill", 3, "ann", "r-1", "i-1", "interrupted")
    assert message_of(opened, ORG, "https://x.example/w/") == {
        "type": "interrupt.opened",
        "timestamp": "1970-01-01T00:00:00.000Z",
        "data": {
            "orgUuid": ORG, "skillId": 3, "runId": "r-1", "interruptId": "i-1", "status": "interrupted",
            "url": "https://x.example/w/studio/inbox/i-1",
        },
    }  # fmt: skip
    ended = Notice("run.finished", 0, "assistant", None, "ann", "r-1", status="done")
    assert message_of(ended, ORG, None)["data"] == {"orgUuid": ORG, "runId": "r-1", "status": "done"}
    paused = Notice("schedule.paused", 0, "workflow", 7, "", status="deployer_gone")
    assert message_of(paused, ORG, "https://x.example")["data"] == {
        "orgUuid": ORG, "workflowId": 7, "status": "deployer_gone"
    }  # fmt: skip


def test_attempts_take_three_days() -> None:
    """The first retry comes within 10 s; intervals grow; all attempts together take about three days."""
    waits = [wait for tries in range(1, MOST_TRIES) if (wait := wait_after(tries)) is not None]
    assert len(list(takewhile(lambda tries: wait_after(tries) is not None, count(1)))) == MOST_TRIES - 1
    assert waits[0] <= 10_000
    assert all(first <= second <= LONGEST_WAIT for first, second in pairwise(waits))
    assert 2.9 <= sum(waits) / 86_400_000 <= 3.1


def test_a_disabled_hook_subscribes_to_nothing() -> None:
    hook = Hook("h", "https://x.example", ("run.failed",), None, True, "ann", "s")
    assert hook.subscribed == ("run.failed",)
    assert Hook("h", "https://x.example", ("run.failed",), None, False, "ann", "s").subscribed == ()


def test_a_hook_shows_its_secret_once() -> None:
    """On the wire it has its secret only when it was made just now, and never what is stored of it."""
    hook = Hook("h", "https://x.example", ("run.failed",), 7, True, "ann", "sealed", "former")
    shown = {
        "id": "h", "url": "https://x.example", "events": ["run.failed"], "filter": {"workflowId": 7},
        "isEnabled": True, "createdBy": "ann",
    }  # fmt: skip
    assert hook.to_wire() == shown
    made = Hook("h", "https://x.example", ("run.failed",), 7, True, "ann", "sealed", secret="plain")
    assert made.to_wire() == {**shown, "secret": "plain"}


def test_faults_of_a_body() -> None:
    """The URL is one, and each event is given once; what has another type is reported by its shape."""
    assert hook_issues({"url": "https://x.example", "events": ["a", "b"]}) == []
    assert hook_issues({"url": 1, "events": "a"}) == []
    assert hook_issues({}) == []
    found = hook_issues({"url": "x.example", "events": ["a", "b", "a", "a"]})
    assert [(issue.path, issue.message, issue.rule) for issue in found] == [
        ("url", URL_RULE, "url"),
        ("events[2]", "`a` is given twice", "unique"),
        ("events[3]", "`a` is given twice", "unique"),
    ]
