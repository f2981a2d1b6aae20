"""Pictures of counter-examples."""

from typing import Any
from xml.etree import ElementTree as ET

from wfcore.domain.rules.checking import CounterExample, check_rules
from wfcore.domain.rules.pictures import mermaid, svg
from wfcore.domain.rules.rules import at_most, parse_rule
from wfcore.testing.histories import sketch

ASK: Any = {"type": "humanApproval"}
REFUND = sketch("s -> ask", "ask -approved-> pay", "ask -denied-> pay", "ask -denied-> tell", ask=ASK)


def example(structure: Any, rule: str) -> CounterExample:
    (verdict,) = check_rules(structure, [parse_rule(rule)])
    assert verdict.counter_example is not None
    return verdict.counter_example


def test_mermaid_shows_the_graph_and_the_path() -> None:
    """Of two edges between two nodes, the one that was taken stands out."""
    assert mermaid(REFUND, example(REFUND, "never pay without approved ask")) == (
        "flowchart TD\n"
        '    n0(["s"])\n'
        '    n1{{"ask"}}\n'
        '    n2["pay"]\n'
        '    n3["tell"]\n'
        "    n0 --> n1\n"
        '    n1 -->|"approved"| n2\n'
        '    n1 -->|"denied"| n2\n'
        '    n1 -->|"denied"| n3\n'
        "    classDef taken stroke:#c2410c,stroke-width:3px\n"
        "    class n0,n1,n2 taken\n"
        "    linkStyle 0,2 stroke:#c2410c,stroke-width:3px\n"
    )


def test_mermaid_reads_no_character_of_an_id() -> None:
    """Quotation marks, brackets and line breaks are entities; a rule on the start has a path without edges."""
    odd = sketch("s -> a")
    odd["nodes"][1]["id"] = odd["edges"][0]["target"] = 'x"]\n%%{init}'
    drawn = mermaid(odd, example(odd, "never s"))
    assert '  n1["x#34;#93;#10;#37;#37;#123;init#125;"]\n' in drawn
    assert "linkStyle" not in drawn
    assert "class " not in mermaid(odd, CounterExample((), "nothing", ())).replace("classDef", "")


def test_svg_shows_the_steps() -> None:
    """Well-formed, with every step and outcome as text; characters that XML does not have are replaced."""
    drawn = svg(example(REFUND, "never tell"))
    texts = [one.text for one in ET.fromstring(drawn).iter() if one.text and one.text.strip()]
    assert [text for text in texts if text in ("start", "ask", "denied")] == ["start", "denied", "ask", "ask"] or set(
        texts
    ) >= {"start", "ask", "denied", "`tell` begins"}
    name = "a\x00<b>&" + "y" * 60
    odd = svg(CounterExample(((name, "done"),), "the end", ()))
    assert "\N{REPLACEMENT CHARACTER}&lt;b&gt;&amp;" in odd
    ET.fromstring(odd)


def test_long_svgs_are_cut() -> None:
    """A picture has a bounded number of boxes."""
    again: Any = {"type": "condition", "branches": [{"handle": "again", "when": "nodes.mail.output"}]}
    loop = sketch("s -> mail", "mail -> c", "c -again-> mail", "c -else-> e", c=again)
    (found,) = check_rules(loop, [at_most("mail", 40)])
    assert found.counter_example is not None
    drawn = svg(found.counter_example)
    assert drawn.count("<rect") == 53
    assert "30 more steps" in drawn


def test_a_path_without_an_edge_between_two_nodes() -> None:
    """The edges that there are stand out."""
    graph = sketch("s -> a", "a -> b")
    drawn = mermaid(graph, CounterExample((), "b begins", ("s", "b", "a", "b")))
    assert "linkStyle 1 stroke" in drawn
