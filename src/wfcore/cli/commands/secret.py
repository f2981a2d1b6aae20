"""The secret key of an embedded database, as the commands read it."""

from pathlib import Path

from wfcore.adapters import sealing
from wfcore.settings.installation import BadSettings


def key_beside(database: Path | None) -> bytes:
    """The key in `<database>.key`, made now when there is none. Raises BadSettings when the file holds no key."""
    try:
        return sealing.key_beside(database)
    except ValueError as error:
        raise BadSettings(str(error)) from None
