"""The tables `[dispatch]` and `[shards]` of the settings: which worker drives which run, and where its rows are."""

import re
from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from wfcore.ports.shards import MAIN
from wfcore.runtime.common.installation import Dispatch, Engine
from wfcore.settings.models import BadSettings, is_address
from wfcore.settings.secret import WithSecrets

URLS: Final = {
    "nats": (r"(nats|tls|wss?)://[^,\s]+(,(nats|tls|wss?)://[^,\s]+)*", "nats://127.0.0.1:4222"),
    "temporal": (r"(tls://)?[^/,\s]+:[0-9]{1,5}", "127.0.0.1:7233"),
}
"""The pattern of the URL of each engine, and an example."""

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,32}\Z")]
Replicas = Annotated[int, Meta(ge=1, le=5)]
Namespace = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{2,255}\Z")]
Path = Annotated[str, Meta(min_length=1)]


class DispatchSettings(WithSecrets, msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[dispatch]`. `url` has the servers of a cluster of NATS, separated by commas."""

    SECRET = frozenset({"url", "credentials"})
    engine: Engine = "database"
    url: str | None = None
    name: Name = "wfcore"
    replicas: Replicas = 1
    credentials: Path | None = None
    tls_ca: Path | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    namespace: Namespace = "default"

    def dispatch(self) -> Dispatch:
        """The `dispatch` of the settings of `wfcore.open`."""
        urls = tuple(self.url.split(",")) if self.url else ()
        return Dispatch(self.engine, urls, self.name, self.replicas, self.credentials, self.tls_ca,
                        self.tls_certificate, self.tls_key, self.namespace)  # fmt: skip

    def check(self) -> None:
        """Raise BadSettings for a table that the engine cannot use."""
        if self.engine == "database" and self != DispatchSettings():
            raise BadSettings("`dispatch`: the other keys are for the engines `nats` and `temporal`")
        if self.engine != "database":
            pattern, example = URLS[self.engine]
            urls = [] if self.url is None else self.url.split(",")
            is_url = self.url is not None and re.fullmatch(pattern, self.url) is not None
            if not (is_url and all(is_address(url if "://" in url else f"//{url}") for url in urls)):
                raise BadSettings(f"`dispatch.url`: must be the address of the engine, such as `{example}`")
        if self.engine == "nats" and self.namespace != "default":
            raise BadSettings("`dispatch.namespace`: is for the engine `temporal`")
        if self.engine == "temporal" and self.replicas != 1:
            raise BadSettings("`dispatch.replicas`: is for the engine `nats`")
        if self.tls_key is not None and self.tls_certificate is None:
            raise BadSettings("`dispatch.tls_key`: needs `tls_certificate`")


def check_shards(shards: Mapping[str, str], source: str) -> None:
    """Raise BadSettings, without the URL, for a shard with a name or a URL that is not valid."""
    for name, url in shards.items():
        if name == MAIN or not re.fullmatch("[a-z][a-z0-9_]{0,31}", name):
            allowed = f"a letter and up to 31 of `a-z`, `0-9` and `_`, but not `{MAIN}`"
            raise BadSettings(f"`shards.{name}` in {source}: is not a valid name: use {allowed}")
        if not url.startswith("postgresql://"):
            raise BadSettings(f"`shards.{name}` in {source}: is not a valid URL: use `postgresql://user@host/name`")


def check_backend(backend: str) -> None:
    """Raise BadSettings for a backend of rate limits whose address cannot be read."""
    if "://" in backend and not is_address(backend):
        raise BadSettings("`limits.backend`: must be the address of a server, such as `valkey://127.0.0.1:6379/0`")
