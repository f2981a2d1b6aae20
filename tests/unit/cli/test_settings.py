"""Settings: a TOML file, the environment over it, and one clear error for whatever cannot be used."""

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfcore.adapters.models.openai import OpenAIModel
from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.adapters.system import SystemClock
from wfcore.runtime.context import Settings
from wfcore.settings import BadSettings, decode_key, load

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
[http_tool]
allow = ["127.0.0.1:9000", "10.0.0.0/8"]
[oauth]
issuer = "https://issuer.example/realm"
audience = "https://api.example"
[oauth.claims]
groups = "teams"
"""


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    return tmp_path / "wfcore.toml"


def test_every_key_of_a_file_has_its_effect(toml: Path) -> None:
    """Limits and default model reach the runtime's settings, models become providers, the key its bytes."""
    toml.write_text(FULL)
    found = load(str(toml), {})
    settings = found.settings()
    assert (settings.limits.max_node_visits, settings.limits.max_run_seconds) == (7, 8.0)
    assert (settings.max_request_bytes, settings.max_concurrent_runs, settings.default_model) == (9, 10, "fast")
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


def test_without_settings_everything_has_its_default() -> None:
    """Nothing configured is the runtime's own defaults, and no model."""
    found = load(None, {})
    assert found.settings() == Settings()
    assert found.providers() is None
    assert found.secret() is None


def test_the_environment_stands_over_the_file_key_by_key(toml: Path) -> None:
    """A variable replaces the one key it names; the file's other keys stay, in its tables too."""
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
            "UNRELATED": "x",
        },
    )
    assert found.database == "sqlite://"
    assert (found.limits.max_node_visits, found.limits.max_run_seconds, found.limits.max_request_bytes) == (70, 0.5, 9)
    assert found.http_tool.allow == ["[::1]:9000", "10.1.0.0/16"]
    assert (found.models["fast"].model, found.models["fast"].api_key) == ("m-2", "canary")
    assert set(found.models) == {"fast", "none", "my_own"}
    assert found.settings().default_model == "my_own"


def test_the_only_model_is_the_default_one() -> None:
    """With one model there is nothing to choose; with several, the one named `default` serves."""
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
        ("[models.x]\nprovider = 'scripted'\nmodel = 'm'", "`models.x.model`", "means nothing"),
        ("[models.x]\nprovider = 'scripted'\napi_kye = 'm'", "`models.x`", "unknown field `api_kye`"),
        ("[models.x]\nprovider = 'openai'", "`models.x.model`", "required"),
        ("[models.x]\nprovider = 'anthropic'\nmodel = 'm'", "`models.x.provider`", "not offered by this release"),
        ("[models.x]\nprovider = 'other'\nmodel = 'm'", "`models.x.provider`", "neither `openai` nor `scripted`"),
        ("[limits]\nrequests_per_minute = 1", "`limits.requests_per_minute`", "not offered by this release"),
        ("[oauth]\nissuer = 'https://i'", "`oauth`", "missing required field `audience`"),
        ("[oauth]\nissuer = 'x'\naudience = 'a'", "`oauth.issuer`", "matching regex"),
        ("[oauth]\nissuer = 'https://i?x'\naudience = 'a'", "`oauth.issuer`", "matching regex"),
        ("[oauth]\nissuer = 'https://i'\naudience = ''", "`oauth.audience`", "length >= 1"),
        ("[oauth]\nissuer = 'https://i'\naudience = 'a'\nkey = 'x'", "`oauth`", "unknown field `key`"),
        ("[oauth]\nissuer = 'https://i'\naudience = 'a'\nclaims = {role = 'r'}", "`oauth.claims`", "unknown field"),
        ("[http_tool]\nallow = 'x'", "`http_tool.allow`", "expected `array`"),
        ("[http_tool]\nallow = ['x:1']", "`http_tool.allow`", "`x:1` is no address or network"),
        ("[http_tool]\nopen = true", "`http_tool`", "unknown field `open`"),
        ("http_tool = 1", "`http_tool`", "expected `object`"),
        ("default_model = 'x'", "`default_model`", "there is no model `x`"),
        ("secret_key = 'c2hvcnQ'", "`secret_key`", "32 bytes in base64url"),
        ("a = [", "wfcore.toml", "is not TOML"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(toml: Path, text: str, named: str, why: str) -> None:
    """An unknown key, a wrong type, a value out of range, or something of a later release: one error that names it."""
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
    """A variable of ours that means nothing, or holds the wrong thing, is refused by name."""
    with pytest.raises(BadSettings, match=named):
        load(None, {variable: value})


def test_a_model_without_its_key_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenAI's own address needs a key: the error says which model lacks it."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    found = load(None, {"WFCORE_MODELS_FAST_PROVIDER": "openai", "WFCORE_MODELS_FAST_MODEL": "m"})
    with pytest.raises(BadSettings, match=r"`models\.fast`: .*api_key"):
        found.providers()


def test_secrets_do_not_print(toml: Path) -> None:
    """A model's key appears in no representation of the settings, nor in the error about a bad secret key."""
    toml.write_text(FULL)
    assert "canary" not in repr(load(str(toml), {}).models)
    with pytest.raises(BadSettings) as refused:
        decode_key("canary!", "secret_key")
    assert "canary" not in str(refused.value)


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
