"""The table `[studio]` of the settings: the studio's pages and elements on `wfcore serve`."""

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

if TYPE_CHECKING:
    from wfcore.adapters.http.studio.branding import Studio

Text = Annotated[str, Meta(min_length=1)]
Property = Annotated[str, Meta(pattern=r"^--wf-[a-z-]+\Z")]
Language = Annotated[str, Meta(pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]+)*\Z")]
Prefix = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*\Z")]


class Link(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of `[[studio.links]]`."""

    text: Text
    url: Text


class StudioSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[studio]`: the options of `wfcore.http.Studio`, and the switch that leaves the studio out."""

    enabled: bool = True
    title: Text = "Studio"
    logo: Text | None = None
    locale: Language | None = None
    oauth_client_id: Text | None = None
    oauth_scope: Text = "openid profile email"
    prefix: Prefix = "wfcore"
    theme: dict[Property, Text] = {}
    labels: dict[str, str | dict[str, str]] = {}
    links: list[Link] = []

    def __post_init__(self) -> None:
        if self.locale and self.locale.split("-")[0] not in {"en", "de", *self.labels}:
            raise ValueError("unknown `locale`: use `en`, `de` or a language of `labels`")

    def studio(self) -> "Studio | None":
        """The argument `studio` of `wfcore.http.app`; None leaves the studio out."""
        if not self.enabled:
            return None
        from wfcore.adapters.http.studio.branding import Studio

        given = msgspec.structs.asdict(self)
        del given["enabled"]
        return Studio(**given | {"links": tuple((link.text, link.url) for link in self.links)})
