# SPDX-License-Identifier: Apache-2.0
"""The tool that plants faults: what it changes, what it leaves alone, and that its record keeps the promise."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tools" / "mutants"
PYTHON = '''
"""Not < this."""
LIMIT: "int < 3" = 40

def bounded(x, low, high=7):
    """Not == this."""
    if x < low and not x == 3:
        raise ValueError(f"{x < low}: 1 + 1", 1 + 1)
    assert x != 9
    return max(x + 1, low, key=None)
'''
C = """/* a < b; */
#define N 12 /* stays */
int f(int x, char *text) {
    x += 2; // a + b
    if (x < 3 && text[0] == '1') {
        print("1 + 1");
        return x * 4;
    }
    return 0;
}
"""


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of the tool, by its name."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


def changed(tool: Any, module: str, text: str) -> list[str]:
    """The changed lines of all faults of a text, each of which differs from the line that it was in one place."""
    found = []
    for edit in tool(module).edits(text):
        line = text.split("\n")[edit.line - 1]
        new = line[: edit.begin] + edit.new + line[edit.end :]
        assert new != line
        found.append(new.strip())
    return found


def test_python_is_changed_in_its_code_only(tool: Any) -> None:
    found = changed(tool, "python_faults", PYTHON)
    assert {
        'LIMIT: "int < 3" = 41', "if x <= low and not x == 3:", "if x > low and not x == 3:", "if x < low or not x == 3:",
        "if x < low:", "if not x == 3:", "if x < low and x == 3:", "if x < low and not x != 3:", "if True:", "if False:",
        "def bounded(x, low, high=8):", "return max(x - 1, low, key=None)", "return min(x + 1, low, key=None)",
        "return max(low, x + 1, key=None)", "return max(x + 1, low)", "return None",
    } <= set(found)  # fmt: skip
    assert not [line for line in found if line.startswith(('"""', "raise", "assert")) or "int >" in line]


def test_faults_in_python_can_be_parsed(tool: Any) -> None:
    lines = PYTHON.split("\n")
    for edit in tool("python_faults").edits(PYTHON):
        line = lines[edit.line - 1]
        new = [*lines]
        new[edit.line - 1] = line[: edit.begin] + edit.new + line[edit.end :]
        assert ast.dump(ast.parse("\n".join(new))) != ast.dump(ast.parse(PYTHON))


def test_c_is_changed_in_its_code_only(tool: Any) -> None:
    found = changed(tool, "c_faults", C)
    assert {
        "x -= 2; // a + b", "x += 3; // a + b", "x += 1; // a + b", "if (x <= 3 && text[0] == '1') {",
        "if (x < 3 || text[0] == '1') {", "if (x < 3 && text[0] != '1') {", "if (x < 3 && text[1] == '1') {",
        "if (0) {", "if (1) {", "return x + 4;", "return x * 3;", "return 1;",
    } <= set(found)  # fmt: skip
    assert not [
        line for line in found if line.startswith(("/*", "#", "print")) or "'2'" in line or "a - b" in line
    ]


def test_the_same_seed_draws_the_same_faults(tool: Any) -> None:
    part = next(p for p in tool("parts").PARTS if p.name == "memory")
    draw = tool("faults").in_random_order

    def keys(seed: int) -> list[str]:
        return [fault.key for fault in draw(ROOT, part.name, part.files(ROOT), seed)]

    assert keys(1) == keys(1) != keys(2)
    assert len(set(keys(1))) > 50


def test_every_part_has_files_and_tests(tool: Any) -> None:
    parts = tool("parts").PARTS
    rooms = {path.parent.name for path in (ROOT / "src" / "pillion").glob("*/__init__.py")}
    assert {part.name for part in parts} == {*rooms, "quantize", "kernels"}
    for part in parts:
        assert part.files(ROOT)
        assert all(list((ROOT / "tests" / folder).glob("test_*.py")) for folder in part.tests)


@pytest.mark.turns(4)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("was", "became", "outcome"), [("a + b", "a - b", "killed"), ("(0)", "(0 + 0)", "survived")]
)
def test_a_fault_is_judged_by_the_tests_that_call_it(
    was: str, became: str, outcome: str, tmp_path: Path
) -> None:
    """In a project of one function, in a process of its own since the judge forks."""
    source, tests = tmp_path / "src" / "pillion" / "ir", tmp_path / "tests" / "ir"
    for folder in (source, tests):
        folder.mkdir(parents=True)
    (source.parent / "__init__.py").touch()
    (source / "__init__.py").touch()
    (source / "sums.py").write_text("def total(a, b):\n    print(0)\n    return a + b\n")
    (tests / "test_sums.py").write_text(
        "from pillion.ir.sums import total\ndef test_it(): assert total(1, 2) == 3\n"
    )
    code = (
        "import json, trial, parts; from pathlib import Path; from faults import Fault; from edits import Edit\n"
        "root = Path('tree'); trial.copy_of(Path('.'), root / 'project'); tree = (root / 'project').resolve()\n"
        "part = parts.Part('ir', ('ir',)); trial.map_tests(tree, 'ir', Path('tests-ir.json').resolve())\n"
        "lines = (tree / 'src/pillion/ir/sums.py').read_text().split('\\n')\n"
        f"number = next(n for n, line in enumerate(lines) if {was!r} in line); line = lines[number]\n"
        f"begin = line.index({was!r}); edit = Edit(number + 1, begin, begin + {len(was)}, {became!r}, '')\n"
        "known = trial.known_tests(part, Path('.'))\n"
        "print(trial.judge(Fault('ir', 'src/pillion/ir/sums.py', edit, line), part, tree, known).outcome)\n"
        "assert (tree / 'src/pillion/ir/sums.py').read_text().split('\\n') == lines"
    )
    code = f"import sys; sys.path.insert(0, {str(FOLDER)!r})\n{code}"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == outcome
