# SPDX-License-Identifier: Apache-2.0
"""One-line faults in C, found in its tokens: changed comparisons, operators and numbers, statements that are left out. Comments, text
(that is, assembly too) and lines of the preprocessor are left alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from edits import Edit

BLANKED = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:\\\n|[^\n])*", re.S | re.M
)
OPERATORS = {
    " < ": (" <= ", " > "), " <= ": (" < ", " >= "), " > ": (" >= ", " < "), " >= ": (" > ", " <= "),
    " == ": (" != ",), " != ": (" == ",), " && ": (" || ",), " || ": (" && ",), " + ": (" - ",), " - ": (" + ",),
    " * ": (" + ",), " / ": (" * ",), " % ": (" / ",), " << ": (" >> ",), " >> ": (" << ",), " & ": (" | ",),
    " | ": (" & ",), " += ": (" -= ",), " -= ": (" += ",), " ^ ": (" & ",),
}  # fmt: skip
OPERATOR = re.compile("|".join(re.escape(o) for o in sorted(OPERATORS, key=len, reverse=True)))
NUMBER = re.compile(r"(?<![\w.])(\d+)([uUlL]*)(?![\w.])")
STATEMENT = re.compile(
    r"^[ \t]+((?!return|break|continue|goto|static|const|typedef)(?:\w+\([^;{}]*\)|[\w\[\].>-]+ [-+*|&]?= [^;{}]*);)$"
)
CONDITION = re.compile(r"\bif \(([^()]*(?:\([^()]*\)[^()]*)*)\)")


def edits(text: str) -> Iterator[Edit]:
    """All faults of a text, line by line."""
    visible = BLANKED.sub(lambda m: re.sub(r"[^\n]", "\x01", m[0]), text)
    for number, (line, whole) in enumerate(zip(visible.split("\n"), text.split("\n"), strict=True), 1):
        if whole.isascii():  # columns are bytes
            yield from _of_line(number, line)


def _of_line(number: int, line: str) -> Iterator[Edit]:
    for found in OPERATOR.finditer(line):
        for new in OPERATORS[found[0]]:
            yield Edit(number, *found.span(), new, "operator")
    for found in NUMBER.finditer(line):
        yield Edit(number, *found.span(1), str(int(found[1]) + 1), "constant")
        if int(found[1]):
            yield Edit(number, *found.span(1), str(int(found[1]) - 1), "constant")
    for found in STATEMENT.finditer(line):
        yield Edit(number, *found.span(1), ";", "statement left out")
    for found in CONDITION.finditer(line):
        yield Edit(number, *found.span(1), "1", "always")
        yield Edit(number, *found.span(1), "0", "never")
