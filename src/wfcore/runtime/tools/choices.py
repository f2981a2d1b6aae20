"""What a graph can contain: the types of nodes, and the models and guardrails of this installation."""

from collections.abc import Sequence

import attrs

from wfcore.domain.graph.limits import GraphLimits
from wfcore.domain.graph.node_types import NODE_TYPES, NodeDeclaration
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.ports.guardrails import GuardrailDescription
from wfcore.ports.providers import ABILITIES
from wfcore.runtime.common.authorization import needs
from wfcore.runtime.common.ports import Ports


@attrs.frozen
class ModelView:
    """A model that an agent can name. `is_default`: it serves agents that name none."""

    name: str
    is_default: bool
    abilities: Sequence[str]

    def to_wire(self) -> dict[str, JSON]:
        return {"name": self.name, "isDefault": self.is_default, "abilities": list(self.abilities)}


@attrs.frozen
class GuardrailView:
    """A guardrail that an agent or an access configuration can name."""

    described: GuardrailDescription

    def to_wire(self) -> dict[str, JSON]:
        one = self.described
        return {
            "name": one.name,
            "description": one.description,
            "optionsSchema": None if one.options is None else dict(one.options),
            "everywhere": one.everywhere,
        }


class Choices:
    """Lists what a graph and its agents can be given: the same in all organizations, without addresses and prices."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    @needs("workflows:read")
    async def node_types(self, me: Principal) -> list[NodeDeclaration]:
        """The types of nodes, with the JSON Schema of their `data` and their handles."""
        return list(NODE_TYPES.values())

    @property
    def graph_limits(self) -> GraphLimits:
        """The most nodes and edges of a graph."""
        return self._ports.settings.graph

    @needs("workflows:read")
    async def models(self, me: Principal) -> list[ModelView]:
        """The models by name."""
        default = self._ports.settings.default_model
        return [
            ModelView(name, name == default, [one for one in ABILITIES if one in _abilities(provider)])
            for name, provider in sorted(self._ports.models.items())
        ]

    @needs("workflows:read")
    async def guardrails(self, me: Principal) -> list[GuardrailView]:
        """The guardrails by name."""
        return [GuardrailView(one) for one in self._ports.guardrails.described()]


def _abilities(provider: object) -> Sequence[str]:
    """The abilities that the provider declares; all of them when it declares none."""
    declared: Sequence[str] = getattr(provider, "abilities", ABILITIES)
    return declared
