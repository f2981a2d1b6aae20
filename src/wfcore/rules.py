"""Rules about the runs of a workflow, for its tests: checked for every outcome, without calling anything.

    from wfcore.rules import always_ends_in, approved, at_most, never, simulate

    simulate("refund.yaml").must(never("pay").without(approved("ask")), at_most("mail", 1))

A broken rule raises `RuleBroken`, whose text has the shortest counter-example. See docs/guides/graphs.md.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

import attrs
from msgspec.structs import replace

from wfcore.domain.graph.rules import body_errors
from wfcore.domain.graph.structure import structure_of_body
from wfcore.domain.kernel.errors import refuse
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.rules.checking import CounterExample, Verdict, check_rules
from wfcore.domain.rules.pictures import mermaid, svg
from wfcore.domain.rules.rules import (
    AlwaysEndsIn,
    AtMost,
    Never,
    Rule,
    always_ends_in,
    approved,
    at_most,
    denied,
    done,
    expired,
    failed,
    never,
    outcome,
    parse_rule,
)
from wfcore.domain.rules.search import MAX_STATES
from wfcore.domain.run.simulation import MOST_PATHS, Path, Simulation
from wfcore.domain.run.simulation import simulate as simulate_paths
from wfcore.workflow_files import Workflow, body_of

if TYPE_CHECKING:
    from wfcore.testing.histories import History

__all__ = [
    "BrokenRule",
    "Path",
    "RuleBroken",
    "Simulated",
    "always_ends_in",
    "approved",
    "at_most",
    "denied",
    "done",
    "expired",
    "failed",
    "never",
    "outcome",
    "parse_rule",
    "simulate",
]

RULES: Final = (Never, AtMost, AlwaysEndsIn)


Predicate = Callable[[Path], object]
"""A rule of one's own: true for each path that a run may take."""


@attrs.frozen
class BrokenRule:
    """One rule that does not hold. `rule` is its text; `example` is None where not all states were visited."""

    rule: str
    lines: tuple[str, ...]
    example: CounterExample | None
    _structure: Mapping[str, JSON] = attrs.field(repr=False)
    _given: JSON = attrs.field(repr=False)

    @property
    def steps(self) -> tuple[tuple[str, str], ...]:
        """The nodes of the counter-example with how they ended, in order."""
        return self.example.steps if self.example else ()

    def mermaid(self) -> str:
        """The graph with the path of the counter-example, as a Mermaid flowchart; empty without one."""
        return mermaid(self._structure, self.example) if self.example else ""

    def svg(self) -> str:
        """The steps of the counter-example as an SVG image; empty without one."""
        return svg(self.example) if self.example else ""

    def history(self) -> "History":
        """The counter-example as a history, which can go on from there.

        Its plan is that of the simulation: every node is a call, which is open where the counter-example ends.
        LookupError without a counter-example that was simulated.
        """
        from wfcore.testing.histories import History

        if self.example is None or self.example.plan is None:
            raise LookupError("there is no simulated counter-example")
        history = History(self.example.plan, self._given)
        for entry in self.example.journal[1:]:
            history.apply(replace(entry, at=history.at))
        return history

    def __str__(self) -> str:
        return "\n".join([*self.lines, "", self.mermaid()] if self.example else self.lines)


class RuleBroken(AssertionError):
    """Rules do not hold; the text shows each with its counter-example as steps and in Mermaid. `broken` are they."""

    def __init__(self, broken: tuple[BrokenRule, ...], checked: int) -> None:
        rules = "1 rule does" if checked == 1 else f"{len(broken)} of {checked} rules do"
        super().__init__("\n\n".join([f"{rules} not hold", *map(str, broken)]))
        self.broken = broken


class Simulated:
    """A workflow whose runs are simulated. `given` is their input; with None it is open."""

    def __init__(self, structure: Mapping[str, JSON], given: JSON, most_paths: int, most_states: int) -> None:
        self.structure = structure
        self._given, self._most_paths, self._most_states = given, most_paths, most_states

    @cached_property
    def simulation(self) -> Simulation:
        """All the ends that runs can have."""
        return simulate_paths(self.structure, self._given, self._most_paths)

    @property
    def paths(self) -> tuple[Path, ...]:
        """One path to each end."""
        return self.simulation.paths

    @property
    def complete(self) -> bool:
        """Whether `paths` are all; if not, the simulation was cut short."""
        return self.simulation.complete

    @property
    def never_reached(self) -> tuple[str, ...]:
        """The nodes that no path reaches; empty if the simulation was cut short."""
        return self.simulation.never_reached

    def check(self, *rules: Rule | str) -> list[Verdict]:
        """The verdict on each rule, or text of a rule. Raises Invalid for one that names an unknown node."""
        parsed = [parse_rule(rule, f"rules[{place}]") if isinstance(rule, str) else rule
                  for place, rule in enumerate(rules)]  # fmt: skip
        return check_rules(self.structure, parsed, self._given, self._most_states)

    def must(self, *rules: Rule | str | Predicate) -> Self:
        """Raise `RuleBroken` unless all rules hold: rules, texts of rules, or functions of a path.

        What could not be decided, because the graph has too many states, does not hold either. Raises Invalid for a
        rule that names an unknown node or outcome.
        """
        stated = [rule for rule in rules if isinstance(rule, (*RULES, str))]
        broken = [
            BrokenRule(str(one.rule), tuple(one.lines()), one.counter_example, self.structure, self._given)
            for one in self.check(*stated)
            if not one.holds
        ]
        broken += [
            found
            for rule in rules
            if not isinstance(rule, (*RULES, str)) and (found := self._broken_predicate(rule)) is not None
        ]
        if broken:
            raise RuleBroken(tuple(broken), len(rules))
        return self

    def _broken_predicate(self, holds: Predicate) -> BrokenRule | None:
        name = getattr(holds, "__name__", repr(holds))
        by_length = sorted(self.paths, key=lambda path: len(path.steps))
        wrong = next((path for path in by_length if not holds(path)), None)
        if wrong is not None:
            end = f"the run ends in error at `{wrong.failed}`" if wrong.failed else f"the run ends as `{wrong.end}`"
            if wrong.end == "endless":
                end = "the run goes round a cycle that nothing leaves"
            nodes = tuple(dict.fromkeys(node for node, _ in wrong.steps))
            example = CounterExample(wrong.steps, end, nodes, wrong.journal, self.simulation.plan)
            return BrokenRule(name, (f"broken: {name}", *example.lines()), example, self.structure, self._given)
        if self.complete:
            return None
        unseen = f"not all paths were visited: the simulation stopped after {len(self.paths)}"
        return BrokenRule(name, (f"unknown: {name}", unseen), None, self.structure, self._given)


def simulate(
    workflow: Workflow, input: Any = None, *, most_paths: int = MOST_PATHS, most_states: int = MAX_STATES
) -> Simulated:
    """Simulate the runs of a workflow, whose tools and skills need not exist here. `input` None leaves it open.

    `most_states` bounds the search for each rule, `most_paths` the paths that are listed. Raises Invalid, with every
    issue, when the graph cannot run, OSError and Malformed for a file that cannot be read.
    """
    body = body_of(workflow)
    refuse(body_errors(body), as_invalid=True)
    return Simulated(structure_of_body(body), input, most_paths, most_states)
