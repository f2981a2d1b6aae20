"""Settings: a TOML file, overridden by the environment, and one clear error for an invalid setting."""

import asyncio
import base64
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.pretty import pretty_repr

from wfcore.adapters.http import Studio
from wfcore.adapters.models.anthropic import AnthropicModel
from wfcore.adapters.models.openai import OpenAIModel
from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.adapters.system import SystemClock
from wfcore.domain.agents.attachments import AttachmentLimits
from wfcore.domain.agents.budgets import Budget
from wfcore.domain.graph.limits import GraphLimits
from wfcore.domain.projections.cost import Price
from wfcore.runtime.common.installation import Dispatch, Settings
from wfcore.settings.installation import BadSettings, DatabaseSettings, decode_key, load

KEY = base64.urlsafe_b64encode(bytes(range(224, 256))).decode()
FULL = f"""
database = "sqlite:///app.db"
secret_key = "{KEY}"
default_model = "fast"
port = 9000
[models.fast]
provider = "openai"
model = "m-1"
base_url = "http://127.0.0.1:1/v1"
api_key = "canary"
[models.none]
provider = "scripted"
[limits]
max_node_visits = 7
max_run_seconds = 8
max_request_bytes = 9
max_concurrent_runs = 10
max_nodes = 11
max_edges = 12
[http_tool]
allow = ["127.0.0.1:9000", "10.0.0.0/8"]
[oauth]
issuer = "https://issuer.example/realm"
audience = "https://api.example"
[oauth.claims]
groups = "teams"
"""


def test_budgets(toml: Path) -> None:
    """Budgets of a user or an organization, per day or month, in the file and in the environment."""
    toml.write_text("[budgets]\nuser_tokens_per_day = 5\nuser_cost_per_day = 0.5\n")
    found = load(str(toml), {"WFCORE_BUDGETS_ORGANIZATION_COST_PER_MONTH": "7"}).settings()
    assert found.budgets == (Budget("user", "day", 5, 0.5), Budget("organization", "month", None, 7.0))
    assert load(None, {}).settings().budgets == ()
    for key, value in (("user_tokens_per_day", "0"), ("user_cost_per_day", "-1"), ("skill_tokens_per_day", "5")):
        toml.write_text(f"[budgets]\n{key} = {value}\n")
        with pytest.raises(BadSettings, match="budgets"):
            load(str(toml), {})


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    return tmp_path / "wfcore.toml"


def test_the_database_as_a_table(toml: Path) -> None:
    """With its schema; the URL can come from the environment, and the keys are checked."""
    toml.write_text('[database]\nurl = "postgresql://h/n"\nschema = "flows"\n')
    found = load(str(toml), {})
    assert (found.database, found.schema) == ("postgresql://h/n", "flows")
    found = load(str(toml), {"WFCORE_DATABASE": "postgresql://other/n"})
    assert (found.database, found.schema) == ("postgresql://other/n", "flows")
    toml.write_text('[database]\nurl = "sqlite://"\n')
    assert (load(str(toml), {}).database, load(str(toml), {}).schema) == ("sqlite://", None)
    toml.write_text('[database]\nurl = "sqlite://"\nbusy_seconds = 2\n')
    assert load(str(toml), {}).settings().busy_seconds == 2
    assert load(str(toml), {"WFCORE_BUSY_SECONDS": "0.5"}).settings().busy_seconds == 0.5
    with pytest.raises(BadSettings, match="busy_seconds"):
        load(str(toml), {"WFCORE_BUSY_SECONDS": "0"})
    toml.write_text("[database]\nscheme = 1\n")
    with pytest.raises(BadSettings, match=r"`database` in .*unknown field `scheme`"):
        load(str(toml), {})
    toml.write_text("[database]\nschema = 1\n")
    with pytest.raises(BadSettings, match=r"`database\.schema` in"):
        load(str(toml), {})


