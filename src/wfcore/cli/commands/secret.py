"""The secret key of an embedded database, with errors for the command line."""

from pathlib import Path

from wfcore.adapters import sealing
from wfcore.settings.installation import BadSettings


def key_beside(database: Path | None) -> bytes:
    """The first key in `<database>.key`, which is created if missing. Raises BadSettings when it has no valid key."""
    try:
        return sealing.keys_beside(database)[0]
    except ValueError as error:
        raise BadSettings(str(error)) from None
