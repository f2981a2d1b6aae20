"""The settings of an operator: a TOML file, overridden by the environment.

    database = "sqlite:///app.db"   # or a table [database] with `url`, `schema` and `busy_seconds`
    busy_seconds = 10               # only SQLite: how long a writer waits for another one
    blobs = "/srv/app/attachments"  # the directory of attachments; default: beside an embedded database
    secret_key = "..."              # 32 bytes in base64url
    previous_secret_keys = ["..."]  # earlier keys: what they sealed can still be read
    default_model = "fast"
    [models.fast]
    provider = "openai"             # or "anthropic", or "scripted"
    model = "gpt-5"
    base_url = "https://..."        # optional
    api_key = "..."                 # optional
    timeout_seconds = 60            # without data from the server
    deadline_seconds = 600          # of a whole call, with retries and waits
    max_retries = 2                 # retries of a call whose response has not begun
    max_output_tokens = 32_000      # only `anthropic`: the maximum length of a response
    input_price = 1.25              # optional, like output_price: per million tokens, in your currency
    [limits]
    max_node_visits = 10_000
    max_run_seconds = 86_400
    max_agent_rounds = 25           # model calls of one visit of an agent
    max_request_bytes = 10_485_760
    max_attachment_bytes = 5_242_880
    max_attachments = 10            # per request
    max_concurrent_runs = 1_000
    max_nodes = 5_000               # per graph; also max_edges
    catch_up_seconds = 3_600        # how late a schedule can still fire
    requests_per_minute = 600       # per principal; default: no limit
    organization_requests_per_minute = 6_000
    max_waiting_requests = 1_000
    backend = "database"            # where rates are counted: also "memory" (the default) or "valkey://host:6379/0"
    [budgets]                       # usage of models, in tokens or your currency, above which a run needs approval
    user_tokens_per_day = 200_000   # also `..._per_month`, and `organization_...` for all of its users together
    organization_cost_per_month = 500
    [dispatch]
    engine = "nats"                 # what decides which worker drives which run; default: "database"
    url = "nats://nats1:4222,nats://nats2:4222"  # may have a user and a password
    name = "wfcore"                 # of this installation, if several share an account of NATS
    replicas = 3                    # of how many servers the queue survives the loss of one: 3 or 5
    credentials = "/etc/wfcore/nats.creds"  # optional, like `tls_ca`, `tls_certificate` and `tls_key`
    [shards]                        # further databases for organizations; `database` is the shard `main`
    east = "postgresql://..."       # a name of up to 32 of `a-z0-9_`, and the URL
    [telemetry]
    metrics = true                  # default: true if the extra `metrics` is installed
    metrics_token = "..."           # optional: the bearer token that `/metrics` requires
    traces = true                   # default: false
    [oauth]
    issuer = "https://..."          # whose JWT access tokens are accepted besides personal access tokens
    audience = "https://..."        # the audience that they must name
    jwks_url = "https://..."        # default: the URL in the issuer's metadata
    [oauth.claims]                  # optional: the names of the claims
    organization = "org_id"
    user = "sub"
    email = "email"                 # default: the member's own
    email_verified = "email_verified"
    groups = "groups"               # default: the member's own
    [server]
    keep_alive_seconds = 75         # how long an idle connection stays open
    header_seconds = 10             # how long the head of a request can take to arrive
    max_connections = 1_000         # default: four fifths of the open files that the system allows
    failed_authentications_per_minute = 300  # of one address; 0: no limit
    trusted_proxies = ["10.0.0.2"]  # addresses and networks whose X-Forwarded-* headers count
    allowed_hosts = ["flows.example.org"]            # names of this server; default: any
    browser_origins = ["https://app.example.org"]    # further pages that can call the API (CORS) and write
    public_url = "https://flows.example.org"         # the address in links; default: that of the request
    [studio]
    enabled = true                  # also title, logo, locale, theme, labels, links, prefix and oauth_*
    [http]
    hosts = ["flows.example.org"]   # names of this server; without: browsers reach its MCP servers by address only
    [http_tool]
    allow = ["127.0.0.1:9000"]      # private addresses and networks that requests of workflows can reach
    [tool_calls]                    # how many calls of a tool each organization can begin; further ones wait
    "core.http" = "600/minute"      # or "/second", "/hour", "/day"

In the environment, the same keys are `WFCORE_DATABASE`, `WFCORE_LIMITS_MAX_NODE_VISITS`, `WFCORE_MODELS_FAST_API_KEY`,
`WFCORE_HTTP_TOOL_ALLOW`, `WFCORE_HTTP_HOSTS` and `WFCORE_PREVIOUS_SECRET_KEYS` (entries separated by commas, as those
of `WFCORE_TOOL_CALLS`, such as `core.http=600/minute`).
"""