def test_models_have_prices(toml: Path) -> None:
    """Prices are per million tokens; one that is left out is 0, and a model without both has no price."""
    toml.write_text(
        '[models.fast]\nprovider = "scripted"\ninput_price = 1\noutput_price = 2.5\n'
        '[models.half]\nprovider = "scripted"\n[models.none]\nprovider = "scripted"\n'
    )
    found = load(str(toml), {"WFCORE_MODELS_HALF_OUTPUT_PRICE": "0.5"}).settings()
    assert found.prices == {"fast": Price(1.0, 2.5), "half": Price(0.0, 0.5)}
    for text in ("-1", "many", "nan", "inf"):
        with pytest.raises(BadSettings, match=r"models\.half"):
            load(str(toml), {"WFCORE_MODELS_HALF_INPUT_PRICE": text})


@pytest.mark.parametrize("variable", ["BUSY_SECONDS", "LIMITS_MAX_RUN_SECONDS", "SERVER_KEEP_ALIVE_SECONDS"])
@pytest.mark.parametrize("text", ["inf", "1e300", "nan"])
def test_durations_are_finite(variable: str, text: str) -> None:
    """Nothing that is computed from one overflows."""
    with pytest.raises(BadSettings, match="seconds"):
        load(None, {f"WFCORE_{variable}": text})


def test_every_key_of_a_file_has_its_effect(toml: Path) -> None:
    """Limits and default model reach the runtime's settings, models become providers, the key becomes bytes."""
    toml.write_text(FULL)
    found = load(str(toml), {})
    settings = found.settings()
    assert (settings.limits.max_node_visits, settings.limits.max_run_seconds) == (7, 8.0)
    assert (settings.max_request_bytes, settings.max_concurrent_runs, settings.default_model) == (9, 10, "fast")
    assert settings.graph == GraphLimits(11, 12)
    models = found.providers()
    assert models is not None
    assert isinstance(models["fast"], OpenAIModel)
    assert isinstance(models["none"], ScriptedModel)
    assert found.secret() == bytes(range(224, 256))
    assert settings.http_allow == ("127.0.0.1:9000", "10.0.0.0/8")
    oauth = found.token_verifier(SystemClock())
    assert oauth is not None
    assert (oauth.issuer, oauth.audience) == ("https://issuer.example/realm", "https://api.example")
    assert found.database == "sqlite:///app.db"
    assert found.options == {"port": 9000}


def test_the_table_of_the_dispatch(toml: Path) -> None:
    """The engine with its servers, in the file and in the environment; by default the database."""
    assert load(None, {}).settings().dispatch == Dispatch()
    toml.write_text("[dispatch]\nengine = 'nats'\nurl = 'nats://ann:canary@a:4222,tls://b:4222'\nreplicas = 3\n")
    found = load(str(toml), {"WFCORE_DISPATCH_NAME": "two", "WFCORE_DISPATCH_REPLICAS": "5"})
    urls = ("nats://ann:canary@a:4222", "tls://b:4222")
    assert found.settings().dispatch == Dispatch("nats", urls, "two", 5)
    assert "canary" not in repr(found) + repr(found.settings())
    toml.write_text("[dispatch]\nengine = 'temporal'\nurl = 'temporal:7233'\nnamespace = 'team'\n")
    found = load(str(toml), {"WFCORE_DISPATCH_CREDENTIALS": "key"})
    assert found.settings().dispatch == Dispatch("temporal", ("temporal:7233",), credentials="key", namespace="team")


def test_the_backend_of_rates(toml: Path) -> None:
    """A word or the URL of a server, in the file and in the environment, and not shown."""
    assert load(None, {}).settings().limits_backend == "memory"
    toml.write_text("[limits]\nbackend = 'database'\n")
    assert load(str(toml), {}).settings().limits_backend == "database"
    found = load(str(toml), {"WFCORE_LIMITS_BACKEND": "valkeys://ann:canary@a:6379/0"})
    assert found.settings().limits_backend == "valkeys://ann:canary@a:6379/0"
    assert "canary" not in repr(found) + repr(found.settings())


def test_the_rates_of_tools(toml: Path) -> None:
    """By the id of the tool, in the file and in the environment, which replaces single ones."""
    toml.write_text('[tool_calls]\n"core.http" = "600/minute"\nlook = "1/day"\n')
    assert load(str(toml), {}).settings().tool_calls == {"core.http": "600/minute", "look": "1/day"}
    found = load(str(toml), {"WFCORE_TOOL_CALLS": "look=2/second, send=3/hour"})
    assert found.settings().tool_calls == {"core.http": "600/minute", "look": "2/second", "send": "3/hour"}
    for text in ("look", "look=", "look=5/week"):
        with pytest.raises(BadSettings, match=r"tool_calls"):
            load(None, {"WFCORE_TOOL_CALLS": text})


