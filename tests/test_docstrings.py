# SPDX-License-Identifier: Apache-2.0
"""Every public definition of the package says in a whole sentence what it is, for a reader who sees nothing else of it.

Exempt are, by rule: what a class takes over from a base that says it already; tables of a file format, whose names and fields are
the format's; `forward` of a torch module."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "pillion"
WORDS = """about above across after against along among around as at before behind below beneath beside between beyond by during
for from in inside into like near of off on onto out outside over past per since through to toward towards under until upon via with
within without"""
PREPOSITIONS = frozenset(WORDS.split())
BACK_TO_THE_LINE_BEFORE = ("the same.", "the same for", "the other way", "likewise", "ditto")
FEWEST_WORDS = 3

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Public(NamedTuple):
    """A public definition, and the class that it stands in."""

    place: str
    node: Definition
    owner: ast.ClassDef | None


def definitions(body: list[ast.stmt], file: str, owner: ast.ClassDef | None = None) -> Iterator[Public]:
    for node in body:
        if isinstance(node, (ast.If, ast.Try)):
            yield from definitions(node.body, file, owner)
        elif isinstance(node, Definition) and not node.name.startswith("_"):
            yield Public(f"{file}: {owner.name + '.' if owner else ''}{node.name}", node, owner)
            if isinstance(node, ast.ClassDef):
                yield from definitions(node.body, file, node)


@cache
def all_public() -> tuple[Public, ...]:
    files = sorted(SOURCE.rglob("*.py"))
    return tuple(
        one for f in files for one in definitions(ast.parse(f.read_text()).body, str(f.relative_to(SOURCE)))
    )


@cache
def classes() -> dict[str, list[ast.ClassDef]]:
    found: dict[str, list[ast.ClassDef]] = {}
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(node)
    return found


@cache
def base_names(node: ast.ClassDef) -> frozenset[str]:
    """The names of all bases, those of bases included."""
    names = {ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases}
    others = {other for name in names for other in classes().get(name, []) if other is not node}
    return frozenset(names.union(*map(base_names, others)))


def says(node: ast.ClassDef, name: str) -> bool:
    """Whether a class has a documented member of this name, or a field."""
    for member in node.body:
        if isinstance(member, Definition) and member.name == name and ast.get_docstring(member):
            return True
        if isinstance(member, ast.AnnAssign) and ast.unparse(member.target) == name:
            return True
    return False


def is_exempt(one: Public) -> bool:
    if isinstance(one.node, ast.ClassDef):
        return "Table" in base_names(one.node)
    if one.owner is None:
        return False
    bases = base_names(one.owner)
    is_taken_over = any(says(base, one.node.name) for name in bases for base in classes().get(name, []))
    return is_taken_over or (one.node.name == "forward" and "Module" in bases)


def fault_of(doc: str) -> str:
    """What is wrong with a docstring; its first paragraph is what counts."""
    first = " ".join(doc.split("\n\n")[0].split())
    words = first.split()
    if not re.match(r"[A-Z]", first):
        return "does not begin with a capital letter"
    if not first.endswith("."):
        return "does not end with a full stop"
    if words[0].strip(",.;:").lower() in PREPOSITIONS:
        return "begins with a preposition"
    if first.lower().startswith(BACK_TO_THE_LINE_BEFORE):
        return "needs the line before"
    return "is no sentence" if len(words) < FEWEST_WORDS else ""


def test_every_public_definition_says_what_it_is() -> None:
    missing = [one.place for one in all_public() if not ast.get_docstring(one.node) and not is_exempt(one)]
    assert missing == []


def test_docstrings_are_sentences_that_stand_alone() -> None:
    documented = [(one.place, doc) for one in all_public() if (doc := ast.get_docstring(one.node))]
    assert len(documented) > 1000  # the package was found
    assert {place: f"{fault}: {doc}" for place, doc in documented if (fault := fault_of(doc))} == {}


@pytest.mark.parametrize(
    "doc",
    [
        "Of both strides.",
        "Of nothing.",
        "A file.",
        "no capital letter here.",
        "No full stop",
        "The same for each channel.",
        "a + b",
    ],
)
def test_a_fragment_is_found(doc: str) -> None:
    assert fault_of(doc)


def test_inherited_docstrings_suffice() -> None:
    by_place = {one.place: one for one in all_public()}
    assert is_exempt(by_place["ops/conv.py: Conv2d.sums"])
    assert is_exempt(by_place["schemas/tflite.py: SubGraph"])
    assert is_exempt(by_place["zoo/resnet8.py: ResNet8.forward"])
    assert not is_exempt(by_place["importers/pte/steps.py: OpStep.emit"])
    assert not is_exempt(by_place["compiler.py: compile"])
