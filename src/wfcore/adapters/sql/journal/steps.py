"""Work of group commits that takes several statements."""

from typing import Any

from wfcore.adapters.sql.journal.claim_statements import BEGIN_RUN, CLAIM_IF_DUE
from wfcore.adapters.sql.journal.statements import FIND_CLAIMED
from wfcore.adapters.sql.store import CommitTransaction, Rows


def claim(values: tuple[Any, ...], transaction: CommitTransaction) -> Rows:
    """Claim an execution that is due, free and without a limit, and begin its queued run.

    `values` are those of `CLAIM_IF_DUE`. The rows of `FIND_CLAIMED`; none if it was not claimed.
    """
    execution, _, now, _ = values
    if not transaction.execute(CLAIM_IF_DUE, values).rowcount:
        return []
    transaction.executemany(BEGIN_RUN, [(execution, now)])
    return [tuple(row) for row in transaction.execute(FIND_CLAIMED, (execution,)).fetchall()]
