"""Files of workflows: the body of a create request, in JSON or YAML 1.2 (interface, CreateAgentDto)."""

from pathlib import Path
from typing import Any

from wfcore.domain.json.codec import dumps
from wfcore.domain.json.parsing import parse_json
from wfcore.domain.kernel.errors import Issue, Malformed
from wfcore.domain.kernel.json_type import JSON
from wfcore.extras import needs_extra


def read_workflow(path: str | Path) -> dict[str, JSON]:
    """The body of a workflow in a file; see `read_body`. `type` is optional."""
    return {"type": "workflow", **read_body(path)}


def read_body(path: str | Path) -> dict[str, JSON]:
    """The body of a workflow or skill in a file. `name` defaults to the name of the file.

    Raises OSError when it cannot be read, Malformed when it is not an object. YAML needs the extra `cli`.
    """
    file = Path(path)
    content = file.read_bytes()
    tree = parse_json(content) if file.suffix == ".json" else parse_yaml(content)
    if not isinstance(tree, dict):
        raise _malformed("the file must contain an object", "type")
    return {"name": file.stem, **tree}


def parse_yaml(content: bytes) -> JSON:
    """YAML, checked like JSON: the same values and the same limits. Raises Malformed. It needs the extra `cli`."""
    with needs_extra("cli", "a workflow file in YAML"):
        from ruamel.yaml.error import YAMLError

    try:
        return parse_json(dumps(_parser().load(content.decode())).encode())
    except UnicodeDecodeError:
        problem = "not UTF-8"
    except YAMLError as error:
        problem = f"not YAML: {_summary(error)}"
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"not representable as JSON: {error}"
    raise _malformed(problem, "json")


def _malformed(problem: str, rule: str) -> Malformed:
    return Malformed(problem, {"errors": [Issue("", problem, rule).to_wire()]})


def _parser() -> Any:
    """YAML 1.2, in which `on` is a string; dates are strings too, as in JSON."""
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import SafeConstructor

    class Constructor(SafeConstructor):
        pass

    Constructor.add_constructor("tag:yaml.org,2002:timestamp", lambda self, node: self.construct_scalar(node))
    parser = YAML(typ="safe", pure=True)
    parser.Constructor = Constructor
    return parser


def _summary(error: Exception) -> str:
    """The problem and its line, without the parser's long message."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
    return f"line {mark.line + 1}: {problem}" if mark is not None else problem
