"""The table `[studio]` of the settings: the studio's pages and elements on `wfcore serve`."""

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

if TYPE_CHECKING:
    from wfcore.adapters.http.studio.branding import Studio

Text = Annotated[str, Meta(min_length=1)]
Property = Annotated[str, Meta(pattern=r"^--wf-[a-z-]+\Z")]
Language = Annotated[str, Meta(pattern=r"^(en|de)\Z")]


class StudioSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[studio]`: the options of `wfcore.http.Studio`, and the switch that leaves the studio out."""

    enabled: bool = True
    title: Text = "Studio"
    logo: Text | None = None
    locale: Language | None = None
    oauth_client_id: Text | None = None
    oauth_scope: Text = "openid profile email"
    theme: dict[Property, Text] = {}

    def studio(self) -> "Studio | None":
        """The argument `studio` of `wfcore.http.app`; None leaves the studio out."""
        if not self.enabled:
            return None
        from wfcore.adapters.http.studio.branding import Studio

        given = msgspec.structs.asdict(self)
        del given["enabled"]
        return Studio(**given)
