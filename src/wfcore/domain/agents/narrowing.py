"""What a run may use, and how its `config` narrows that, never widens it (interface, Resume a run: `config`).

An `Allowance` is what the deployed variation allows. A `config` takes away from it: `narrowing_issues` tells what asks
for more, `narrowed` gives what is left. A turn's config comes on top of those of the turns before (`merged`).

What narrows: `model`, `modelSettings.contextWindow`, `budget`, `toolset`, `contextSelections`, and `guardrails`, which
names all that stand already and may add to them. What changes nothing and is carried verbatim: `experimentalFeatures`,
`debug`, `composerFileOffload`. The rest names restrictions that nothing would keep, and a restriction that is not kept
is worse than none: it is refused unless it is empty.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, Self

import attrs

from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.json_type import JSON

Config = Mapping[str, JSON]

WINDOW: Final = 32_000
"""Tokens of the context window where neither skill, node nor run names another. No run asks for more than it has."""

NOT_OFFERED: Final = ("connectionSelections", "connectionSet", "connectionAllModeIds", "strategies")


@attrs.frozen
class Allowance:
    """What a run may use. None stands for everything there is.

    `models`: those it may ask. `context_window`: the most tokens of a call; None
    leaves `WINDOW` to a config. `tools`: the ids of those that are enabled,
    with whether each call needs an approval. `context_items`: the ids of those that may be told. `budget`: what each
    agent may spend.
    """

    models: frozenset[str] | None = None
    context_window: int | None = None
    tools: Mapping[str, bool] | None = None
    context_items: frozenset[str] | None = None
    guardrails: frozenset[str] = frozenset()
    budget: Mapping[str, float] = attrs.field(factory=dict)

    @classmethod
    def of_skill(cls, content: Mapping[str, JSON], guardrails: Iterable[JSON], models: Iterable[str]) -> Self:
        """What a skill's variation allows: an empty `model` leaves the choice among the configured `models`."""
        own = content.get("model")
        selected = content.get("contextSelections") or []
        return cls(
            frozenset([own] if own else models),
            (content.get("modelSettings") or {}).get("contextWindow"),
            {name: bool(tool.get("requiresApproval")) for name, tool in enabled(content.get("toolset") or {})},
            frozenset(ids_of(selected)) if selected else None,
            _names(guardrails),
            content.get("budget") or {},
        )

    @classmethod
    def joined(cls, parts: Iterable["Allowance"], guardrails: Iterable[JSON] = ()) -> Self:
        """What several agents of one run may use, each by itself: something is allowed that one of them may use."""
        tools: dict[str, bool] = {}
        items: frozenset[str] | None = frozenset()
        for part in parts:
            items = None if items is None or part.context_items is None else items | part.context_items
            for name, asks in (part.tools or {}).items():
                tools[name] = asks or tools.get(name, False)
        return cls(tools=tools, context_items=items, guardrails=_names(guardrails))

    def contains(self, other: "Allowance") -> bool:
        """Whether whatever `other` allows is allowed here too."""
        return (
            _within(other.models, self.models)
            and _at_most(other.context_window, self.context_window)
            and _tools_within(other.tools, self.tools)
            and _within(other.context_items, self.context_items)
            and self.guardrails <= other.guardrails
            and all(_at_most(other.budget.get(name), most) for name, most in self.budget.items())
        )


def enabled(toolset: Mapping[str, JSON]) -> Iterator[tuple[str, Mapping[str, JSON]]]:
    """The tools of a toolset that are switched on."""
    return ((name, tool) for name, tool in toolset.items() if tool.get("enabled") is True)


def ids_of(selections: Iterable[JSON]) -> Iterator[str]:
    """The ids that selections name."""
    return (one["id"] for one in selections if isinstance(one, dict) and isinstance(one.get("id"), str))


def narrowing_issues(config: Config, allowed: Allowance) -> list[Issue]:
    """Everything in a `config` that asks for more than is allowed, or for what nothing would keep."""
    return [Issue(f"config.{issue.path}", issue.message, issue.rule) for issue in _issues(config, allowed)]


def narrowed(allowed: Allowance, config: Config) -> Allowance:
    """What is left under a `config`. It is within `allowed`, whatever the config says."""
    return Allowance(
        _both(allowed.models, frozenset([config["model"]]) if "model" in config else None),
        _least(allowed.context_window, _window(config)),
        _kept_tools(allowed.tools, config.get("toolset") or {}),
        _both(allowed.context_items, _selected(config)),
        allowed.guardrails | frozenset(config.get("guardrails") or ()),
        _lesser(allowed.budget, config.get("budget") or {}),
    )


def merged(before: Config, config: Config) -> dict[str, JSON]:
    """One config that narrows as `before` and then `config` do."""
    both = {**before, **config}
    if "model" in before:
        both["model"] = before["model"]
    if "contextSelections" in before and "contextSelections" in config:
        kept = frozenset(ids_of(config["contextSelections"]))
        both["contextSelections"] = [one for one in before["contextSelections"] if kept.issuperset(ids_of([one]))]
    if "guardrails" in both:
        both["guardrails"] = list(dict.fromkeys([*before.get("guardrails", ()), *config.get("guardrails", ())]))
    if "toolset" in both:
        both["toolset"] = _merged_toolsets(before.get("toolset") or {}, config.get("toolset") or {})
    if (window := _least(_window(before), _window(config))) is not None:
        both["modelSettings"] = {"contextWindow": window}
    if "budget" in both:
        both["budget"] = _lesser(before.get("budget") or {}, config.get("budget") or {})
    return both


