"""What the operator configures: a TOML file, and over it the environment.

    database = "sqlite:///app.db"
    secret_key = "..."              # 32 bytes in base64url
    previous_secret_keys = ["..."]  # those it had before: what they sealed can still be read
    default_model = "fast"
    [models.fast]
    provider = "openai"             # or "scripted"
    model = "gpt-5"
    base_url = "https://..."        # optional
    api_key = "..."                 # optional
    [limits]
    max_node_visits = 10_000
    max_run_seconds = 86_400
    max_request_bytes = 10_485_760
    max_concurrent_runs = 1_000
    catch_up_seconds = 3_600        # how late a schedule may still fire
    [oauth]
    issuer = "https://..."          # whose JWT access tokens are taken beside personal access tokens
    audience = "https://..."        # what they have to be made out to
    jwks_url = "https://..."        # optional: what the issuer's metadata names
    [oauth.claims]                  # optional: which claims hold what
    organization = "org_id"
    user = "sub"
    email = "email"                 # without: the member's own
    email_verified = "email_verified"
    groups = "groups"               # without: the member's own
    [http_tool]
    allow = ["127.0.0.1:9000"]      # addresses and networks that requests of customers may reach though not public

In the environment the same keys are `WFCORE_DATABASE`, `WFCORE_LIMITS_MAX_NODE_VISITS`, `WFCORE_MODELS_FAST_API_KEY`,
`WFCORE_HTTP_TOOL_ALLOW` and `WFCORE_PREVIOUS_SECRET_KEYS` (with commas between the entries).
"""

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta

from wfcore.domain.errors import JSON
from wfcore.domain.run.entries import Limits
from wfcore.ports.identity import ClaimNames, TokenVerifier
from wfcore.ports.providers import ModelProvider
from wfcore.ports.system import Clock
from wfcore.runtime.context import Settings

PREFIX: Final = "WFCORE_"
PLAIN: Final = frozenset({"database", "secret_key", "default_model"})
LISTS: Final = frozenset({"previous_secret_keys"})
TABLES: Final = frozenset({"limits", "http_tool", "oauth"})
LATER: Final = frozenset({"limits.requests_per_minute"})
"""Keys of releases to come. They are refused: a setting that is accepted and does nothing would be a lie."""

T = TypeVar("T")
Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]
Name = Annotated[str, Meta(min_length=1)]
Url = Annotated[str, Meta(pattern=r"^https?://[^\s/?#@]+(?:/[^\s?#]*)?\Z")]


class BadSettings(ValueError):
    """A setting cannot be used; the message names its key and where it stands."""


class ModelSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table `[models.NAME]`."""

    provider: str
    model: str | None = None
    base_url: str | None = None
    api_key: str | None = None

    def __repr__(self) -> str:
        return f"ModelSettings(provider={self.provider!r}, model={self.model!r})"


class LimitSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[limits]`. What is not given keeps its default."""

    max_node_visits: Count = Limits().max_node_visits
    max_run_seconds: Seconds = Limits().max_run_seconds
    max_request_bytes: Count = Settings().max_request_bytes
    max_concurrent_runs: Count = Settings().max_concurrent_runs
    catch_up_seconds: Seconds = Settings().catch_up


class HttpToolSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[http_tool]`."""

    allow: list[str] = []


class ClaimSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[oauth.claims]`. What is not given keeps its default."""

    organization: Name = ClaimNames().organization
    user: Name = ClaimNames().user
    email: Name | None = ClaimNames().email
    email_verified: Name = ClaimNames().email_verified
    groups: Name | None = ClaimNames().groups


class OAuthSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[oauth]`."""

    issuer: Url
    audience: Name
    jwks_url: Url | None = None
    claims: ClaimSettings = ClaimSettings()


