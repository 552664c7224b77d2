"""Every mutant of a module: one expression or statement inside a function changed, the rest as it was.

Only code inside functions is changed, so that a mutant is a new code object for a function that others have imported
long ago. Text, types and documentation are left alone.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}

#: The name of a function and the line of its `def`: what finds it again in a compiled module.
Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Mutant:
    path: Path
    function: Place
    line: int
    change: str
    code: CodeType

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.function[0]}: {self.change}"


def mutants_of(path: Path, name: str) -> Iterator[Mutant]:
    tree = ast.parse(path.read_text())
    for function in _functions(tree):
        for node in _mutable_nodes(function):
            for change, replacement in _changes(node):
                yield _mutant(tree, path, name, function, node, change, replacement)


def code_objects(code: CodeType) -> Iterator[CodeType]:
    """All code objects below one of a module, functions in classes and in functions as well."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from code_objects(constant)


def place_of(code: CodeType) -> Place:
    return code.co_qualname, code.co_firstlineno


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions of the module and of its classes; those inside of functions are part of them."""
    for node in tree.body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        yield from (m for m in members if isinstance(m, ast.FunctionDef | ast.AsyncFunctionDef))


def _mutable_nodes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    skipped: set[ast.AST] = set()
    for statement in function.body:
        for node in ast.walk(statement):
            if node in skipped:
                continue
            if isinstance(node, ast.AnnAssign):
                skipped.update(ast.walk(node.annotation))
            if isinstance(node, ast.arguments):
                skipped.update(n for arg in ast.walk(node) if isinstance(arg, ast.arg) and arg.annotation
                               for n in ast.walk(arg.annotation))  # fmt: skip
            if isinstance(node, ast.JoinedStr | ast.Assert | ast.Raise):
                skipped.update(ast.walk(node))
                continue
            yield node


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Compare(ops=[op, *_]) if type(op) in _COMPARISONS:
            other = copy.deepcopy(node)
            other.ops[0] = _COMPARISONS[type(op)]()
            yield f"{ast.unparse(node)} becomes {ast.unparse(other)}", other
        case ast.BoolOp():
            other = copy.deepcopy(node)
            other.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield f"{ast.unparse(node)} becomes {ast.unparse(other)}", other
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield f"not {ast.unparse(operand)} loses its not", operand
        case ast.BinOp(op=op) if type(op) in _ARITHMETIC:
            other = copy.deepcopy(node)
            other.op = _ARITHMETIC[type(op)]()
            yield f"{ast.unparse(node)} becomes {ast.unparse(other)}", other
        case ast.Constant(value=bool() as value):
            yield f"{value} becomes {not value}", ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield f"{value} becomes {value + 1}", ast.Constant(value + 1)
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) if not isinstance(test, ast.Compare):
            other = copy.deepcopy(node)
            other.test = ast.UnaryOp(ast.Not(), copy.deepcopy(test))
            yield f"if {ast.unparse(test)} is turned round", other
        case ast.Return(value=value) if value is not None and not _is_empty(value):
            yield f"return {ast.unparse(value)[:60]} returns None", ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Continue() | ast.Break():
            yield f"{ast.unparse(node)[:60]} is left out", ast.Pass()


def _is_empty(value: ast.expr) -> bool:
    """None in the place of these is the same to whoever asks whether there is something."""
    match value:
        case ast.Constant(value=None | False):
            return True
        case ast.Tuple(elts=[]) | ast.List(elts=[]) | ast.Dict(keys=[]):
            return True
    return False


class _Replace(ast.NodeTransformer):
    def __init__(self, target: ast.AST, replacement: ast.AST) -> None:
        self._target = target
        self._replacement = replacement

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self._target:
            return ast.copy_location(self._replacement, node)
        return super().generic_visit(node)


def _mutant(
    tree: ast.Module,
    path: Path,
    name: str,
    function: ast.FunctionDef | ast.AsyncFunctionDef,
    node: ast.AST,
    change: str,
    replacement: ast.AST,
) -> Mutant:
    memo: dict[int, object] = {}
    changed = copy.deepcopy(tree, memo)
    _Replace(memo[id(node)], replacement).visit(changed)  # type: ignore[arg-type]
    ast.fix_missing_locations(changed)
    compiled = compile(changed, str(path), "exec")
    first = function.decorator_list[0].lineno if function.decorator_list else function.lineno
    code = next(c for c in code_objects(compiled) if c.co_name == function.name and c.co_firstlineno == first)
    return Mutant(Path(name), place_of(code), getattr(node, "lineno", first), change, code)
