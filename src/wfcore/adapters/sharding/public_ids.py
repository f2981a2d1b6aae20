"""Ids that lead to the shard of their organization, for requests that name no organization.

They end with the 32 bits of `locator_of`, masked with a keyed hash of the rest. Without the key, which the main
database has, these bits look random: nobody can recognize the ids of one organization, or guess one more easily.
"""

import hmac
import re
from typing import Final

import attrs

from wfcore.domain.kernel.ids import is_uuid
from wfcore.ports.shards import locator_of

DIGITS: Final = 8
"""Hexadecimal digits of a locator."""

VERSION: Final = 14
"""The place of the version in the text of a UUID. Such an id has version 8, whose content is free (RFC 9562, 5.8)."""

_TEXT: Final = re.compile("[A-Za-z0-9]+-[0-9a-f]{8}")


@attrs.frozen
class PublicIds:
    """The ids of the installation with this key."""

    key: str = attrs.field(repr=False)

    def named(self, id: str, org: str) -> str:
        """The id that leads to the organization: a UUID of the same length, any other text with a suffix."""
        rest = f"{id[:VERSION]}8{id[VERSION + 1 : -DIGITS]}" if is_uuid(id) else f"{id}-"
        return f"{rest}{locator_of(org) ^ self._mask(rest):0{DIGITS}x}"

    def locator(self, id: str) -> int | None:
        """The locator in the id; None for an id that has none. For any other text it can be that of nobody."""
        has_one = id[VERSION] == "8" if is_uuid(id) else _TEXT.fullmatch(id) is not None
        return int(id[-DIGITS:], 16) ^ self._mask(id[:-DIGITS]) if has_one else None

    def _mask(self, rest: str) -> int:
        return int.from_bytes(hmac.digest(self.key.encode(), rest.encode(), "sha256")[: DIGITS // 2])
