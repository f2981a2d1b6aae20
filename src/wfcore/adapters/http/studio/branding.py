"""`Studio`: the name, logo, colours and links of the studio, chosen by the product that serves it."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from wfcore.domain.kernel.json_type import JSON

PREFIX: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
"""The valid prefixes of custom elements."""


@attrs.frozen
class Studio:
    """Options of the studio's own pages: `wfcore.http.app(core, studio=Studio(title="Acme"))`.

    Custom elements in a product's pages read the prefix only: they take attributes, properties and CSS custom
    properties. Raises ValueError for a property of the theme or a prefix that is not valid.
    """

    title: str = "Studio"
    """The name in the window's title and above the navigation."""
    logo: str | None = None
    """The address of an image of this origin, or a `data:` image."""
    theme: Mapping[str, str] = attrs.field(factory=dict)
    """CSS custom properties by name, such as `{"--wf-color-accent": "#0a7a5c"}`."""
    links: Sequence[tuple[str, str]] = ()
    """Further entries of the navigation: pairs of a text and an address."""
    labels: Mapping[str, str | Mapping[str, str]] = attrs.field(factory=dict)
    """Texts by key that replace those of every language; by language and key, those of one, or of a further one."""
    locale: str | None = None
    """The language of the texts: `en`, `de` or one of `labels`; without it the browser's."""
    prefix: str = "wfcore"
    """What the names of elements, events and of the module begin with: with `acme`, `<acme-inbox>` and `acme.js`."""
    oauth_client_id: str | None = None
    """The public client id of the studio at the OAuth issuer. Without it, users sign in with a token."""
    oauth_scope: str = "openid profile email"
    """The scope that the sign-in requests."""
    frame_ancestors: Sequence[str] = ("'none'",)
    """The sources that may show the studio's pages in a frame (CSP Level 3)."""

    def __attrs_post_init__(self) -> None:
        for name in self.theme:
            if not name.startswith("--wf-"):
                raise ValueError(f"unknown property `{name}` of the theme: use names that begin with `--wf-`")

        if not PREFIX.fullmatch(self.prefix):
            raise ValueError(
                f"`{self.prefix}` is not a valid prefix: use lower-case letters, digits and single hyphens"
            )

    def to_wire(self) -> dict[str, JSON]:
        """What the page reads."""
        return {
            "title": self.title,
            "logo": self.logo,
            "theme": dict(self.theme),
            "links": [{"text": text, "url": url} for text, url in self.links],
            "labels": {key: value if isinstance(value, str) else dict(value) for key, value in self.labels.items()},
            "locale": self.locale,
            "prefix": self.prefix,
        }


STUDIO: Final = Studio()
"""Without a choice of the product."""
