"""The condition of lists of what belongs to resources that a principal can use."""

from wfcore.adapters.sql.schema.named_tables import grants
from wfcore.adapters.sql.schema.statement import Dialect


def exists_for(d: Dialect, subjects: str) -> str:
    """A condition on the resource `s`: a deleted one exists only for its managers."""
    return f"""(s.status <> 'deleted' OR EXISTS (
    SELECT 1 FROM {d[grants]} m WHERE m.resource = s.key AND m.manage
    AND m.subject IN (SELECT value FROM {d.values(subjects)})))"""
