"""The table `[oauth]` of the settings: the issuer whose access tokens are accepted."""

from typing import Annotated

import msgspec
from msgspec import Meta

from wfcore.ports.identity import ClaimNames
from wfcore.settings.models import Url

Name = Annotated[str, Meta(min_length=1)]


class ClaimSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[oauth.claims]`."""

    organization: Name = ClaimNames().organization
    user: Name = ClaimNames().user
    email: Name | None = ClaimNames().email
    email_verified: Name = ClaimNames().email_verified
    groups: Name | None = ClaimNames().groups

    def names(self) -> ClaimNames:
        return ClaimNames(**msgspec.structs.asdict(self))


class OAuthSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[oauth]`."""

    issuer: Url
    audience: Name
    jwks_url: Url | None = None
    claims: ClaimSettings = ClaimSettings()
