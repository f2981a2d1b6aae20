"""What skills and the `config` of runs select: checked against the store, and connections joined over the turns."""

from collections.abc import Mapping, Sequence
from typing import Final

from wfcore.domain.agents.narrowing import SELECTED, connections_of
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.json_readers import as_objects, as_texts
from wfcore.domain.kernel.json_type import JSON
from wfcore.ports.storage import UnitOfWork

ALL: Final = "connectionAllModeIds"
PAGE: Final = 100


async def entry_faults(work: UnitOfWork, key: str, entries: Sequence[Mapping[str, JSON]]) -> list[Issue]:
    """Entries of a selection that are not `{"connectionId"}` of a connection."""
    issues = []
    for index, one in enumerate(entries):
        named, path = one.get("connectionId"), f"{key}[{index}].connectionId"
        if "connectionId" not in one:
            issues.append(Issue(path, "`connectionId` is required", "required"))
        elif not isinstance(named, str) or await work.connections.get(named) is None:
            issues.append(Issue(path, "there is no such connection", "reference"))
        issues += [
            Issue(f"{key}[{index}].{name}", "unknown field: use `connectionId`", "unknown")
            for name in one
            if name != "connectionId"
        ]
    return issues


async def selection_faults(work: UnitOfWork, selections: Sequence[Mapping[str, JSON]]) -> list[Issue]:
    """Context items that the `contextSelections` of a skill, or of a `config`, name and that do not exist."""
    issues = []
    for index, one in enumerate(selections):
        path, item = f"contextSelections[{index}].id", one.get("id")
        if "id" not in one:
            issues.append(Issue(path, "`id` is required", "required"))
        elif not isinstance(item, str) or await work.context_items.get(item) is None:
            issues.append(Issue(path, "there is no such context item", "reference"))
    return issues


async def config_faults(work: UnitOfWork, config: Mapping[str, JSON], allowed: Sequence[Sequence[str]]) -> list[Issue]:
    """What a `config` selects that does not exist, or that is not selected here.

    `allowed` are the connections that the agents and the earlier turns select.
    """
    issues = await selection_faults(work, as_objects(config.get("contextSelections") or ()))
    issues += await _connection_faults(work, config, [one for one in allowed if one])
    return [Issue(f"config.{issue.path}", issue.message, issue.rule) for issue in issues]


async def _connection_faults(
    work: UnitOfWork, config: Mapping[str, JSON], allowed: Sequence[Sequence[str]]
) -> list[Issue]:
    issues = [one for key in SELECTED for one in await entry_faults(work, key, as_objects(config.get(key) or ()))]
    everywhere = as_texts(config.get(ALL) or ())
    if issues or not (everywhere or connections_of(config)):
        return issues
    limits = [await _providers(work, selection) for selection in allowed]
    for key in SELECTED:
        for index, one in enumerate(as_objects(config.get(key) or ())):
            ids = await _providers(work, [str(one["connectionId"])])
            path = f"{key}[{index}].connectionId"
            for provider, named in ids.items():
                if any(provider in limit and not named <= limit[provider] for limit in limits):
                    issues.append(Issue(path, f"this connection to `{provider[:80]}` is not selected here", "widening"))
                if provider in everywhere:
                    message = f"`{ALL}` names `{provider[:80]}`, of which all connections are used: use one of both"
                    issues.append(Issue(path, message, "contradiction"))
    known = await _known_providers(work) if everywhere else set()
    for index, provider in enumerate(everywhere):
        if provider not in known:
            issues.append(Issue(f"{ALL}[{index}]", "there is no connection of this provider", "reference"))
        elif any(provider in limit for limit in limits):
            issues.append(
                Issue(f"{ALL}[{index}]", "not all connections of this provider are selected here", "widening")
            )
    return issues


async def joined(work: UnitOfWork, before: Mapping[str, JSON], config: Mapping[str, JSON]) -> dict[str, JSON]:
    """The config, which keeps what earlier turns have selected of providers that it does not name."""
    earlier, now = connections_of(before), connections_of(config)
    if not earlier:
        return dict(config)
    named = await _providers(work, now)
    kept = [one for one in earlier if not (await _providers(work, [one])).keys() & named.keys()]
    entries: list[JSON] = [{"connectionId": one} for one in dict.fromkeys((*now, *kept))]
    return {**config, "connectionSet": [], "connectionSelections": entries}


async def _providers(work: UnitOfWork, ids: Sequence[str]) -> dict[str, set[str]]:
    """These connections, as far as they exist, by provider."""
    found = dict[str, set[str]]()
    for one in ids:
        row = await work.connections.get(one)
        if row is not None:
            found.setdefault(row.provider, set()).add(row.id)
    return found


async def _known_providers(work: UnitOfWork) -> set[str]:
    found, after = set[str](), ""
    while page := await work.connections.page(limit=PAGE, after=after):
        found |= {row.provider for row in page}
        after = page[-1].id
    return found
