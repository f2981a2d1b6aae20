"""The verdicts of evaluations. An append writes the rows, in the same transaction as its entries."""

from typing import Protocol

from wfcore.domain.projections.verdict_rows import VerdictRow


class VerdictRows(Protocol):
    """Reads what the journal wrote. An execution has one verdict, which its later appends replace."""

    async def latest(self, org: str, skill_id: int, content: str) -> list[VerdictRow]:
        """The newest verdict of each case on this content, by case id.

        The newest is that of the execution that began last. Those of deleted executions are deleted.
        """
        ...