def test_the_table_of_the_shards(toml: Path) -> None:
    """Names and URLs; the environment adds shards, and replaces their URLs."""
    toml.write_text('[shards]\neast = "postgresql://east/w"\nwest = "postgresql://west/w"\n')
    environ = {"WFCORE_SHARDS_WEST": "postgresql://far/w", "WFCORE_SHARDS_NORTH_1": "postgresql://north/w"}
    shards = {"east": "postgresql://east/w", "west": "postgresql://far/w", "north_1": "postgresql://north/w"}
    found = load(str(toml), environ).settings()
    assert found.shards == shards
    assert "north" not in repr(found)


@pytest.mark.parametrize("text", ['main = "postgresql://h/w"', 'East = "postgresql://h/w"', 'east = "sqlite:///w.db"'])
def test_an_invalid_shard_is_refused_by_name(toml: Path, text: str) -> None:
    toml.write_text(f"[shards]\n{text}\n")
    with pytest.raises(BadSettings, match=r"`shards\.\w+` in .*toml: is not a valid (name|URL): use "):
        load(str(toml), {})


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("engine = 'rabbit'", "dispatch.engine"),
        ("engine = 'nats'", "dispatch.url"),
        ("url = 'nats://a:4222'", "dispatch"),
        ("engine = 'nats'\nurl = 'a:4222'", "dispatch.url"),
        ("engine = 'nats'\nurl = 'nats://a:4222,nats://ann:canary@b:x'", "dispatch.url"),
        ("engine = 'nats'\nurl = 'nats://a:99999'", "dispatch.url"),
        ("engine = 'nats'\nurl = 'nats://a'\nname = 'a.b'", "dispatch.name"),
        ("engine = 'nats'\nurl = 'nats://a'\nreplicas = 0", "dispatch.replicas"),
        ("engine = 'nats'\nurl = 'nats://a'\ntls_key = 'key.pem'", "dispatch.tls_key"),
        ("engine = 'nats'\nurl = 'nats://a'\nnamespace = 'team'", "dispatch.namespace"),
        ("engine = 'temporal'", "dispatch.url"),
        ("engine = 'temporal'\nurl = 'nats://a:4222'", "dispatch.url"),
        ("engine = 'temporal'\nurl = 'a:7233,b:7233'", "dispatch.url"),
        ("engine = 'temporal'\nurl = 'a:7233'\nreplicas = 3", "dispatch.replicas"),
    ],
)
def test_an_invalid_key_of_the_dispatch_is_refused_by_name(toml: Path, text: str, named: str) -> None:
    toml.write_text(f"[dispatch]\n{text}\n")
    with pytest.raises(BadSettings, match=named):
        load(str(toml), {})


@pytest.mark.parametrize("given", [("nats", []), ("database", ["nats://a"])])
def test_an_engine_and_its_servers_belong_together(given: tuple[Literal["database", "nats"], list[str]]) -> None:
    with pytest.raises(ValueError, match="exactly if"):
        Dispatch(*given)


def test_temporal_has_one_address() -> None:
    with pytest.raises(ValueError, match="exactly one address"):
        Dispatch("temporal", ["a:7233", "b:7233"])


def test_every_setting_has_a_default() -> None:
    """Without settings there are the runtime's defaults and no model."""
    found = load(None, {})
    assert found.settings() == Settings()
    assert found.providers() is None
    assert found.secret() is None


