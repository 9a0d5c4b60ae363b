# SPDX-License-Identifier: Apache-2.0
"""Lines of code by part, and what is longer than it should be: files over 400 lines, functions over 40."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST_FILE_LINES, MOST_FUNCTION_LINES = 400, 40


def python_files() -> list[Path]:
    return sorted((ROOT / "src").rglob("*.py"))


def long_functions(path: Path) -> list[str]:
    tree = ast.parse(path.read_text("utf-8"))
    functions = (n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return [
        f"{path.relative_to(ROOT)}:{f.lineno} {f.name}: {f.end_lineno - f.lineno + 1} lines"
        for f in functions
        if f.end_lineno and f.end_lineno - f.lineno + 1 > MOST_FUNCTION_LINES
    ]


def main() -> None:
    parts: Counter[str] = Counter()
    for path in python_files():
        part = path.relative_to(ROOT / "src" / "pillion").parts[0].removesuffix(".py")
        parts[part] += len(path.read_text("utf-8").splitlines())
    for path in (ROOT / "kernels").rglob("*.[ch]"):
        parts[f"kernels/{path.relative_to(ROOT / 'kernels').parts[0]}"] += len(
            path.read_text("utf-8").splitlines()
        )
    for part, lines in parts.most_common():
        print(f"{lines:7,}  {part}")
    print(f"{sum(parts.values()):7,}  in all")
    for path in python_files():
        lines = len(path.read_text("utf-8").splitlines())
        if lines > MOST_FILE_LINES:
            print(f"long file: {path.relative_to(ROOT)}: {lines} lines")
        for line in long_functions(path):
            print(f"long function: {line}")


if __name__ == "__main__":
    main()
