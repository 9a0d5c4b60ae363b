# SPDX-License-Identifier: Apache-2.0
"""What the text of the assembly takes for granted is checked when it is compiled: the length of a step of code, into which
jumps are computed, and the places of the fields that it loads. Each test plants a wrong number."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

KERNELS = Path(__file__).parents[2] / "kernels"
GCC = "arm-none-eabi-gcc"
CORES = {"dsp": "cortex-m33", "mve": "cortex-m55"}
FILES = [path for folder in CORES for path in sorted((KERNELS / folder).iterdir())]
STEP = re.compile(r"^#define (\w+_BYTES) (\d+)\b.*$", re.MULTILINE)
FIELD = re.compile(r"^PILLION_AT\((\w+), (\w+), (.+)\);$", re.MULTILINE)
FIELDS = re.compile(r"^PILLION_FIELDS_AT\((\w+), (offsetof\([^)]*\)(?: [+-] \d+)?|-?\d+), ", re.MULTILINE)

pytestmark = pytest.mark.skipif(shutil.which(GCC) is None, reason=f"needs {GCC}")


def including(path: Path) -> set[str]:
    """The file, and the names of all that include it, by other headers, too."""
    names = {path.name}
    for other in path.parent.iterdir():
        if other.name not in names and f'"{path.name}"' in other.read_text():
            names |= including(other)
    return names


def compile_with(path: Path, text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Compiles the sources of a folder with another text in the place of one of its files."""
    shutil.copytree(path.parent, folder, dirs_exist_ok=True)
    (folder / path.name).write_text(text)
    sources = [folder / name for name in sorted(including(path)) if name.endswith(".c")]
    command = [GCC, "-std=c99", "-O1", f"-mcpu={CORES[path.parent.name]}", "-mfloat-abi=hard", "-mthumb"]
    command += ["-I", str(KERNELS / "include"), "-c", *map(str, sources)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def steps() -> list[tuple[Path, str]]:
    """Files that jump into repeated code, and the names of the lengths that they compute with."""
    found = [(path, path.read_text()) for path in FILES]
    return [(path, name) for path, text in found for name, _ in STEP.findall(text) if f", {name}, " in text]


@pytest.mark.parametrize(("path", "name"), steps(), ids=lambda v: v if isinstance(v, str) else v.stem)
@pytest.mark.parametrize("wrong_by", [-4, 4])
def test_a_wrong_length_of_a_step_does_not_assemble(
    path: Path, name: str, wrong_by: int, tmp_path: Path
) -> None:
    text = re.sub(rf"(#define {name}) (\d+)", lambda m: f"{m[1]} {int(m[2]) + wrong_by}", path.read_text())
    done = compile_with(path, text, tmp_path)
    assert done.returncode != 0
    assert ".org backwards" in done.stderr


@pytest.mark.parametrize("path", dict.fromkeys(p for p, _ in steps()), ids=lambda p: p.stem)
def test_one_instruction_more_does_not_assemble(path: Path, tmp_path: Path) -> None:
    text = re.sub(r"(PILLION_REPEAT\([^,]+, \w+, \w+, )", r'\1"nop.w\\n" ', path.read_text())
    done = compile_with(path, text, tmp_path)
    assert done.returncode != 0
    assert ".org backwards" in done.stderr


def test_code_is_repeated_only_where_its_length_is_checked() -> None:
    assert len(steps()) >= 7
    assert [path.name for path in FILES if ".rept" in path.read_text()] == []


def moved_fields(path: Path) -> tuple[str, int]:
    """A file that takes each field for 4 bytes further, and how many checks it has."""
    text, count = FIELD.subn(r"PILLION_AT(\1, \2, \3 + 4);", path.read_text())
    text, runs = FIELDS.subn(r"PILLION_FIELDS_AT(\1, (\2) + 4, ", text)
    return text, count + runs


@pytest.mark.turns(3)
@pytest.mark.parametrize("path", [p for p in FILES if moved_fields(p)[1]], ids=lambda p: p.stem)
def test_a_moved_field_does_not_compile(path: Path, tmp_path: Path) -> None:
    wrong, count = moved_fields(path)
    done = compile_with(path, wrong, tmp_path)
    assert done.returncode != 0
    assert done.stderr.count("is_where_the_assembly_loads_it_from") >= count


HARD_REGISTERS = re.compile(
    r'PILLION_NAKED static|__asm__\("r0"\)|#define PILLION_DSP_ROWS\(|#define STRIP_OUTPUTS'
)


@pytest.mark.parametrize(
    "path", [p for p in FILES if HARD_REGISTERS.search(p.read_text())], ids=lambda p: p.name
)
def test_assembly_files_document_their_registers(path: Path) -> None:
    head = path.read_text().partition("*/")[0]
    assert "Registers" in head


def test_portable_headers_have_names_of_their_own() -> None:
    """A project has portable kernels beside those of one instruction set, all in one folder."""
    portable = {path.name for path in (KERNELS / "portable").glob("*.h")}
    for folder in ("dsp", "mve", "scalar", "host"):
        assert not portable & {path.name for path in (KERNELS / folder).glob("*.h")}, folder


def test_files_of_the_readme_exist() -> None:
    named = re.findall(r"`([\w/]+\.[ch])`", (KERNELS / "README.md").read_text())
    there = {
        name for path in KERNELS.rglob("*.[ch]") for name in (path.name, f"{path.parent.name}/{path.name}")
    }
    assert len(named) > 20
    assert [name for name in named if name not in there] == []


STATEMENT = re.compile(r'__asm(?:__)?\s*(?:volatile)?\s*\((?:"(?:[^"\\]|\\.)*"|[^";])*;')
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


def test_outputs_of_several_instructions_share_no_register_with_inputs() -> None:
    """An output is written before the last input is read: `&` says so. Without it the compiler may give both one register where it
    knows that they are equal, as it does when it optimizes at link time."""
    found = [
        (path.name, text) for path in KERNELS.rglob("*.[ch]") for text in STATEMENT.findall(path.read_text())
    ]
    several = [one for one in found if one[1].count("\\n") > 1 or re.search("[A-Z]{3,}|code", one[1])]
    with_inputs = [(name, outputs) for name, text in several for outputs in _outputs_beside_inputs(text)]
    assert [one for one in with_inputs if re.search(r'"\+(?!&)', one[1])] == []
    assert len(with_inputs) > 50


def _outputs_beside_inputs(statement: str) -> list[str]:
    """The outputs of an assembly statement that has inputs."""
    parts = STRING.sub(lambda m: m[0] if re.fullmatch(r"[=+&]*\w{1,3}", m[1]) else "", statement).split(":")
    return [parts[1]] if len(parts) > 2 and '"' in parts[2] else []