def test_the_environment_overrides_the_file_key_by_key(toml: Path) -> None:
    """A variable replaces the one key that it names; other keys of the file stay, also in its tables."""
    toml.write_text(FULL)
    found = load(
        None,
        {
            "WFCORE_CONFIG": str(toml),
            "WFCORE_DATABASE": "sqlite://",
            "WFCORE_LIMITS_MAX_NODE_VISITS": "70",
            "WFCORE_LIMITS_MAX_RUN_SECONDS": "0.5",
            "WFCORE_MODELS_FAST_MODEL": "m-2",
            "WFCORE_MODELS_MY_OWN_PROVIDER": "scripted",
            "WFCORE_DEFAULT_MODEL": "my_own",
            "WFCORE_HTTP_TOOL_ALLOW": "[::1]:9000, 10.1.0.0/16",
            "WFCORE_HTTP_HOSTS": "flows.example.org, 10.0.0.7",
            "UNRELATED": "x",
        },
    )
    assert found.database == "sqlite://"
    assert (found.limits.max_node_visits, found.limits.max_run_seconds, found.limits.max_request_bytes) == (70, 0.5, 9)
    assert found.http_tool.allow == ["[::1]:9000", "10.1.0.0/16"]
    assert found.settings().hosts == ("flows.example.org", "10.0.0.7")
    assert (found.models["fast"].model, found.models["fast"].api_key) == ("m-2", "canary")
    assert set(found.models) == {"fast", "none", "my_own"}
    assert found.settings().default_model == "my_own"


def test_attachments(toml: Path) -> None:
    """Their limits and their directory, in the file and in the environment; the database has a default directory."""
    inside, above = toml.parent / "a", toml.parent / "b"
    toml.write_text(f'blobs = "{inside}"\n[limits]\nmax_attachment_bytes = 11\nmax_attachments = 12\n')
    found = load(str(toml), {})
    assert found.settings().attachments == AttachmentLimits(12, 11)
    for configured, place in ((found, inside), (load(str(toml), {"WFCORE_BLOBS": str(above)}), above)):
        blobs = configured.blob_store()
        assert blobs
        asyncio.run(blobs.put("o", "key", b"x"))
        assert [file.name for file in place.rglob("key")] == ["key"]
    assert load(None, {}).blob_store() is None
    with pytest.raises(BadSettings, match="blobs"):
        load(None, {"WFCORE_BLOBS": ""})


def test_the_only_model_is_the_default_one() -> None:
    """A single model is the default; of several, the one named `default`."""
    assert load(None, {"WFCORE_MODELS_FAST_PROVIDER": "scripted"}).settings().default_model == "fast"
    two = {"WFCORE_MODELS_FAST_PROVIDER": "scripted", "WFCORE_MODELS_DEFAULT_PROVIDER": "scripted"}
    assert load(None, two).settings().default_model == "default"