class Configuration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All settings. `options` are the file's other keys, which are options of the command line."""

    database: str | None = None
    secret_key: str | None = None
    previous_secret_keys: list[str] = []
    default_model: str | None = None
    models: dict[str, ModelSettings] = {}
    limits: LimitSettings = LimitSettings()
    http_tool: HttpToolSettings = HttpToolSettings()
    oauth: OAuthSettings | None = None
    options: dict[str, Any] = {}

    def settings(self) -> Settings:
        """As `wfcore.bootstrap.open` takes them. A model that is the only one is the default one."""
        limits, names = self.limits, list(self.models)
        return Settings(
            Limits(limits.max_node_visits, limits.max_run_seconds),
            max_request_bytes=limits.max_request_bytes,
            max_concurrent_runs=limits.max_concurrent_runs,
            default_model=self.default_model or (names[0] if len(names) == 1 else "default"),
            http_allow=tuple(self.http_tool.allow),
            catch_up=limits.catch_up_seconds,
        )

    def providers(self) -> dict[str, ModelProvider] | None:
        """The configured models, as `wfcore.bootstrap.open` takes them; None when there are none.

        Raises BadSettings for one that lacks its key, or an extra that has to be installed.
        """
        return {name: _provider(f"models.{name}", model) for name, model in self.models.items()} or None

    def token_verifier(self, clock: Clock) -> TokenVerifier | None:
        """Who verifies the access tokens of the configured issuer; None when there is none."""
        if (oauth := self.oauth) is None:
            return None
        from wfcore.adapters.oauth import AccessTokens

        claims = ClaimNames(**msgspec.structs.asdict(oauth.claims))
        return AccessTokens(oauth.issuer, oauth.audience, clock, jwks_url=oauth.jwks_url, claims=claims)

    def secret(self) -> bytes | None:
        """The configured secret key. Raises BadSettings when it is not 32 bytes in base64url."""
        return None if self.secret_key is None else decode_key(self.secret_key, "secret_key")

    def previous_secrets(self) -> list[bytes]:
        """The keys of before, whose seals can still be opened. Raises BadSettings as `secret` does."""
        return [decode_key(text, "previous_secret_keys") for text in self.previous_secret_keys]


def load(file: str | None = None, environ: Mapping[str, str] = os.environ) -> Configuration:
    """Read the file, if one is given here or in `WFCORE_CONFIG`, and the environment over it.

    Raises BadSettings for a key that is unknown, has a value of the wrong type, or is not offered yet.
    """
    path = file or environ.get(PREFIX + "CONFIG")
    kept = {} if path is None else read_file(path)
    _configuration(kept, str(path))
    found = _configuration(_merged(kept, _environment(environ)), "the environment")
    if found.default_model is not None and found.default_model not in found.models:
        raise BadSettings(f"`default_model`: there is no model `{found.default_model}`")
    found.secret()
    found.previous_secrets()
    return found


def read_file(path: str) -> dict[str, JSON]:
    """The keys of a TOML file. Raises BadSettings when it cannot be read."""
    try:
        return tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise BadSettings(f"cannot read `{path}`: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSettings(f"`{path}` is not TOML: {error}") from None


def decode_key(text: str, where: str) -> bytes:
    """32 bytes from base64url, padded or not. The error does not show the text: it may be half a secret."""
    from wfcore.adapters import sealing

    try:
        return sealing.decode_key(text, where)
    except ValueError as error:
        raise BadSettings(str(error)) from None


def _configuration(tree: Mapping[str, JSON], source: str) -> Configuration:
    """Check and convert. Models are converted one by one, so that an error names the model."""
    for key in _keys(tree):
        if key in LATER:
            raise BadSettings(f"`{key}` in {source}: not offered by this release")
    tables = _convert(tree.get("models", {}), dict[str, dict[str, Any]], "models", source)
    models = {name: _convert(table, ModelSettings, f"models.{name}", source) for name, table in tables.items()}
    for name, model in models.items():
        _check_model(f"models.{name}", model, source)
    own = {name: value for name, value in tree.items() if name in PLAIN | LISTS | TABLES}
    rest = {name: value for name, value in tree.items() if name not in own and name != "models"}
    found = _convert(own, Configuration, "", source)
    _check_allowed(found.http_tool.allow, source)
    return msgspec.structs.replace(found, models=models, options=rest)


def _keys(tree: Mapping[str, JSON]) -> Iterator[str]:
    """The keys of the tree and of its tables, such as `limits.max_node_visits`."""
    for name, value in tree.items():
        yield name
        if isinstance(value, dict):
            yield from (f"{name}.{inner}" for inner in value)


def _convert(value: JSON, shape: type[T], where: str, source: str) -> T:
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).replace(" | null", "").partition(" - at `$")
        place = ".".join(part for part in (where, path.strip("`.")) if part)
        shown = f"`{place}` in {source}" if place else source
        raise BadSettings(f"{shown}: {problem[:1].lower()}{problem[1:]}") from None


