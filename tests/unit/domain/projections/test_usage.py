"""The usage of models in the records of a run."""

import pytest

from wfcore.domain.projections.cost import Price
from wfcore.domain.projections.usage import UsageRow, usage_rows
from wfcore.domain.run.records import MessageRecord, UsageRecord


@pytest.mark.parametrize(
    ("kind", "skill", "workflow"), [("workflow", None, 4), ("skill", 4, None), ("assistant", None, None)]
)
def test_usage_counts_for_what_runs(kind: str, skill: int | None, workflow: int | None) -> None:
    """A call counts for its own skill, else for the skill that runs, and for the workflow that runs."""
    records = [UsageRecord("m", None, "n", 2, 3, 1, 9, at=5), UsageRecord("free", 7, "n", path=("sub",)),
               MessageRecord("human", "m1", "")]  # fmt: skip
    resource = None if kind == "assistant" else 4
    assert usage_rows(records, kind, resource, {"m": Price(1, 10)}) == [
        UsageRow(5, "m", skill, workflow, 2, 3, 1, 9, 32_000),
        UsageRow(0, "free", 7, workflow, 0, 0, 1, 0, None),
    ]
