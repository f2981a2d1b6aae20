"""What a run may use, and how its `config` narrows it, never widens it (interface, Resume a run: `config`).

An `Allowance` is what the deployed variation allows. A `config` restricts it: `narrowing_issues` lists what the config
must not request, `narrowed` gives the result. The config of a turn adds to those of earlier turns (`merged`).

These keys narrow: `model`, `modelSettings.contextWindow`, `budget`, `toolset`, `contextSelections`, `connectionSet` and
`connectionSelections` (checked where connections are read), and `guardrails`,
which must name all present guardrails and may add others. `debug` adds events to the stream. These keys have no effect
and are kept verbatim: `experimentalFeatures`, `composerFileOffload`. The other keys are restrictions that this release
does not enforce. They are refused unless they are empty, because a caller would rely on them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Self

import attrs

from wfcore.domain.agents.context_tools import skill_id
from wfcore.domain.json.values import given, to_json
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.json_readers import (
    as_list,
    as_number,
    as_object,
    as_text,
    as_texts,
    optional_number,
    optional_object,
    optional_text,
)
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.content import SkillContent
from wfcore.domain.resources.supervision import subordinates

Config = Mapping[str, JSON]

WINDOW: Final = 32_000
"""The default context window in tokens, if neither skill, node nor run sets one. A run cannot set a larger one."""

UNSUPPORTED: Final = ("strategies",)

SELECTED: Final = ("connectionSet", "connectionSelections")
"""The keys of a config that select connections."""


@attrs.frozen
class Allowance:
    """What a run may use. None means no restriction.

    `context_window`: the most tokens of a call; None means `WINDOW`. `tools`: the ids of enabled tools and of
    subordinates, with whether each call needs an approval. `context_items`: the ids of the items that may be in a
    context. `budget`: the limits of each agent. `connections`: the ids of the selected connections; of other providers
    all can be used.
    """

    models: frozenset[str] | None = None
    context_window: int | None = None
    tools: Mapping[str, bool] | None = None
    context_items: frozenset[str] | None = None
    guardrails: frozenset[str] = frozenset()
    budget: Mapping[str, float] = attrs.field(factory=dict)
    connections: tuple[str, ...] = ()

    @classmethod
    def of_skill(cls, content: SkillContent, guardrails: Iterable[JSON], models: Iterable[str]) -> Self:
        """What a skill's variation allows; an empty `model` allows all configured `models`.

        A subordinate needs no entry in the toolset; an entry can disable it or require an approval.
        """
        selected = content.context_selections
        tools = {one: False for one in map(skill_id, sorted(subordinates(content))) if one not in content.toolset}
        tools |= {name: given(tool.requires_approval) or False for name, tool in content.enabled_tools.items()}
        return cls(
            frozenset([content.model] if content.model else models),
            tools=tools,
            context_items=frozenset(ids_of(selected)) if selected else None,
            guardrails=_names(guardrails),
            budget=_limits({"budget": to_json(content.budget)}),
            connections=selected_connections(content.connection_set),
        )

    @classmethod
    def joined(cls, parts: Iterable["Allowance"], guardrails: Iterable[JSON] = ()) -> Self:
        """The union of the allowances of several agents in one run; each agent is still bound by its own."""
        parts, tools = list(parts), dict[str, bool]()
        items: frozenset[str] | None = frozenset()
        for part in parts:
            items = None if items is None or part.context_items is None else items | part.context_items
            for name, needs_approval in (part.tools or {}).items():
                tools[name] = needs_approval or tools.get(name, False)
        chosen = tuple(dict.fromkeys(one for part in parts for one in part.connections))
        return cls(tools=tools, context_items=items, guardrails=_names(guardrails), connections=chosen)


def ids_of(selections: Iterable[JSON]) -> Iterator[str]:
    """The ids in selections."""
    found = (one.get("id") for one in selections if isinstance(one, dict))
    return (name for name in found if isinstance(name, str))


def selected_connections(selections: Iterable[JSON]) -> tuple[str, ...]:
    """The ids of the connections that selections name."""
    found = (one.get("connectionId") for one in selections if isinstance(one, dict))
    return tuple(name for name in found if isinstance(name, str))


def connections_of(config: Config) -> tuple[str, ...]:
    """The ids of the connections that a config selects."""
    return tuple(one for key in SELECTED for one in selected_connections(_list(config, key)))


def narrowing_issues(config: Config, allowed: Allowance) -> list[Issue]:
    """One issue for each part of a `config` that widens the allowance or that this release does not enforce."""
    return [Issue(f"config.{issue.path}", issue.message, issue.rule) for issue in _issues(config, allowed)]


def late_issues(config: Config, left: Allowance) -> list[Issue]:
    """One issue for each part of a `config` that an agent under way cannot follow, because the texts of its context
    are composed: fewer context items, or a smaller window, than are `left` to it.
    """
    under = narrowed(left, config)
    late = {
        "contextSelections": under.context_items != left.context_items,
        "modelSettings.contextWindow": (under.context_window or WINDOW) < (left.context_window or WINDOW),
    }
    message = "cannot be restricted further while an agent is under way: its context is composed"
    return [Issue(f"config.{name}", message, "unsupported") for name, is_late in late.items() if is_late]


def narrowed(allowed: Allowance, config: Config) -> Allowance:
    """The allowance under a `config`. It is within `allowed` for every config."""
    return Allowance(
        _intersection(allowed.models, frozenset([as_text(config["model"])]) if "model" in config else None),
        _smaller(allowed.context_window, _window(config)),
        _narrowed_tools(allowed.tools, _object(config, "toolset")),
        _intersection(allowed.context_items, _selected(config)),
        allowed.guardrails | frozenset(as_texts(config.get("guardrails") or ())),
        _smaller_limits(allowed.budget, _limits(config)),
    )


def merged(before: Config, config: Config) -> dict[str, JSON]:
    """One config with the same effect as `before` and then `config`."""
    both = {**before, **config}
    if "model" in before:
        both["model"] = before["model"]
    if "contextSelections" in before and "contextSelections" in config:
        kept = frozenset(ids_of(_list(config, "contextSelections")))
        both["contextSelections"] = [
            one for one in _list(before, "contextSelections") if kept.issuperset(ids_of([one]))
        ]
    if "guardrails" in both:
        both["guardrails"] = list(
            dict.fromkeys(name for part in (before, config) for name in as_texts(part.get("guardrails", ())))
        )
    if "toolset" in both:
        both["toolset"] = _merged_toolsets(_object(before, "toolset"), _object(config, "toolset"))
    if (window := _smaller(_window(before), _window(config))) is not None:
        both["modelSettings"] = {"contextWindow": window}
    if "budget" in both:
        both["budget"] = _smaller_limits(_limits(before), _limits(config))
    return both


def guardrails_under(own: Iterable[JSON], config: Config) -> list[JSON]:
    """The guardrails of an agent: its `own` and those that a `config` adds.

    Each is a name, or an object with `name` and options.
    """
    kept = list(own)
    return [*kept, *added_guardrails(config, _names(kept)).values()]


def added_guardrails(config: Config, own: Collection[str]) -> dict[int, str]:
    """The guardrails that a `config` adds, by their index in it."""
    named = as_texts(config.get("guardrails") or ())
    return {index: name for index, name in enumerate(named) if name not in own and name not in named[:index]}


def _issues(config: Config, allowed: Allowance) -> Iterator[Issue]:
    model = optional_text(config.get("model"))
    if model is not None and allowed.models is not None and model not in allowed.models:
        yield Issue("model", f"the model `{_shown(model)}` is not allowed here", "widening")
    window = _window(config)
    widest = WINDOW if allowed.context_window is None else allowed.context_window
    if window is not None and window > widest:
        yield Issue("modelSettings.contextWindow", f"must be at most {widest}", "widening")
    limits = _limits(config)
    for name, most in allowed.budget.items():
        if limits.get(name, 0) > most:
            yield Issue(f"budget.{name}", f"must be at most {most}", "widening")
    for name, tool in _object(config, "toolset").items():
        yield from _tool_issues(name, as_object(tool), allowed.tools)
    yield from _selection_issues(_list(config, "contextSelections"), allowed.context_items)
    yield from _restriction_issues(config, allowed)


def _tool_issues(name: str, tool: Mapping[str, JSON], tools: Mapping[str, bool] | None) -> Iterator[Issue]:
    if tool.get("enabled") is not True or tools is None:
        return
    if name not in tools:
        yield Issue(f"toolset.{name}.enabled", f"the tool `{_shown(name)}` is not enabled here", "widening")
    elif tools[name] and tool.get("requiresApproval") is False:
        yield Issue(f"toolset.{name}.requiresApproval", f"`{_shown(name)}` must keep its approval", "widening")


def _selection_issues(selections: Sequence[JSON], allowed: frozenset[str] | None) -> Iterator[Issue]:
    for index, one in enumerate(selections):
        name = as_object(one).get("id")
        if not isinstance(name, str):
            yield Issue(f"contextSelections[{index}].id", "must be the id of a context item", "id")
        elif allowed is not None and name not in allowed:
            message = f"the context item `{_shown(name)}` is not selected here"
            yield Issue(f"contextSelections[{index}].id", message, "widening")


def _restriction_issues(config: Config, allowed: Allowance) -> Iterator[Issue]:
    for name in UNSUPPORTED:
        if config.get(name):
            yield Issue(name, f"`{name}` is not supported by this release", "unsupported")
    if "guardrails" in config and not allowed.guardrails.issubset(as_texts(config["guardrails"])):
        yield Issue("guardrails", "must contain every guardrail of the deployed variation", "widening")


def _merged_toolsets(before: Mapping[str, JSON], after: Mapping[str, JSON]) -> dict[str, JSON]:
    """For each tool the stricter setting: disabled, or with an approval."""
    return {
        name: _stricter([as_object(tools[name]) for tools in (before, after) if name in tools])
        for name in {**before, **after}
    }


def _stricter(settings: list[Mapping[str, JSON]]) -> dict[str, JSON]:
    approvals = [one["requiresApproval"] for one in settings if "requiresApproval" in one]
    is_on = all(one.get("enabled") is True for one in settings)
    return {"enabled": is_on, **({"requiresApproval": any(approvals)} if approvals else {})}


def _narrowed_tools(tools: Mapping[str, bool] | None, toolset: Mapping[str, JSON]) -> Mapping[str, bool] | None:
    if tools is None:
        return None
    settings = {name: _stricter([as_object(tool)]) for name, tool in toolset.items()}
    return {
        name: needs_approval or bool(settings.get(name, {}).get("requiresApproval"))
        for name, needs_approval in tools.items()
        if settings.get(name, {}).get("enabled", True)
    }


def _window(config: Config) -> int | None:
    window = optional_number(_object(config, "modelSettings").get("contextWindow"))
    return None if window is None else int(window)


def _limits(config: Config) -> dict[str, float]:
    return {name: as_number(most) for name, most in _object(config, "budget").items()}


def _object(config: Config, key: str) -> Mapping[str, JSON]:
    return optional_object(config.get(key)) or {}


def _list(config: Config, key: str) -> Sequence[JSON]:
    return as_list(config.get(key) or ())


def _selected(config: Config) -> frozenset[str] | None:
    return frozenset(ids_of(_list(config, "contextSelections"))) if "contextSelections" in config else None


def _intersection(a: frozenset[str] | None, b: frozenset[str] | None) -> frozenset[str] | None:
    return b if a is None else a if b is None else a & b


def _smaller(a: int | None, b: int | None) -> int | None:
    return min((number for number in (a, b) if number is not None), default=None)


def _smaller_limits(a: Mapping[str, float], b: Mapping[str, float]) -> dict[str, float]:
    return {name: min(limits[name] for limits in (a, b) if name in limits) for name in {**a, **b}}


def _names(guardrails: Iterable[JSON]) -> frozenset[str]:
    named = (one.get("name") if isinstance(one, dict) else one for one in guardrails)
    return frozenset(name for name in named if isinstance(name, str))


def _shown(name: str) -> str:
    return name[:80]
