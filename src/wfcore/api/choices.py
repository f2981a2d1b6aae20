"""The shapes of what an agent can be given, and of the evaluation of expressions."""

from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta

from wfcore.api.resources import Body
from wfcore.domain.json.codec import JsonObject
from wfcore.domain.json.values import UNSET, UnsetType, value


class ModelDto(TypedDict):
    """A model that agents can name. `isDefault`: it serves agents that name none."""

    name: str
    isDefault: bool
    abilities: list[Literal["tools", "images", "outputSchema"]]


class ModelList(TypedDict):
    models: list[ModelDto]


class GuardrailDto(TypedDict):
    """A guardrail. `optionsSchema` is the JSON Schema of its options beside `name`; null without any.

    `everywhere`: it checks every agent, whether the agent names it or not.
    """

    name: str
    description: str
    optionsSchema: Any
    everywhere: bool


class GuardrailList(TypedDict):
    guardrails: list[GuardrailDto]


@value
class EvaluateExpression(Body):
    """A CEL expression (`source`) or JSON with `{{ expressions }}` (`template`), and the values of its variables."""

    source: Annotated[str, Meta(max_length=100_000)] | UnsetType = UNSET
    template: Any = UNSET
    values: Annotated[JsonObject, Meta(description="The variables `input`, `nodes`, `run` and `item`")] | UnsetType = (
        UNSET
    )


class ExpressionErrorDto(TypedDict):
    """`line` and `column` count from 1 in the source or in the template's string; null where they are not known."""

    message: str
    line: int | None
    column: int | None


class Evaluated(TypedDict, total=False):
    """The `value`, or the `error` of an expression that is not valid or fails."""

    value: Any
    error: ExpressionErrorDto