import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, get_args

import msgspec
from msgspec import Meta

from wfcore.domain.agents.attachments import AttachmentLimits
from wfcore.domain.agents.budgets import Budget, Period, Whose
from wfcore.domain.graph.limits import GraphLimits
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.entries import Limits
from wfcore.ports.blobs import Blobs
from wfcore.ports.identity import TokenVerifier
from wfcore.ports.providers import ModelProvider
from wfcore.ports.system import RATE, Clock
from wfcore.runtime.common.installation import MAX_BUSY_SECONDS, Retention, Settings
from wfcore.settings.dispatch import DispatchSettings, check_backend, check_shards
from wfcore.settings.models import TEXT_FIELDS, BadSettings, Count, ModelSettings, Seconds, check_model, provider_of
from wfcore.settings.oauth import OAuthSettings
from wfcore.settings.secret import WithSecrets
from wfcore.settings.server import LISTS as SERVER_LISTS
from wfcore.settings.server import Host, ServerSettings, check_proxies
from wfcore.settings.studio import StudioSettings

if TYPE_CHECKING:
    from wfcore.adapters.telemetry import Metrics, Traces

__all__ = ["BadSettings", "Configuration", "decode_key", "load", "read_file"]

PREFIX: Final = "WFCORE_"
PLAIN: Final = frozenset({"database", "schema", "blobs", "secret_key", "default_model"})
NUMBERS: Final = frozenset({"busy_seconds"})
LISTS: Final = frozenset({"previous_secret_keys"})
TABLES: Final = frozenset(
    {"budgets", "dispatch", "http", "http_tool", "limits", "oauth", "retention", "server", "shards", "studio"}
) | {"telemetry", "tool_calls"}

T = TypeVar("T")
CallRate = Annotated[str, Meta(pattern=RATE)]
Cost = Annotated[float, Meta(gt=0, le=1e12)]
Days = Annotated[float, Meta(gt=0, le=1e6)]
BusySeconds = Annotated[float, Meta(gt=0, le=MAX_BUSY_SECONDS)]
Backend = Annotated[str, Meta(pattern=r"^(memory|database|(redis|valkey)s?://\S+)\Z")]
Name = Annotated[str, Meta(min_length=1)]
Token = Annotated[str, Meta(pattern=r"^[\x21-\x7e]+\Z")]


