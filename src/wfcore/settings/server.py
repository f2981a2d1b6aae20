"""The table `[server]` of the settings: the connections and the names of `wfcore serve`."""

from ipaddress import ip_network
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Meta

from wfcore.settings.models import BadSettings, Count, Seconds, Url

if TYPE_CHECKING:
    from wfcore.adapters.http.connections import ConnectionLimits

LISTS: Final = frozenset({"trusted_proxies", "allowed_hosts", "browser_origins"})
"""Keys whose value in the environment is a list with commas."""

Host = Annotated[str, Meta(pattern=r"^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?\Z")]
BrowserOrigin = Annotated[str, Meta(pattern=r"^https?://[a-z0-9._\[\]:-]+\Z")]
Limit = Annotated[int, Meta(ge=0, le=1_000_000)]


class ServerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[server]`. An option of the command line overrides the key with its name."""

    keep_alive_seconds: Seconds = 75.0
    header_seconds: Seconds = 10.0
    max_connections: Count | None = None
    failed_authentications_per_minute: Limit = 300
    trusted_proxies: list[str] = []
    allowed_hosts: list[Host] = []
    browser_origins: list[BrowserOrigin] = []
    public_url: Url | None = None

    def overridden(self, options: dict[str, Any]) -> "ServerSettings":
        """With the options that are given. Raises BadSettings for a value that is not valid."""
        given = {name: value for name, value in options.items() if value not in (None, [])}
        try:
            found = msgspec.convert({**msgspec.structs.asdict(self), **given}, ServerSettings)
        except msgspec.ValidationError as error:
            problem, _, path = str(error).partition(" - at `$")
            raise BadSettings(f"`server.{path.strip('`.')}`: {problem[:1].lower()}{problem[1:]}") from None
        check_proxies(found.trusted_proxies, "the options")
        return found

    def limits(self) -> "ConnectionLimits":
        """The limits of the connections."""
        from wfcore.adapters.http.connections import ConnectionLimits, default_connections

        return ConnectionLimits(
            self.keep_alive_seconds, self.header_seconds, self.max_connections or default_connections()
        )

    def names(self) -> dict[str, Any]:
        """The arguments of `wfcore.http.app` for the names and the limit of failed authentications."""
        return {
            "allowed_hosts": self.allowed_hosts,
            "browser_origins": self.browser_origins,
            "public_url": self.public_url,
            "mount": unquote(urlsplit(self.public_url or "").path),
            "failed_authentications_per_minute": self.failed_authentications_per_minute or None,
        }


def check_proxies(entries: list[str], source: str) -> None:
    """Raise BadSettings unless every entry is an address or a network."""
    for entry in entries:
        try:
            ip_network(entry)
        except ValueError:
            message = f"`{entry}` is not an IP address or network"
            raise BadSettings(f"`server.trusted_proxies` in {source}: {message}") from None