def _check_model(where: str, model: ModelSettings, source: str) -> None:
    if model.provider == "anthropic":
        raise BadSettings(f"`{where}.provider` in {source}: `anthropic` is not offered by this release")
    if model.provider not in ("openai", "scripted"):
        raise BadSettings(f"`{where}.provider` in {source}: `{model.provider}` is neither `openai` nor `scripted`")
    if model.provider == "openai" and not model.model:
        raise BadSettings(f"`{where}.model` in {source}: is required by provider `openai`")
    if model.provider == "scripted":
        for name in ("model", "base_url", "api_key"):
            if getattr(model, name) is not None:
                raise BadSettings(f"`{where}.{name}` in {source}: means nothing to provider `scripted`")


def _check_allowed(entries: Iterable[str], source: str) -> None:
    from wfcore.adapters.outbound.guard import Guard

    try:
        Guard.allowing(entries)
    except ValueError as error:
        raise BadSettings(f"`http_tool.allow` in {source}: {error}") from None


def _provider(where: str, model: ModelSettings) -> ModelProvider:
    if model.provider == "scripted":
        from wfcore.adapters.models.scripted import ScriptedModel

        return ScriptedModel()
    from wfcore.adapters.models.openai import OpenAIModel

    try:
        return OpenAIModel(str(model.model), base_url=model.base_url, api_key=model.api_key)
    except (ImportError, ValueError) as error:
        raise BadSettings(f"`{where}`: {error}") from None


def _environment(environ: Mapping[str, str]) -> dict[str, JSON]:
    """The settings that the environment holds, as a file would hold them."""
    tree: dict[str, Any] = {}
    for variable, text in environ.items():
        if not variable.startswith(PREFIX):
            continue
        key = variable.removeprefix(PREFIX).lower()
        area, _, rest = key.partition("_")
        if area == "limits":
            tree.setdefault("limits", {})[rest] = _number(text)
        elif area == "models":
            name, field = _model_field(variable, rest)
            tree.setdefault("models", {}).setdefault(name, {})[field] = text
        elif area == "oauth":
            claims, table = rest.removeprefix("claims_"), tree.setdefault("oauth", {})
            (table if claims == rest else table.setdefault("claims", {}))[claims] = text
        elif key == "http_tool_allow":
            tree["http_tool"] = {"allow": _entries(text)}
        elif key in LISTS:
            tree[key] = _entries(text)
        elif key in PLAIN:
            tree[key] = text
    return tree


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _model_field(variable: str, rest: str) -> tuple[str, str]:
    """`fast_api_key` is the `api_key` of `fast`."""
    for field in sorted(ModelSettings.__struct_fields__, key=len, reverse=True):
        name = rest.removesuffix(f"_{field}")
        if name not in (rest, ""):
            return name, field
    raise BadSettings(f"`{variable}` is no setting of a model")


def _number(text: str) -> JSON:
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _merged(below: Mapping[str, JSON], above: Mapping[str, JSON]) -> dict[str, JSON]:
    """`above` over `below`, table by table."""
    both = dict(below)
    for name, value in above.items():
        kept = below.get(name)
        both[name] = _merged(kept, value) if isinstance(kept, dict) and isinstance(value, dict) else value
    return both
