"""The table `[models.NAME]` of the settings: what it may say, and the provider that it stands for."""

import math
from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from wfcore.domain.agents.prices import Price
from wfcore.ports.providers import ModelProvider

TEXTS: Final = frozenset({"provider", "model", "base_url", "api_key"})
"""Settings of a model that are no numbers."""
OPTIONS: Final = ("base_url", "api_key", "timeout_seconds", "deadline_seconds", "max_retries", "max_output_tokens")
"""Settings of a model that its provider's class takes, in seconds what it calls so."""
MEANINGLESS: Final = {"openai": ("max_output_tokens",), "anthropic": (), "scripted": ("model", *OPTIONS)}
"""What cannot be set for the models of each provider."""

Count = Annotated[int, Meta(ge=1)]
Tries = Annotated[int, Meta(ge=0, le=10)]
Seconds = Annotated[float, Meta(gt=0)]
Amount = Annotated[float, Meta(ge=0, le=1e9)]


class BadSettings(ValueError):
    """A setting cannot be used; the message names its key and where it stands."""


class ModelSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table `[models.NAME]`."""

    provider: str
    model: str | None = None
    base_url: str | None = None
    api_key: str | None = None
    timeout_seconds: Seconds | None = None
    deadline_seconds: Seconds | None = None
    max_retries: Tries | None = None
    max_output_tokens: Count | None = None
    input_price: Amount | None = None
    output_price: Amount | None = None

    def __repr__(self) -> str:
        return f"ModelSettings(provider={self.provider!r}, model={self.model!r})"

    def price(self) -> Price | None:
        """None when nothing is said of it; a half that is not said costs nothing."""
        halves = self.input_price, self.output_price
        return None if halves == (None, None) else Price(halves[0] or 0.0, halves[1] or 0.0)


def check_model(where: str, model: ModelSettings, source: str) -> None:
    """Raise BadSettings for what a model of this provider cannot have, and for what it lacks."""
    if (provider := model.provider) not in MEANINGLESS:
        known = "`openai`, `anthropic` nor `scripted`"
        raise BadSettings(f"`{where}.provider` in {source}: `{provider}` is neither {known}")
    for name in MEANINGLESS[provider]:
        if getattr(model, name) is not None:
            raise BadSettings(f"`{where}.{name}` in {source}: means nothing to provider `{provider}`")
    if provider != "scripted" and not model.model:
        raise BadSettings(f"`{where}.model` in {source}: is required by provider `{provider}`")
    if any(price is not None and math.isnan(price) for price in (model.input_price, model.output_price)):
        raise BadSettings(f"`{where}` in {source}: a price is a number")


def provider_of(where: str, model: ModelSettings) -> ModelProvider:
    """The provider. Raises BadSettings when it lacks its key, or an extra that has to be installed."""
    if model.provider == "scripted":
        from wfcore.adapters.models.scripted import ScriptedModel

        return ScriptedModel()
    given = {name: value for name in OPTIONS if (value := getattr(model, name)) is not None}
    options: dict[str, Any] = {name.removesuffix("_seconds"): value for name, value in given.items()}
    try:
        return _class_of(model.provider)(str(model.model), **options)
    except (ImportError, ValueError) as error:
        raise BadSettings(f"`{where}`: {error}") from None


def _class_of(provider: str) -> Callable[..., ModelProvider]:
    """The adapter's class. Raises MissingExtra when its SDK is not installed."""
    if provider == "anthropic":
        from wfcore.adapters.models.anthropic import AnthropicModel

        return AnthropicModel
    from wfcore.adapters.models.openai import OpenAIModel

    return OpenAIModel