class LimitSettings(WithSecrets, msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[limits]`."""

    SECRET = frozenset({"backend"})
    max_node_visits: Count = Limits().max_node_visits
    max_agent_rounds: Count = Limits().max_agent_rounds
    max_run_seconds: Seconds = Limits().max_run_seconds
    max_request_bytes: Count = Settings().max_request_bytes
    max_attachment_bytes: Count = AttachmentLimits().size
    max_attachments: Count = AttachmentLimits().count
    max_concurrent_runs: Count = Settings().max_concurrent_runs
    max_nodes: Count = GraphLimits().nodes
    max_edges: Count = GraphLimits().edges
    catch_up_seconds: Seconds = Settings().catch_up
    requests_per_minute: Count | None = None
    organization_requests_per_minute: Count | None = None
    max_waiting_requests: Count = Settings().max_waiting_requests
    backend: Backend = "memory"


class BudgetSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[budgets]`."""

    user_tokens_per_day: Count | None = None
    user_tokens_per_month: Count | None = None
    user_cost_per_day: Cost | None = None
    user_cost_per_month: Cost | None = None
    organization_tokens_per_day: Count | None = None
    organization_tokens_per_month: Count | None = None
    organization_cost_per_day: Cost | None = None
    organization_cost_per_month: Cost | None = None

    def budgets(self) -> tuple[Budget, ...]:
        """The budgets that are set."""
        found = []
        for of, period in product(get_args(Whose), get_args(Period)):
            tokens, cost = (getattr(self, f"{of}_{unit}_per_{period}") for unit in ("tokens", "cost"))
            if (tokens, cost) != (None, None):
                found.append(Budget(of, period, tokens, cost))
        return tuple(found)


class TelemetrySettings(WithSecrets, msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[telemetry]`."""

    SECRET = frozenset({"metrics_token"})
    metrics: bool | None = None
    metrics_token: Token | None = None
    traces: bool = False

    def check(self, source: str) -> None:
        """Raise BadSettings for a token of metrics that are off."""
        if self.metrics is False and self.metrics_token is not None:
            raise BadSettings(f"`telemetry.metrics_token` in {source}: requires metrics")


class RetentionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[retention]`."""

    runs_days: Days | None = None
    conversations_days: Days | None = None
    audit_days: Days | None = None
    deleted_days: Days | None = None
    blobs_days: Days | None = None

    def retention(self) -> Retention:
        return Retention(self.runs_days, self.conversations_days, self.audit_days, self.deleted_days, self.blobs_days)


class HttpSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[http]`."""

    hosts: list[Host] = []


class HttpToolSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[http_tool]`."""

    allow: list[str] = []


class DatabaseSettings(WithSecrets, msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[database]`, which can be given instead of the URL alone."""

    SECRET = frozenset({"url"})
    url: str | None = None
    schema: str | None = None
    busy_seconds: BusySeconds | None = None


class Configuration(WithSecrets, msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All settings. `options` are the other keys of the file: options of the command line."""

    SECRET = frozenset({"database", "secret_key", "previous_secret_keys", "shards", "options"})
    database: str | None = None
    schema: str | None = None
    busy_seconds: BusySeconds = Settings().busy_seconds
    blobs: Name | None = None
    secret_key: str | None = None
    previous_secret_keys: list[str] = []
    default_model: str | None = None
    models: dict[str, ModelSettings] = {}
    limits: LimitSettings = LimitSettings()
    budgets: BudgetSettings = BudgetSettings()
    dispatch: DispatchSettings = DispatchSettings()
    shards: dict[str, str] = {}
    http: HttpSettings = HttpSettings()
    http_tool: HttpToolSettings = HttpToolSettings()
    oauth: OAuthSettings | None = None
    retention: RetentionSettings = RetentionSettings()
    server: ServerSettings = ServerSettings()
    studio: StudioSettings = StudioSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    tool_calls: dict[str, CallRate] = {}
    options: dict[str, Any] = {}

    def settings(self) -> Settings:
        """The `settings` of `wfcore.open`. A single model is the default one."""
        limits, names = self.limits, list(self.models)
        return Settings(
            Limits(limits.max_node_visits, limits.max_run_seconds, max_agent_rounds=limits.max_agent_rounds),
            max_request_bytes=limits.max_request_bytes,
            max_concurrent_runs=limits.max_concurrent_runs,
            default_model=self.default_model or (names[0] if len(names) == 1 else "default"),
            http_allow=tuple(self.http_tool.allow),
            catch_up=limits.catch_up_seconds,
            requests_per_minute=limits.requests_per_minute,
            organization_requests_per_minute=limits.organization_requests_per_minute,
            max_waiting_requests=limits.max_waiting_requests,
            limits_backend=limits.backend,
            tool_calls=self.tool_calls,
            attachments=AttachmentLimits(limits.max_attachments, limits.max_attachment_bytes),
            graph=GraphLimits(limits.max_nodes, limits.max_edges),
            hosts=tuple(self.http.hosts or self.server.allowed_hosts),
            public_url=self.server.public_url,
            busy_seconds=self.busy_seconds,
            budgets=self.budgets.budgets(),
            retention=self.retention.retention(),
            dispatch=self.dispatch.dispatch(),
            shards=self.shards,
            prices={name: price for name, model in self.models.items() if (price := model.price())},
        )

    def check_default_model(self) -> None:
        """Raise BadSettings for a default model that is not configured."""
        if self.default_model is not None and self.default_model not in self.models:
            raise BadSettings(f"`default_model`: unknown model `{self.default_model}`")

    def providers(self) -> dict[str, ModelProvider] | None:
        """The `models` of `wfcore.open`; None when none is configured.

        Raises BadSettings when an API key or an extra is missing.
        """
        return {name: provider_of(f"models.{name}", model) for name, model in self.models.items()} or None

    def blob_store(self) -> Blobs | None:
        """The `blobs` of the overrides of `wfcore.open`; None without a configured directory."""
        if self.blobs is None:
            return None
        from wfcore.adapters.blobs import LocalBlobs

        return LocalBlobs(Path(self.blobs))

    def token_verifier(self, clock: Clock) -> TokenVerifier | None:
        """The verifier of the issuer's access tokens; None without an issuer."""
        if (oauth := self.oauth) is None:
            return None
        from wfcore.adapters.oauth import AccessTokens

        claims = oauth.claims.names()
        return AccessTokens(oauth.issuer, oauth.audience, clock, jwks_url=oauth.jwks_url, claims=claims)

    def metrics(self) -> "Metrics | None":
        """The metrics adapter; None when off, or by default without the extra. Raises BadSettings if on without it."""
        return _telemetry_adapter("Metrics", self.telemetry.metrics)  # type: ignore[no-any-return]

    def traces(self) -> "Traces | None":
        """The traces adapter; None when off. Raises BadSettings if on without its extra."""
        return _telemetry_adapter("Traces", self.telemetry.traces)  # type: ignore[no-any-return]

    def secret(self) -> bytes | None:
        """The configured secret key. Raises BadSettings when it is not 32 bytes in base64url."""
        return None if self.secret_key is None else decode_key(self.secret_key, "secret_key")

    def previous_secrets(self) -> list[bytes]:
        """The earlier secret keys, which can still unseal. Raises BadSettings as `secret` does."""
        return [decode_key(text, "previous_secret_keys") for text in self.previous_secret_keys]


def load(file: str | None = None, environ: Mapping[str, str] = os.environ) -> Configuration:
    """Read the file, given here or in `WFCORE_CONFIG`, and override it with the environment.

    Raises BadSettings for an unknown key and for a value that is not valid.
    """
    path = file or environ.get(PREFIX + "CONFIG")
    _configuration(in_file := {} if path is None else flattened(read_file(path), path), str(path))
    found = _configuration(merged(in_file, environment(environ)), "the environment")
    check_backend(found.limits.backend)
    for check in (found.check_default_model, found.dispatch.check, found.secret, found.previous_secrets):
        check()
    return found


def flattened(tree: dict[str, JSON], path: str) -> dict[str, JSON]:
    """The keys of a file, with the table `[database]` as top-level keys, which the environment overrides."""
    if not isinstance(table := tree.get("database"), dict):
        return tree
    database = convert(table, DatabaseSettings, "database", path)
    given = {"database": database.url, "schema": database.schema, "busy_seconds": database.busy_seconds}
    rest = {name: value for name, value in tree.items() if name != "database"}
    return {**rest, **{name: value for name, value in given.items() if value is not None}}


def read_file(path: str) -> dict[str, JSON]:
    """The keys of a TOML file. Raises BadSettings when it cannot be read."""
    try:
        return tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise BadSettings(f"cannot read `{path}`: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSettings(f"`{path}` is not TOML: {error}") from None


def decode_key(text: str, where: str) -> bytes:
    """32 bytes from base64url, padded or not. Raises BadSettings, without the text: it can be part of a secret."""
    from wfcore.adapters import sealing

    try:
        return sealing.decode_key(text, where)
    except ValueError as error:
        raise BadSettings(str(error)) from None


def _configuration(tree: Mapping[str, JSON], source: str) -> Configuration:
    """Check and convert the keys."""
    found = converted(tree, source)
    for check in checks_of(found, source):
        check()
    return found


def converted(tree: Mapping[str, JSON], source: str) -> Configuration:
    """The keys with their types. Models are converted one by one, so that an error names the model."""
    tables = convert(tree.get("models", {}), dict[str, dict[str, Any]], "models", source)
    models = {name: convert(table, ModelSettings, f"models.{name}", source) for name, table in tables.items()}
    own = {name: value for name, value in tree.items() if name in PLAIN | NUMBERS | LISTS | TABLES}
    rest = {name: value for name, value in tree.items() if name not in own and name != "models"}
    return msgspec.structs.replace(convert(own, Configuration, "", source), models=models, options=rest)


def checks_of(found: Configuration, source: str) -> list[Callable[[], None]]:
    """The checks of what types do not say; each raises BadSettings."""
    return [
        *(partial(check_model, f"models.{name}", model, source) for name, model in found.models.items()),
        partial(_check_allowed, found.http_tool.allow, source),
        partial(check_proxies, found.server.trusted_proxies, source),
        *(partial(check_shards, {name: url}, source) for name, url in found.shards.items()),
        partial(found.telemetry.check, source),
    ]


def convert(value: JSON, shape: type[T], where: str, source: str) -> T:
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).replace(" | null", "").partition(" - at `$")
        key = ".".join(part for part in (where, path.strip("`.")) if part)
        shown = f"`{key}` in {source}" if key else source
        raise BadSettings(f"{shown}: {problem[:1].lower()}{problem[1:]}") from None


def _check_allowed(entries: Iterable[str], source: str) -> None:
    from wfcore.adapters.outbound.guard import AddressGuard

    try:
        AddressGuard.allowing(entries)
    except ValueError as error:
        raise BadSettings(f"`http_tool.allow` in {source}: {error}") from None


def _telemetry_adapter(name: str, enabled: bool | None) -> Any:
    if enabled is False:
        return None
    from wfcore.adapters import telemetry

    try:
        return getattr(telemetry, name)()
    except ImportError as error:
        if enabled:
            raise BadSettings(f"`telemetry.{name.lower()}`: {error}") from None
        return None


def environment(environ: Mapping[str, str]) -> dict[str, JSON]:
    """The settings in the environment, in the structure of a file."""
    tree: dict[str, Any] = {}
    for variable, text in environ.items():
        if not variable.startswith(PREFIX):
            continue
        key = variable.removeprefix(PREFIX).lower()
        area, _, rest = key.partition("_")
        if area in ("limits", "budgets", "retention"):
            tree.setdefault(area, {})[rest] = _number(text)
        elif area == "shards" and rest:
            tree.setdefault(area, {})[rest] = text
        elif area == "dispatch" and rest:
            tree.setdefault(area, {})[rest] = _number(text) if rest == "replicas" else text
        elif area == "models":
            name, field = _model_field(variable, rest)
            tree.setdefault("models", {}).setdefault(name, {})[field] = text if field in TEXT_FIELDS else _number(text)
        elif area == "oauth":
            claims, table = rest.removeprefix("claims_"), tree.setdefault("oauth", {})
            (table if claims == rest else table.setdefault("claims", {}))[claims] = text
        elif area in ("studio", "telemetry") and rest:
            tree.setdefault(area, {})[rest] = _boolean(text) if rest in ("enabled", "metrics", "traces") else text
        elif area == "server" and rest:
            tree.setdefault("server", {})[rest] = _entries(text) if rest in SERVER_LISTS else _number(text)
        elif key == "tool_calls":
            tree[key] = {tool: calls for tool, _, calls in (entry.partition("=") for entry in _entries(text))}
        elif key in ("http_hosts", "http_tool_allow"):
            table_name, _, field = key.rpartition("_")
            tree[table_name] = {field: _entries(text)}
        elif key in LISTS:
            tree[key] = _entries(text)
        elif key in NUMBERS:
            tree[key] = _number(text)
        elif key in PLAIN:
            tree[key] = text
    return tree


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _model_field(variable: str, rest: str) -> tuple[str, str]:
    """The model and the field of a variable: `fast_api_key` is the `api_key` of `fast`."""
    for field in sorted(ModelSettings.__struct_fields__, key=len, reverse=True):
        name = rest.removesuffix(f"_{field}")
        if name not in (rest, ""):
            return name, field
    raise BadSettings(f"`{variable}` is not a setting of a model")


def _boolean(text: str) -> JSON:
    return {"true": True, "false": False}.get(text.lower(), text)


def _number(text: str) -> JSON:
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def merged(below: Mapping[str, JSON], above: Mapping[str, JSON]) -> dict[str, JSON]:
    """`below`, overridden by `above` table by table."""
    both = dict(below)
    for name, value in above.items():
        base = below.get(name)
        both[name] = merged(base, value) if isinstance(base, dict) and isinstance(value, dict) else value
    return both
