"""The table `[models.NAME]` of the settings: its fields, and the model provider that it configures."""

import math
from collections.abc import Callable
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import attrs
import msgspec
from msgspec import Meta

from wfcore.domain.json.codec import CENTURY
from wfcore.domain.projections.cost import Price
from wfcore.ports.providers import ModelProvider
from wfcore.settings.secret import WithSecrets

TEXT_FIELDS: Final = frozenset({"provider", "model", "base_url", "api_key"})
"""Fields of a model whose values are text; the others are numbers."""
OPTIONS: Final = ("base_url", "api_key", "timeout_seconds", "deadline_seconds", "max_retries", "max_output_tokens")
"""Fields that are keyword arguments of the provider's class, there without `_seconds`."""

Count = Annotated[int, Meta(ge=1)]
Tries = Annotated[int, Meta(ge=0, le=10)]
Seconds = Annotated[float, Meta(gt=0, le=CENTURY)]
Amount = Annotated[float, Meta(ge=0, le=1e9)]
BaseUrl = Annotated[str, Meta(pattern=r"^https?://\S+\Z")]
Url = Annotated[str, Meta(pattern=r"^https?://[^\s/?#@]+(?:/[^\s?#]*)?\Z")]


class BadSettings(ValueError):
    """A setting is not valid; the message names its key and its source."""


def is_address(url: str) -> bool:
    """Whether the host and the port of a URL can be read. Libraries quote one that they cannot, with its password."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


class ModelSettings(WithSecrets, msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table `[models.NAME]`."""

    SECRET = frozenset({"api_key", "base_url"})
    provider: str
    model: str | None = None
    base_url: BaseUrl | None = None
    api_key: str | None = None
    timeout_seconds: Seconds | None = None
    deadline_seconds: Seconds | None = None
    max_retries: Tries | None = None
    max_output_tokens: Count | None = None
    input_price: Amount | None = None
    output_price: Amount | None = None

    def price(self) -> Price | None:
        """The price of tokens; None without a price. One price alone sets the other to 0."""
        prices = self.input_price, self.output_price
        return None if prices == (None, None) else Price(prices[0] or 0.0, prices[1] or 0.0)


@attrs.frozen
class Provider:
    """A value of `provider`. `load` returns its class, which needs a model's name; it raises MissingExtra.

    `unsupported` are the fields that it does not have.
    """

    load: Callable[[], Callable[..., ModelProvider]]
    unsupported: tuple[str, ...] = ()

    @property
    def has_model(self) -> bool:
        return "model" not in self.unsupported


def _openai() -> Callable[..., ModelProvider]:
    from wfcore.adapters.models.openai import OpenAIModel

    return OpenAIModel


def _anthropic() -> Callable[..., ModelProvider]:
    from wfcore.adapters.models.anthropic import AnthropicModel

    return AnthropicModel


def _scripted() -> Callable[..., ModelProvider]:
    from wfcore.adapters.models.scripted import ScriptedModel

    return ScriptedModel


PROVIDERS: Final = {
    "openai": Provider(_openai, ("max_output_tokens",)),
    "anthropic": Provider(_anthropic),
    "scripted": Provider(_scripted, ("model", *OPTIONS)),
}


def check_model(where: str, model: ModelSettings, source: str) -> None:
    """Raise BadSettings for an unsupported or missing field, and for an unknown provider."""
    if (provider := PROVIDERS.get(model.provider)) is None:
        *names, last = (f"`{name}`" for name in PROVIDERS)
        known = f"use {', '.join(names)} or {last}"
        raise BadSettings(f"`{where}.provider` in {source}: unknown provider `{model.provider}`: {known}")
    if model.base_url is not None and not is_address(model.base_url):
        raise BadSettings(f"`{where}.base_url` in {source}: its host or port is not valid")
    for name in provider.unsupported:
        if getattr(model, name) is not None:
            raise BadSettings(f"`{where}.{name}` in {source}: is not supported by provider `{model.provider}`")
    if provider.has_model and not model.model:
        raise BadSettings(f"`{where}.model` in {source}: is required by provider `{model.provider}`")
    if any(price is not None and math.isnan(price) for price in (model.input_price, model.output_price)):
        raise BadSettings(f"`{where}` in {source}: a price must be a number")


def provider_of(where: str, model: ModelSettings) -> ModelProvider:
    """The model provider. Raises BadSettings when its API key or an extra is missing."""
    provider = PROVIDERS[model.provider]
    given = {name: value for name in OPTIONS if (value := getattr(model, name)) is not None}
    options: dict[str, Any] = {name.removesuffix("_seconds"): value for name, value in given.items()}
    try:
        return provider.load()(*([model.model] if provider.has_model else []), **options)
    except (ImportError, ValueError) as error:
        raise BadSettings(f"`{where}`: {error}") from None
