"""The impact of a deploy as text for a terminal."""

from collections.abc import Iterator, Mapping

from wfcore.cli.plain import plain
from wfcore.domain.kernel.json_readers import as_object, as_objects, as_text, as_texts
from wfcore.domain.kernel.json_type import JSON

_FITS = {True: "fit", False: "do not fit", None: "were not checked"}


def impact_text(impact: Mapping[str, JSON]) -> str:
    """What a deploy would change, one fact a line."""
    return plain("\n".join(_lines(impact)))


def _lines(impact: Mapping[str, JSON]) -> Iterator[str]:
    yield from _difference(as_object(impact["diff"]))
    for issue in as_objects(impact["issues"]):
        yield f"{issue['severity']}: {issue['path']}: {issue['message']}"
    for row in as_objects(impact["waiting"]):
        yield f"waiting: {row['count']} of variation {row['variationId']} {_fits(row)}"
        for one in as_objects(row["differences"]):
            yield f"  {one['message']}"
    yield from _schedule(as_object(impact["schedule"]))
    for verdict in as_objects(impact["policies"]):
        path = " -> ".join(as_texts(verdict["counterExample"] or ()))
        yield f"policy `{verdict['name']}`: {verdict['status']}{': ' + path if path else ''}"
    for case in as_objects(impact["evaluations"]):
        kind = "required case" if case["required"] is True else "case"
        yield f"evaluation: {kind} `{case['caseId']}` of skill {case['skillId']}: {case['state']}"
    cost = as_object(impact["cost"])
    each = as_object(cost["perRun"])
    if cost["runs"]:
        money = "" if each["cost"] is None else f", cost {each['cost']:g}"
        yield f"a run used {each['inputTokens']} + {each['outputTokens']} tokens{money} (mean of {cost['runs']})"


def _difference(diff: Mapping[str, JSON]) -> Iterator[str]:
    found = list(_changes(diff))
    yield from found or ["no difference from what is deployed"]


def _changes(diff: Mapping[str, JSON]) -> Iterator[str]:
    for kind in ("node", "edge"):
        part = as_object(diff[f"{kind}s"])
        for sign, key in (("+", "added"), ("-", "removed")):
            yield from (f"{sign} {kind} {name}" for name in as_texts(part[key]))
        for one in as_objects(part["changed"]):
            yield f"~ {kind} {as_text(one['id'])}: {', '.join(as_texts(one['paths']))}"
    yield from (f"~ {path}" for path in as_texts(diff["fields"]))


def _fits(row: Mapping[str, JSON]) -> str:
    fits = row["fits"]
    return _FITS[fits if isinstance(fits, bool) else None]


def _schedule(schedules: Mapping[str, JSON]) -> Iterator[str]:
    before, after = as_object(schedules["before"]), as_object(schedules["after"])
    keys = ("trigger", "isEnabled")
    if all(before[key] == after[key] for key in keys):
        return
    firings = [as_text(one["local"]) for one in as_objects(after["nextRuns"])]
    state = "enabled" if after["isEnabled"] is True else "disabled"
    yield f"schedule: {state}, next {', '.join(firings)}" if firings else "schedule: none"