@pytest.mark.parametrize(
    ("text", "named", "why"),
    [
        ("database = 1", "`database` in ", "expected `str`"),
        ("[limits]\nmax_node_visits = 'x'", "`limits.max_node_visits`", "expected `int`"),
        ("[limits]\nmax_node_visits = true", "`limits.max_node_visits`", "expected `int`"),
        ("[limits]\nmax_node_visits = 0", "`limits.max_node_visits`", ">= 1"),
        ("[limits]\nmax_run_seconds = 0", "`limits.max_run_seconds`", "> 0"),
        ("[limits]\nmax_visits = 1", "`limits`", "unknown field `max_visits`"),
        ("limits = 1", "`limits`", "expected `object`"),
        ("models = 1", "`models`", "expected `object`"),
        ("[models]\nx = 1", "`models", "expected `object`"),
        ("[models.x]\nmodel = 'm'", "`models.x`", "missing required field `provider`"),
        ("[models.x]\nprovider = 'scripted'\nmodel = 'm'", "`models.x.model`", "is not supported by provider"),
        ("[models.x]\nprovider = 'scripted'\napi_kye = 'm'", "`models.x`", "unknown field `api_kye`"),
        ("[models.x]\nprovider = 'openai'", "`models.x.model`", "required"),
        ("[models.x]\nprovider = 'anthropic'", "`models.x.model`", "is required by provider `anthropic`"),
        ("[models.x]\nprovider = 'other'\nmodel = 'm'", "`models.x.provider`", "use `openai`, `anthropic` or"),
        (
            "[models.x]\nprovider = 'openai'\nmodel = 'm'\nmax_output_tokens = 5",
            "max_output_tokens",
            "is not supported",
        ),
        (
            "[models.x]\nprovider = 'openai'\nmodel = 'm'\nbase_url = 'http://h:x/v1'",
            "`models.x.base_url`",
            "not valid",
        ),
        (
            "[models.x]\nprovider = 'openai'\nmodel = 'm'\nbase_url = 'http://[::1/v1'",
            "`models.x.base_url`",
            "not valid",
        ),
        ("[models.x]\nprovider = 'openai'\nmodel = 'm'\ndeadline_seconds = 0", "deadline_seconds", "`float` > 0"),
        ("[models.x]\nprovider = 'openai'\nmodel = 'm'\nmax_retries = 11", "max_retries", "`int` <= 10"),
        ("[limits]\nrequests_per_minute = 0", "`limits.requests_per_minute`", ">= 1"),
        ("[limits]\nbackend = 'redis'", "`limits.backend`", "memory|database"),
        ("[limits]\nbackend = 'redis://ann:canary@h:x/0'", "`limits.backend`", "the address of a server"),
        ("[limits]\nbackend = 'valkey://ann:canary@:6379'", "`limits.backend`", "the address of a server"),
        ("[limits]\norganization_requests_per_minute = 'x'", "`limits.organization_requests", "expected `int`"),
        ("[telemetry]\nmetrics = 1", "`telemetry.metrics`", "expected `bool`"),
        ("[telemetry]\nmetrics_token = ''", "`telemetry.metrics_token`", "matching regex"),
        ("[telemetry]\nmetrics = false\nmetrics_token = 't'", "`telemetry.metrics_token`", "requires metrics"),
        ("[telemetry]\nspans = true", "`telemetry`", "unknown field `spans`"),
        ("[oauth]\nissuer = 'https://i'", "`oauth`", "missing required field `audience`"),
        ("[oauth]\nissuer = 'x'\naudience = 'a'", "`oauth.issuer`", "matching regex"),
        ("[oauth]\nissuer = 'https://i?x'\naudience = 'a'", "`oauth.issuer`", "matching regex"),
        ("[oauth]\nissuer = 'https://i'\naudience = ''", "`oauth.audience`", "length >= 1"),
        ("[oauth]\nissuer = 'https://i'\naudience = 'a'\nkey = 'x'", "`oauth`", "unknown field `key`"),
        ("[oauth]\nissuer = 'https://i'\naudience = 'a'\nclaims = {role = 'r'}", "`oauth.claims`", "unknown field"),
        ("[http]\nhosts = 'x'", "`http.hosts`", "expected `array`"),
        ("[http]\nhosts = ['A.example']", "`http.hosts", "matching regex"),
        ("[http]\nhosts = ['a.example:443']", "`http.hosts", "matching regex"),
        ("[http]\nports = [443]", "`http`", "unknown field `ports`"),
        ("[http_tool]\nallow = 'x'", "`http_tool.allow`", "expected `array`"),
        ("[http_tool]\nallow = ['x:1']", "`http_tool.allow`", "`x:1` is not an address or network"),
        ("[http_tool]\nopen = true", "`http_tool`", "unknown field `open`"),
        ("http_tool = 1", "`http_tool`", "expected `object`"),
        ("default_model = 'x'", "`default_model`", "unknown model `x`"),
        ("secret_key = 'c2hvcnQ'", "`secret_key`", "32 bytes in base64url"),
        ("a = [", "wfcore.toml", "is not TOML"),
    ],
)
def test_an_invalid_setting_is_refused_by_name(toml: Path, text: str, named: str, why: str) -> None:
    """An unknown key, a wrong type or a value out of range: one error that names the setting."""
    toml.write_text(text)
    with pytest.raises(BadSettings) as refused:
        load(str(toml), {})
    assert named in str(refused.value)
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("variable", "value", "named"),
    [
        ("WFCORE_LIMITS_MAX_NODE_VISITS", "many", "limits.max_node_visits"),
        ("WFCORE_LIMITS_NONSENSE", "1", "nonsense"),
        ("WFCORE_HTTP_TOOL_ALLOW", "localhost:9000", "http_tool.allow"),
        ("WFCORE_MODELS_FAST", "1", "WFCORE_MODELS_FAST"),
        ("WFCORE_MODELS_PROVIDER", "scripted", "WFCORE_MODELS_PROVIDER"),
        ("WFCORE_CONFIG", "missing.toml", "missing.toml"),
    ],
)
def test_the_environment_is_checked_as_well(variable: str, value: str, named: str) -> None:
    """A `WFCORE_` variable that is unknown or not valid is refused by name."""
    with pytest.raises(BadSettings, match=named):
        load(None, {variable: value})


