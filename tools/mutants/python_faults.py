# SPDX-License-Identifier: Apache-2.0
"""One-line faults in Python: changed comparisons, operators and constants, conditions that are gone, calls and values that are
left out, arguments that changed places. What only the reader of a message or a type checker sees is left alone."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from edits import Edit

COMPARISONS = {"<": ("<=", ">"), "<=": ("<", ">="), ">": (">=", "<"), ">=": (">", "<="), "==": ("!=",), "!=": ("==",),
               "is": ("is not",), "is not": ("is",), "in": ("not in",), "not in": ("in",)}  # fmt: skip
OPERATORS = {"+": "-", "-": "+", "*": "//", "//": "*", "/": "*", "%": "//", "<<": ">>", ">>": "<<", "&": "|", "|": "&",
             "**": "*"}  # fmt: skip
TWINS = {"min": "max", "max": "min", "any": "all", "all": "any", "floor": "ceil", "ceil": "floor"}
ONLY_TEXT = ("refuse", "PillionError", "rule", "Rule", "print", "warn", "join")
"""Calls whose arguments are words for people."""
FIXED_ORDER = ("isinstance", "issubclass", "getattr", "hasattr", "setattr", "setdefault")
"""Calls that raise at once where their arguments change places: nobody has to look for that."""


def edits(text: str) -> Iterator[Edit]:
    """All faults of a text, in the order of the syntax tree."""
    finder = _Finder(text)
    finder.visit(ast.parse(text))
    yield from finder.found


class _Finder(ast.NodeVisitor):
    def __init__(self, text: str) -> None:
        self.lines = [line.encode() for line in text.split("\n")]
        self.found: list[Edit] = []

    def between(self, a: ast.expr, b: ast.expr) -> tuple[int, int, str] | None:
        """Where the text between two expressions of one line is, and the text; None where a bracket stands there."""
        if a.end_lineno != b.lineno or a.end_col_offset is None:
            return None
        text = self.lines[b.lineno - 1][a.end_col_offset : b.col_offset].decode()
        return None if set(text) & set("()[]{}#") else (a.end_col_offset, b.col_offset, text)

    def source(self, node: ast.expr) -> str:
        return self.lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode()

    def add(self, line: int, begin: int, end: int, new: str, kind: str) -> None:
        self.found.append(Edit(line, begin, end, new, kind))

    def replace(self, node: ast.expr | ast.stmt, new: str, kind: str) -> None:
        if node.lineno == node.end_lineno and node.end_col_offset is not None:
            self.add(node.lineno, node.col_offset, node.end_col_offset, new, kind)

    def replace_operator(self, a: ast.expr, b: ast.expr, news: tuple[str, ...], kind: str) -> None:
        gap = self.between(a, b)
        if gap:
            for new in news:
                self.add(b.lineno, gap[0], gap[1], f" {new} ", kind)

    # What is left alone.

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for default in (*node.args.defaults, *(d for d in node.args.kw_defaults if d)):
            self.visit(default)
        for statement in node.body:
            self.visit(statement)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        pass

    def visit_Assert(self, node: ast.Assert) -> None:
        pass

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    # What is changed.

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for a, b in itertools.pairwise(operands):
            gap = self.between(a, b)
            self.replace_operator(a, b, COMPARISONS.get(gap[2].strip(), ()) if gap else (), "comparison")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for a, b in zip(node.values, node.values[1:], strict=False):
            self.replace_operator(a, b, ("or" if isinstance(node.op, ast.And) else "and",), "and, or")
            if self.between(a, b) and b.lineno == b.end_lineno and b.end_col_offset and a.end_col_offset:
                self.add(b.lineno, a.end_col_offset, b.end_col_offset, "", "condition left out")
            if self.between(a, b) and a.lineno == a.end_lineno:
                self.add(b.lineno, a.col_offset, b.col_offset, "", "condition left out")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        gap = self.between(node.left, node.right)
        new = OPERATORS.get(gap[2].strip()) if gap else None
        if new:
            self.replace_operator(node.left, node.right, (new,), "operator")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, (ast.Not, ast.USub)) and node.operand.lineno == node.lineno:
            self.add(node.lineno, node.col_offset, node.operand.col_offset, "", "sign left out")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self.replace(node, str(not node.value), "constant")
        elif isinstance(node.value, int):
            self.replace(node, str(node.value + 1), "constant")
            self.replace(node, f"({node.value - 1})", "constant")
        elif isinstance(node.value, float):
            self.replace(node, repr(2 * node.value + 1), "constant")

    def visit_If(self, node: ast.If) -> None:
        self.condition(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.condition(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self.condition(test)
        self.generic_visit(node)

    def condition(self, test: ast.expr) -> None:
        if not (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"):
            self.replace(test, "True", "always")
            self.replace(test, "False", "never")

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not isinstance(node.value, ast.Constant):
            self.replace(node, "return None", "no result")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        if isinstance(node.value, ast.Call):
            self.replace(node, "pass", "call left out")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        gap = self.between(node.target, node.value)
        new = OPERATORS.get(gap[2].strip().removesuffix("=")) if gap else None
        if gap and new:
            self.add(node.lineno, gap[0], gap[1], f" {new}= ", "operator")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in ONLY_TEXT:
            return
        if isinstance(node.func, ast.Name) and name in TWINS:
            self.replace(node.func, TWINS[name], "twin")
        if name not in FIXED_ORDER:
            self.arguments(node)
        self.generic_visit(node)

    def arguments(self, node: ast.Call) -> None:
        plain = [a for a in node.args if not isinstance(a, ast.Starred)]
        for a, b in itertools.pairwise(plain):
            gap = self.between(a, b)
            if gap and a.lineno == a.end_lineno == b.end_lineno and b.end_col_offset:
                swapped = f"{self.source(b)}{gap[2]}{self.source(a)}"
                self.add(a.lineno, a.col_offset, b.end_col_offset, swapped, "arguments swapped")
        for before, keyword in zip(node.args[-1:], node.keywords[:1], strict=False):
            value = keyword.value
            if before.end_lineno == value.end_lineno == keyword.lineno and before.end_col_offset:
                end = value.end_col_offset or 0
                if not set(self.lines[value.lineno - 1][value.end_col_offset : end + 1].decode()) - set(",)"):
                    self.add(keyword.lineno, before.end_col_offset, end, "", "argument left out")
