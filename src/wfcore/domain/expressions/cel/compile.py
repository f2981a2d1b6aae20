"""Compilation of CEL source to Python closures, which evaluate it on plain JSON.

A closure takes the activation (the variables and the budget) and returns a value or raises. `&&`, `||`, `all`
and `exists` ignore an error in one operand when another one decides (cel-spec, Logical Operators); an exhausted
budget always ends the evaluation. Only `all`, `exists`, `exists_one`, `filter` and `map` iterate. Each iteration
costs the size of its body, so a bounded source on bounded data ends in bounded time.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from wfcore.domain.expressions.cel import closures
from wfcore.domain.expressions.cel.closures import Code
from wfcore.domain.expressions.cel.library import FUNCTIONS, METHODS, Overloads, compiled_pattern
from wfcore.domain.expressions.cel.syntax import MAX_NESTING, Construct, parse, too_deep
from wfcore.domain.expressions.cel.values import TYPE_NAMES, ExpressionError, Value, in_int64, place_of

ROOTS: Final = ("input", "nodes", "run", "item")
"""The variables of the expressions of graphs."""


@attrs.frozen
class Compiled:
    """The result of a compilation.

    `references` are the ids of the nodes it reads. `is_path`: it is one plain path to a value that never changes
    (not `nodes` itself, which grows during the run).
    """

    run: Code
    references: frozenset[str]
    is_path: bool
    reads_item: bool


def compile_source(source: str, roots: Sequence[str] = ROOTS) -> Compiled:
    """Compile CEL over the variables `roots`.

    Raises ExpressionError for wrong syntax, unknown names, wrong arity and too deep nesting.
    """
    compiler = _Compiler(source, roots)
    tree = parse(source)
    run = compiler.compile(tree)
    is_path = compiler.path_of(tree) not in (None, ("nodes", ()))
    return Compiled(run, frozenset(compiler.references), is_path, compiler.reads_item)


class _Compiler:
    """The state of one compilation: nodes read, size so far, macro variables in scope (`bound`)."""

    def __init__(self, source: str, roots: Sequence[str]) -> None:
        self.source = source
        self.roots = roots
        self.references: set[str] = set()
        self.reads_item = False
        self.bound: list[str] = []
        self.size = 0
        self.nesting = 0

    def compile(self, tree: Construct) -> Code:
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise too_deep()
        path = self.path_of(tree)
        build: Callable[[Construct], Code] = getattr(self, f"on_{tree.form}")
        code = self.path(*path) if path else build(tree)
        self.nesting -= 1
        self.size += 1
        return code

    def all_of(self, trees: Sequence[Construct]) -> list[Code]:
        return [self.compile(tree) for tree in trees]

    def path_of(self, tree: Construct) -> tuple[str, tuple[str, ...]] | None:
        """`root.a["b"]` as (root, (a, b)) if every step is a literal name and the root is a variable; else None."""
        names: list[str] = []
        while tree.form in {"select", "index"}:
            if tree.form == "index" and tree.parts[1].form != "string":
                return None
            names.append(tree.text if tree.form == "select" else tree.parts[1].text)
            tree = tree.parts[0]
        if tree.form != "name":
            return None
        root = tree.text
        return (root, tuple(reversed(names))) if root in self.bound or root in self.roots else None

    def path(self, root: str, names: tuple[str, ...]) -> Code:
        if root == "nodes" and root not in self.bound:
            self.references.update(names[:1])
        self.reads_item |= root == "item" and root not in self.bound
        return closures.path(root, names)

    # One method for each form of the syntax.

    def on_string(self, tree: Construct) -> Code:
        return closures.constant(tree.text)

    def on_int(self, tree: Construct) -> Code:
        return closures.constant(in_int64(int(tree.text, 16 if "0x" in tree.text else 10)))

    def on_float(self, tree: Construct) -> Code:
        return closures.constant(float(tree.text))

    def on_uint(self, tree: Construct) -> Code:
        raise ExpressionError(f"`{tree.text}`: JSON has no unsigned ints")

    def on_constant(self, tree: Construct) -> Code:
        return closures.constant(_CONSTANTS[tree.text])

    def on_name(self, tree: Construct) -> Code:
        if tree.text in TYPE_NAMES:
            return closures.constant(TYPE_NAMES[tree.text])
        message = f"unknown variable `{tree.text}`"
        if self.roots:
            *most, last = (f"`{root}`" for root in self.roots)
            message += f": use {', '.join(most)} or {last}"
        raise ExpressionError(message, *place_of(self.source, tree.at))

    def on_select(self, tree: Construct) -> Code:
        return closures.select(self.compile(tree.parts[0]), tree.text)

    def on_index(self, tree: Construct) -> Code:
        return closures.item(*self.all_of(tree.parts))

    def on_method(self, tree: Construct) -> Code:
        if tree.text in closures.MACROS:
            return self.macro(tree.text, *tree.parts)
        return self.call(METHODS, tree.text, tree.parts)

    def on_function(self, tree: Construct) -> Code:
        return self.has(tree.parts) if tree.text == "has" else self.call(FUNCTIONS, tree.text, tree.parts)

    def on_choose(self, tree: Construct) -> Code:
        return closures.choose(*self.all_of(tree.parts))

    def on_binary(self, tree: Construct) -> Code:
        left, right = self.all_of(tree.parts)
        if tree.text in _LOGIC:
            return _LOGIC[tree.text](left, right)
        if tree.text in closures.RELATIONS:
            return closures.RELATIONS[tree.text](left, right)
        return closures.arithmetic(tree.text, left, right)

    def on_unary(self, tree: Construct) -> Code:
        build = closures.negated if tree.text == "-" else closures.inverted
        return build(self.compile(tree.parts[0]))

    def on_list(self, tree: Construct) -> Code:
        return closures.list_of(self.all_of(tree.parts))

    def on_map(self, tree: Construct) -> Code:
        codes = self.all_of(tree.parts)
        return closures.map_of(list(zip(codes[::2], codes[1::2], strict=True)))

    def has(self, arguments: Sequence[Construct]) -> Code:
        if len(arguments) != 1 or arguments[0].form != "select":
            raise ExpressionError("`has` takes one field selection, such as `has(input.name)`")
        return closures.has(self.compile(arguments[0]))

    def call(self, table: Mapping[str, Overloads], name: str, arguments: Sequence[Construct]) -> Code:
        if name not in table:
            raise ExpressionError(f"unknown {'function' if table is FUNCTIONS else 'method'} `{name}`")
        if len(arguments) not in {len(types) for types in table[name]}:
            raise ExpressionError(f"wrong number of arguments for `{name}`")
        if name == "matches" and arguments[1].form == "string":
            compiled_pattern(arguments[1].text)
        return closures.call(name, table[name], self.all_of(arguments))

    def macro(self, name: str, base: Construct, *arguments: Construct) -> Code:
        """`map` may have a condition before its expression, and then maps only the items that satisfy it."""
        steps = ["filter", "map"] if name == "map" and len(arguments) == 3 else [name]
        if len(arguments) != len(steps) + 1 or arguments[0].form != "name":
            raise ExpressionError(f"`{name}` takes a variable and an expression, such as `list.{name}(x, x.done)`")
        code, variable = self.compile(base), arguments[0].text
        for step, body in zip(steps, arguments[1:], strict=True):
            code = self.loop(code, variable, step, body)
        return code

    def loop(self, items: Code, variable: str, name: str, tree: Construct) -> Code:
        before = self.size
        self.bound.append(variable)
        body = self.compile(tree)
        self.bound.pop()
        return closures.MACROS[name](closures.Comprehension(items, variable, body, self.size - before))


_LOGIC: Final = {"||": closures.either, "&&": closures.both}
_CONSTANTS: Final[Mapping[str, Value]] = {"true": True, "false": False, "null": None}
