"""`wfcore eval`: the evaluations of a skill file, for continuous integration."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import CycloptsError, Parameter

from wfcore.cli.common import (
    IN_MEMORY,
    Config,
    Tools,
    UnusedDatabase,
    local_principal,
    open_core,
    print_message,
    print_result,
)
from wfcore.cli.declared.documents import faults_located
from wfcore.cli.files import load_tools, read_skill, shown_issues

if TYPE_CHECKING:
    from wfcore.core import Core
    from wfcore.domain.kernel.json_type import JSON
    from wfcore.domain.resources.access import Principal
    from wfcore.runtime.runs.evaluations import CaseResult

NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""The characters that XML 1.0 cannot contain."""


async def evaluate(
    file: str,
    /,
    *,
    junit: Annotated[str | None, Parameter(help="Write the results to this file as JUnit XML.")] = None,
    tools: Tools = [],  # noqa: B006  (never changed)
    database: UnusedDatabase = IN_MEMORY,
    config: Config = None,
) -> int:
    """Run the evaluations of a skill file without a server, with the configured models and without any tool.

    Prints the results as JSON, and fails when a required case has not passed.

    Parameters
    ----------
    file
        YAML or JSON with the fields of the create body of a skill.
    """
    with faults_located(file):
        body = read_skill(file)
    async with open_core(IN_MEMORY, config, tools=load_tools(tools), worker=True) as core:
        results = await _results(core, await local_principal(core), file, body)
    for result in results:
        for line in _lines(result):
            print_message(line)
    if junit is not None:
        _write(junit, str(body["name"]), results)
    print_result({"results": [result.to_wire() for result in results]})
    return int(any(result.case.required is True and not result.passed for result in results))


async def _results(core: "Core", me: "Principal", file: str, body: "dict[str, JSON]") -> "Sequence[CaseResult]":
    """The result of every case, in the order of the file, once all have ended."""
    with faults_located(file):
        skill = await core.skills.create(me, body)
    for line in shown_issues(file, await core.skills.validate_saved(me, skill.id)):
        print_message(line)
    begun = await core.evaluations.run(me, skill.id)
    for run in begun.runs:
        async for _ in await core.runs.follow(me, run.id):
            pass
        if (await core.runs.get(me, run.id)).status == "interrupted":
            await core.runs.cancel(me, run.id)
    return (await core.evaluations.results(me, skill.id)).results


def _lines(result: "CaseResult") -> list[str]:
    """The case on one line, then why it has not passed."""
    needed = "" if result.case.required is True else " (not required)"
    shown = "passed" if result.passed else "failed"
    return [f"{shown}  {result.case.id}{needed}", *(f"        {reason}" for reason in _reasons(result))]


def _reasons(result: "CaseResult") -> list[str]:
    from wfcore.domain.kernel.json_readers import as_objects, optional_text

    body = result.verdict.body
    failed = [check for check in as_objects(body.get("checks") or ()) if not check["passed"]]
    error = optional_text(body.get("error"))
    return [*([error] if error else ()), *(f"{check['kind']}: {check['message']}" for check in failed)]


def _write(path: str, name: str, results: "Sequence[CaseResult]") -> None:
    """Write JUnit XML: one test case for each case. CycloptsError for a file that cannot be written."""
    from xml.etree import ElementTree

    failed = sum(not result.passed for result in results)
    counts = {"tests": str(len(results)), "failures": str(failed), "errors": "0"}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": _xml(name), **counts})
    for result in results:
        about = {"classname": _xml(name), "name": _xml(str(result.case.name or result.case.id))}
        case = ElementTree.SubElement(suite, "testcase", about)
        if not result.passed:
            kind, reasons = "required" if result.case.required is True else "optional", _reasons(result)
            failure = ElementTree.SubElement(case, "failure", {"type": kind, "message": _xml(reasons[0])})
            failure.text = _xml("\n".join(reasons))
    try:
        ElementTree.ElementTree(suites).write(Path(path), encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise CycloptsError(msg=f"cannot write `{path}`: {error.strerror}") from None


def _xml(text: str) -> str:
    return NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