def test_a_model_without_an_api_key_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenAI's own address needs a key: the error names the model without one."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    found = load(None, {"WFCORE_MODELS_FAST_PROVIDER": "openai", "WFCORE_MODELS_FAST_MODEL": "m"})
    with pytest.raises(BadSettings, match=r"`models\.fast`: .*api_key"):
        found.providers()


def test_a_model_gets_the_options_that_are_set() -> None:
    """The provider's class gets exactly the options of the file and the environment."""
    variables = {"PROVIDER": "anthropic", "MODEL": "m", "API_KEY": "canary", "DEADLINE_SECONDS": "9.5"}
    variables |= {"MAX_RETRIES": "0", "MAX_OUTPUT_TOKENS": "77", "TIMEOUT_SECONDS": "3"}
    found = load(None, {f"WFCORE_MODELS_FAST_{name}": value for name, value in variables.items()}).providers() or {}
    made = found["fast"]
    assert isinstance(made, AnthropicModel)
    assert (made._deadline, made._max_retries, made._max_output_tokens) == (9.5, 0, 77)
    assert made._client.timeout == 3
    variables = {"PROVIDER": "openai", "MODEL": "m", "API_KEY": "canary"}
    found = load(None, {f"WFCORE_MODELS_FAST_{name}": value for name, value in variables.items()}).providers() or {}
    other = found["fast"]
    assert isinstance(other, OpenAIModel)
    assert (other._deadline, other._max_retries) == (600, 2)


def test_secrets_do_not_print(toml: Path) -> None:
    """Neither the settings' representation nor the error about a bad secret key shows a key."""
    toml.write_text(FULL)
    assert "canary" not in repr(load(str(toml), {}).models)
    with pytest.raises(BadSettings) as refused:
        decode_key("canary!", "secret_key")
    assert "canary" not in str(refused.value)


def test_no_representation_has_a_secret(toml: Path) -> None:
    """That of all settings, for a log or a report of an error: also with rich, which asks each struct by itself."""
    tables = {"LIMITS_BACKEND": "valkeys://:canary@a", "DISPATCH_URL": "nats://:canary@a", "DISPATCH_ENGINE": "nats"}
    tables |= {"TELEMETRY_METRICS": "true", "TELEMETRY_METRICS_TOKEN": "canary" * 4, "PREVIOUS_SECRET_KEYS": KEY}
    environ = {f"WFCORE_{name}": value for name, value in tables.items()}
    toml.write_text('token = "canary"' + FULL.replace("sqlite:///app.db", "postgresql://ann:canary@a/b"))
    found = load(str(toml), environ)
    for shown in (repr(found), pretty_repr(found), repr(DatabaseSettings("postgresql://ann:canary@a/b"))):
        assert "canary" not in shown
        assert KEY not in shown
    assert "default_model='fast'" in repr(found)


@given(st.binary(max_size=40))
def test_only_32_bytes_make_a_key(key: bytes) -> None:
    """base64url of 32 bytes, padded or not, is the key; of any other length it is refused."""
    padded = base64.urlsafe_b64encode(key).decode()
    for text in (padded, padded.rstrip("=")):
        if len(key) == 32:
            assert decode_key(text, "secret_key") == key
        else:
            with pytest.raises(BadSettings):
                decode_key(text, "secret_key")


def test_previous_keys_are_a_list() -> None:
    """In the environment they are separated by commas; an invalid key is refused and not shown."""
    assert load(environ={}).previous_secrets() == []
    keys = {"WFCORE_PREVIOUS_SECRET_KEYS": f"{'A' * 43}, {'_' * 42}8"}
    assert load(environ=keys).previous_secrets() == [bytes(32), b"\xff" * 32]
    with pytest.raises(BadSettings, match="previous_secret_keys") as caught:
        load(environ={"WFCORE_PREVIOUS_SECRET_KEYS": "canary"})
    assert "canary" not in str(caught.value)


