"""The secret key of an embedded database, with errors for the command line."""

from pathlib import Path

from wfcore.adapters import sealing
from wfcore.settings.installation import BadSettings


def key_beside(database: Path | None) -> bytes:
    """The key in `<database>.key`, which is created if missing. Raises BadSettings when the file has no valid key."""
    try:
        return sealing.key_beside(database)
    except ValueError as error:
        raise BadSettings(str(error)) from None
