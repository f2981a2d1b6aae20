"""The statements of conversations find their rows by indexes."""

from collections.abc import Callable

import pytest

from wfcore.adapters.sql.repositories.conversations import (
    MESSAGES,
    OWN,
    PAGE,
    PAGE_OF_SKILL,
    SIZES,
    THREADS,
    THREADS_OF_SKILL,
)
from wfcore.adapters.sql.schema.statement import Statement

pytestmark = pytest.mark.anyio
Plan = Callable[..., list[str]]


@pytest.mark.parametrize(
    ("page", "index"),
    [
        (PAGE, "conversations_recent (org=? AND updated_at<?)"),
        (PAGE_OF_SKILL, "participants_recent (org=? AND kind=? AND id=? AND (updated_at,conversation)<(?,?))"),
    ],
)
async def test_a_page_is_not_sorted(plan: Plan, page: Statement, index: str) -> None:
    """One backward scan of an index by time, starting at the last row of the previous page."""
    steps = plan(page, "at", "key", "limit", "skill")
    assert not any(step.startswith("SCAN") and "VIRTUAL TABLE" not in step for step in steps)
    assert not any("TEMP B-TREE FOR ORDER BY" in step for step in steps)
    assert index in steps[0]
    (newer,) = [step for step in steps if step.startswith("SEARCH n ")]
    assert newer.endswith("(org=? AND thread_id=?)")


@pytest.mark.parametrize("threads", [THREADS, THREADS_OF_SKILL])
async def test_a_thread_is_found_by_its_id(plan: Plan, threads: Statement) -> None:
    """It is not found by a scan of all threads of the organization, which would be in order."""
    steps = plan(threads, "threads", "skill")
    (found,) = [step for step in steps if step.startswith(("SEARCH c ", "SCAN c"))]
    assert found.endswith("(org=? AND thread_id=?)")


@pytest.mark.parametrize("statement", [SIZES, MESSAGES, OWN])
async def test_messages_are_read_by_index(plan: Plan, statement: Statement) -> None:
    """The cost of a read does not depend on the length of the conversation."""
    steps = plan(statement, "key", "before", "after", "up_to", "limit", "thread")
    assert not any("SCAN" in step or "TEMP B-TREE" in step for step in steps)