def test_the_table_of_the_server(toml: Path) -> None:
    """File, environment and options; an option overrides, and the names of the server are those of its MCP servers."""
    toml.write_text('[server]\nheader_seconds = 3\nallowed_hosts = ["flows.example.org"]\ntrusted_proxies = ["::1"]\n')
    environ = {"WFCORE_SERVER_TRUSTED_PROXIES": "10.0.0.0/8, 127.0.0.1", "WFCORE_SERVER_MAX_CONNECTIONS": "7"}
    found = load(str(toml), environ)
    url = "https://a.example/x%20y/"
    server = found.server.overridden({"header_seconds": 4.0, "public_url": url, "allowed_hosts": []})
    assert server.trusted_proxies == ["10.0.0.0/8", "127.0.0.1"]
    limits = server.limits()
    assert (limits.keep_alive_seconds, limits.header_seconds, limits.max_connections) == (75, 4, 7)
    assert server.names() == {
        "allowed_hosts": ["flows.example.org"], "browser_origins": [], "public_url": url,
        "mount": "/x y/", "failed_authentications_per_minute": 300,
    }  # fmt: skip
    assert found.settings().hosts == ("flows.example.org",)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("trusted_proxies", '["proxy.example"]'),
        ("allowed_hosts", '["flows.example.org:80"]'),
        ("browser_origins", '["*"]'),
        ("public_url", '"flows.example.org"'),
        ("keep_alive_seconds", "0"),
        ("max_connections", "0"),
        ("failed_authentications_per_minute", "-1"),
        ("no_such_key", "1"),
    ],
)
def test_an_invalid_key_of_the_server_is_refused_by_name(toml: Path, key: str, value: str) -> None:
    """The message names the key."""
    toml.write_text(f"[server]\n{key} = {value}\n")
    with pytest.raises(BadSettings, match=key if key != "no_such_key" else "server"):
        load(str(toml), {})


def test_an_invalid_option_of_the_server_is_refused_by_name() -> None:
    """An option is checked as the key of the file is."""
    with pytest.raises(BadSettings, match=r"server\.trusted_proxies"):
        load(None, {}).server.overridden({"trusted_proxies": ["proxy.example"]})
    with pytest.raises(BadSettings, match=r"server\.header_seconds"):
        load(None, {}).server.overridden({"header_seconds": -1.0})


def test_the_table_of_the_studio(toml: Path) -> None:
    """Its keys are the options of `wfcore.http.Studio`; `enabled = false` leaves the studio out."""
    toml.write_text('[studio]\ntitle = "Acme"\ntheme = { "--wf-color-accent" = "#0a7a5c" }\n')
    found = load(str(toml), {"WFCORE_STUDIO_LOCALE": "de"}).studio.studio()
    assert found == Studio(title="Acme", theme={"--wf-color-accent": "#0a7a5c"}, locale="de")
    assert load(environ={}).studio.studio() == Studio()
    toml.write_text("""[studio]
        prefix = "acme"
        labels = { "nav.runs" = "Jobs", fr = { "nav.inbox" = "Boîte" } }
        links = [{ text = "Back", url = "/" }]""")
    found = load(str(toml), {}).studio.studio()
    labels = {"nav.runs": "Jobs", "fr": {"nav.inbox": "Boîte"}}
    assert found == Studio(prefix="acme", labels=labels, links=(("Back", "/"),))
    with pytest.raises(BadSettings, match=r"studio\.prefix"):
        load(None, {"WFCORE_STUDIO_PREFIX": "Acme-"})
    assert load(str(toml), {"WFCORE_STUDIO_ENABLED": "false"}).studio.studio() is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("enabled", '"perhaps"'),
        ("title", '""'),
        ("locale", '"fr"'),
        ("theme", '{ color = "red" }'),
        ("no_such_key", "1"),
    ],
)
def test_an_invalid_key_of_the_studio_is_refused_by_name(toml: Path, key: str, value: str) -> None:
    """The message names the key."""
    toml.write_text(f"[studio]\n{key} = {value}\n")
    with pytest.raises(BadSettings, match=key if key != "no_such_key" else "studio"):
        load(str(toml), {})