def guardrails_under(own: Iterable[JSON], config: Config) -> list[JSON]:
    """The guardrails of an agent that has its `own`, under a `config`, which adds some: each a name, or an object with
    the `name` and options.
    """
    mine = list(own)
    return [*mine, *added_guardrails(config, _names(mine)).values()]


def added_guardrails(config: Config, own: Collection[str]) -> dict[int, str]:
    """Those that a `config` adds, by their place in it."""
    named: list[str] = config.get("guardrails") or []
    return {index: name for index, name in enumerate(named) if name not in own and name not in named[:index]}


def _issues(config: Config, allowed: Allowance) -> Iterator[Issue]:
    if "model" in config and allowed.models is not None and config["model"] not in allowed.models:
        yield Issue("model", f"`{_shown(config['model'])}` is not allowed here", "widening")
    window = _window(config)
    widest = WINDOW if allowed.context_window is None else allowed.context_window
    if window is not None and window > widest:
        yield Issue("modelSettings.contextWindow", f"must be at most {widest}", "widening")
    for name, most in allowed.budget.items():
        if (config.get("budget") or {}).get(name, 0) > most:
            yield Issue(f"budget.{name}", f"must be at most {most}", "widening")
    for name, tool in (config.get("toolset") or {}).items():
        yield from _tool_issues(name, tool, allowed.tools)
    yield from _selection_issues(config.get("contextSelections") or [], allowed.context_items)
    yield from _not_kept(config, allowed)


def _tool_issues(name: str, tool: Mapping[str, JSON], tools: Mapping[str, bool] | None) -> Iterator[Issue]:
    if tool.get("enabled") is not True or tools is None:
        return
    if name not in tools:
        yield Issue(f"toolset.{name}.enabled", f"the tool `{_shown(name)}` is not enabled here", "widening")
    elif tools[name] and tool.get("requiresApproval") is False:
        yield Issue(f"toolset.{name}.requiresApproval", f"`{_shown(name)}` is called after approval alone", "widening")


def _selection_issues(selections: list[JSON], allowed: frozenset[str] | None) -> Iterator[Issue]:
    for index, one in enumerate(selections):
        if not isinstance(one.get("id"), str):
            yield Issue(f"contextSelections[{index}].id", "must be the id of a context item", "id")
        elif allowed is not None and one["id"] not in allowed:
            yield Issue(f"contextSelections[{index}].id", f"`{_shown(one['id'])}` is not selected here", "widening")


def _not_kept(config: Config, allowed: Allowance) -> Iterator[Issue]:
    for name in NOT_OFFERED:
        if config.get(name):
            yield Issue(name, f"`{name}` is not offered by this release", "unsupported")
    if "guardrails" in config and not allowed.guardrails.issubset(config["guardrails"]):
        yield Issue("guardrails", "a guardrail cannot be taken away", "widening")


def _merged_toolsets(before: Mapping[str, JSON], after: Mapping[str, JSON]) -> dict[str, JSON]:
    """Of two settings of a tool, the one that switches off or asks for approval counts."""
    return {
        name: _stricter([tools[name] for tools in (before, after) if name in tools]) for name in {**before, **after}
    }


def _stricter(settings: list[Mapping[str, JSON]]) -> dict[str, JSON]:
    asks = [one["requiresApproval"] for one in settings if "requiresApproval" in one]
    is_on = all(one.get("enabled") is True for one in settings)
    return {"enabled": is_on} | ({"requiresApproval": any(asks)} if asks else {})


def _kept_tools(tools: Mapping[str, bool] | None, toolset: Mapping[str, JSON]) -> Mapping[str, bool] | None:
    if tools is None:
        return None
    said = {name: _stricter([tool]) for name, tool in toolset.items()}
    return {
        name: asks or bool(said.get(name, {}).get("requiresApproval"))
        for name, asks in tools.items()
        if said.get(name, {}).get("enabled", True)
    }


def _window(config: Config) -> int | None:
    window = (config.get("modelSettings") or {}).get("contextWindow")
    return None if window is None else int(window)


def _selected(config: Config) -> frozenset[str] | None:
    return frozenset(ids_of(config["contextSelections"])) if "contextSelections" in config else None


def _both(a: frozenset[str] | None, b: frozenset[str] | None) -> frozenset[str] | None:
    return b if a is None else a if b is None else a & b


def _least(a: int | None, b: int | None) -> int | None:
    return min((number for number in (a, b) if number is not None), default=None)


def _lesser(a: Mapping[str, float], b: Mapping[str, float]) -> dict[str, float]:
    return {name: min(limits[name] for limits in (a, b) if name in limits) for name in {**a, **b}}


def _within(a: frozenset[str] | None, b: frozenset[str] | None) -> bool:
    return b is None or (a is not None and a <= b)


def _at_most(a: float | None, b: float | None) -> bool:
    return b is None or (a is not None and a <= b)


def _tools_within(a: Mapping[str, bool] | None, b: Mapping[str, bool] | None) -> bool:
    """A tool that needs an approval is allowed less than one that needs none."""
    if a is None or b is None:
        return b is None
    return all(name in b and asks >= b[name] for name, asks in a.items())


def _names(guardrails: Iterable[JSON]) -> frozenset[str]:
    named = (one.get("name") if isinstance(one, dict) else one for one in guardrails)
    return frozenset(name for name in named if isinstance(name, str))


def _shown(name: str) -> str:
    return name[:80]
