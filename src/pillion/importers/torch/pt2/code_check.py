# SPDX-License-Identifier: Apache-2.0
"""Checks the strings of an exported program, because torch turns them into Python code: names must be plain names,
functions must be operators, and expressions are refused."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

Json = Any

NAME = re.compile(r"[\w.:+-]*")
"""Characters allowed in names of values, parameters, modules and versions; no character ends a Python name."""
OPERATOR = re.compile(
    r"torch\.ops\.(aten|quantized_decomposed|torchao)\.\w+\.\w+"
    r"|torch\.ops\.higher_order\.wrap_with_(set_grad_enabled|autocast)"
    r"|_operator\.(getitem|add|sub|mul|floordiv|truediv|mod|neg|pow|eq|ne|lt|le|gt|ge)",
    re.ASCII,
)
REFUSED = "torch.ops.aten.from_file."
"""Operator that opens a file."""
FUNCTIONS = frozenset({"target", "as_operator"})
EXPRESSIONS = frozenset({"as_expr", "expr_str"})
STRUCTURES = frozenset({"in_spec", "out_spec"})
PYTREES = frozenset({None, "builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict"})
"""Containers allowed for arguments and results. Others have contexts that import modules."""
TEXTS = frozenset({"metadata", "as_string", "as_strings"})
"""Free texts: source lines, and string arguments."""
CODE = frozenset({"guards_code"})
"""Python guards on inputs; dropped, because Pillion checks inputs itself."""


class UntrustedError(ValueError):
    """Raised for a file with content that would be executed."""


def check_words(held: Json, key: str | None = None) -> Json:
    """Returns a program's description without code. Raises if a string is not a plain name or operator."""
    if key in TEXTS:
        return held
    if key in CODE:
        return []
    match held:
        case dict():
            return {_check_name(word): check_words(inner, word) for word, inner in held.items()}
        case list():
            return [check_words(inner, key) for inner in held]
        case str():
            return _checked_string(held, key)
        case _:
            return held


def _checked_string(text: str, key: str | None) -> str:
    if key in EXPRESSIONS:
        raise UntrustedError(f"a size that is an expression: {text[:200]!r}; export without dynamic_shapes")
    if key in FUNCTIONS:
        return _check_operator(text)
    if key in STRUCTURES:
        _check_tree_spec(json.loads(text))
        return text
    return _check_name(text)


def _check_name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise UntrustedError(f"a name that is none: {text[:200]!r}")
    return text


def _check_operator(text: str) -> str:
    if not OPERATOR.fullmatch(text) or text.startswith(REFUSED):
        raise UntrustedError(f"a function: {text[:200]!r}")
    return text


def _check_tree_spec(tree: Json) -> None:
    """Checks `[version, tree]`, where each tree has a type, a context and children."""
    match tree:
        case list():
            for inner in tree:
                _check_tree_spec(inner)
        case Mapping():
            if tree.get("type") not in PYTREES or "__enum__" in str(tree.get("context")):
                raise UntrustedError(f"an argument of type {str(tree.get('type'))[:200]!r}")
            _check_tree_spec(tree.get("children_spec", []))
        case _:
            return
