"""The text of an impact."""

from typing import Any

from wfcore.cli.impacts import impact_text

NOTHING: Any = {"added": [], "removed": [], "changed": []}
IMPACT: Any = {
    "diff": {"nodes": NOTHING, "edges": NOTHING, "fields": []},
    "issues": [{"path": "a", "message": "is \u001b[31mred", "rule": "x", "severity": "warning"}],
    "waiting": [
        {"variationId": "v1", "count": 2, "fits": None, "differences": []},
        {"variationId": "v2", "count": 1, "fits": True, "differences": []},
        {"variationId": "v3", "count": 1, "fits": False, "differences": [{"message": "because"}]},
    ],
    "schedule": {
        "before": {"trigger": None, "isEnabled": True, "nextRuns": []},
        "after": {"trigger": None, "isEnabled": False, "nextRuns": []},
    },
    "policies": [
        {"name": "kept", "status": "kept", "counterExample": None},
        {"name": "late", "status": "broken", "counterExample": ["s", "pay"]},
    ],
    "evaluations": [
        {"skillId": 7, "caseId": "hi", "required": True, "state": "failed"},
        {"skillId": 7, "caseId": "ho", "required": False, "state": "passed"},
    ],
    "cost": {"runs": 4, "perRun": {"inputTokens": 10, "outputTokens": 3, "cost": 0.5}},
}


def test_every_part_has_its_line() -> None:
    """Control characters of a graph are escaped."""
    assert impact_text(IMPACT).splitlines() == [
        "no difference from what is deployed",
        "warning: a: is \\u001b[31mred",
        "waiting: 2 of variation v1 were not checked",
        "waiting: 1 of variation v2 fit",
        "waiting: 1 of variation v3 do not fit",
        "  because",
        "schedule: none",
        "policy `kept`: kept",
        "policy `late`: broken: s -> pay",
        "evaluation: required case `hi` of skill 7: failed",
        "evaluation: case `ho` of skill 7: passed",
        "a run used 10 + 3 tokens, cost 0.5 (mean of 4)",
    ]


def test_what_is_not_known_is_left_out() -> None:
    """The cost without runs, and the money without prices."""
    cost = {"runs": 1, "perRun": {"inputTokens": 10, "outputTokens": 3, "cost": None}}
    assert impact_text({**IMPACT, "cost": cost}).endswith("a run used 10 + 3 tokens (mean of 1)")
    none = {"runs": 0, "perRun": {"inputTokens": None, "outputTokens": None, "cost": None}}
    assert "tokens" not in impact_text({**IMPACT, "cost": none})
