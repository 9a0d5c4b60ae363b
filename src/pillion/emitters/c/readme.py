# SPDX-License-Identifier: Apache-2.0
"""`README.md` of a C project: the folders that a product takes, and how to call, build and run the model."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pillion.boards.board import OPTIMIZE_FLAGS
from pillion.emitters.c import model_source
from pillion.emitters.c.escaping import C_TYPES, comment_text
from pillion.emitters.c.lower import CProgram
from pillion.emitters.c.manifest import ManifestMemory
from pillion.emitters.c.text_templates import fill_template
from pillion.ir.types import Value


def project_readme(
    program: CProgram, target: str, boards: Sequence[str], paths: Collection[str], memory: ManifestMemory
) -> str:
    """Returns the README of a project with these files, for these boards."""
    folders = {path.split("/")[0] for path in paths if "/" in path}
    values = {**_file_facts(paths, folders), **_program_facts(program, memory), "target": target}
    values |= {
        "run_boards": "\n".join(
            f"make {f'run-{board}':<30} # in the emulator; RUN=profile counts the ticks of each op"
            for board in boards
        ),
        "board": boards[0],
    }
    kinds: dict[str, object] = {"rows": program.feed, "stream": program.stream, "state": program.graph.states}
    kinds |= {"copied": values["copy_inputs"], "results": values["copy_outputs"], "notes": values["notes"]}
    kinds |= {
        "segments": values["segments"],
        "npu_memory": memory.npu and (memory.npu.ram_bytes or memory.npu.flash_bytes),
    }
    kinds |= {
        "steps": program.in_steps,
        "npu_header": "model/npu.h" in paths,
        "run": program.feed is None and program.stream is None,
    }
    return fill_template("README.md", values, {*folders, *(name for name, there in kinds.items() if there)})


def _file_facts(paths: Collection[str], folders: Collection[str]) -> dict[str, str]:
    """Returns the values that depend on the files of the project."""
    has_driver = "npu" in folders
    segments = sorted(path for path in paths if path.startswith("npu_segment_"))
    notes = sorted(path for path in paths if path.endswith(".txt") and path != "CMakeLists.txt")
    return {
        "taken": "two folders: `model/` and `npu/`" if has_driver else "one folder: `model/`",
        "segments": ", ".join(f"`{path}`" for path in segments),
        "segments_taken": "no" if has_driver else "as the NPU's driver requires",
        "notes": "\n".join(
            f"| `{path}` | what the NPU's firmware must contain | as the NPU's driver requires |"
            for path in notes
        ),
    }


def _program_facts(program: CProgram, memory: ManifestMemory) -> dict[str, str]:
    """Returns the values that depend on the program: its interface and its memory."""
    graph, fed, stream, npu = program.graph, program.feed, program.stream, memory.npu
    numbered = [(i, v) for i, v in enumerate(graph.inputs) if fed is None or v is not fed.value]
    kinds = [f"{C_TYPES[v.dtype.value]} " if stream is not None else "void " for _, v in numbered]
    parameters = [f"const {kind}*input_{i}" for kind, (i, _) in zip(kinds, numbered, strict=True)]
    parameters += [f"void *output_{i}" for i in range(len(graph.outputs))]
    arena = "&memories" if program.memory.arenas else "arena"
    macro, at_least = graph.name.upper(), "" if npu is None or npu.is_exact else "at least "
    return {
        **{"model": graph.name, "MODEL": macro, "alignment": str(program.memory.alignment)},
        **{"arenas": _arena_definitions(program), "arena": arena},
        "the_arena": "The arenas have" if program.memory.arenas else "The arena has",
        **{"parameters": ", ".join(parameters), "state": "state, " if graph.states else ""},
        "inputs": ", ".join(f"input_{i}" for i, _ in numbered),
        "stream": "\n".join(f"/* {comment_text(line)} */" for line in stream.streaming.lines)
        if stream
        else "",
        "copy_inputs": "\n".join(
            _memcpy_example(v, f"{macro}_INPUT_{i}({arena}), input_{i}")
            for i, v in numbered
            if stream is None
        ),
        "copy_outputs": "\n".join(
            _memcpy_example(v, f"output_{i}, {macro}_OUTPUT_{i}({arena})")
            for i, v in enumerate(graph.outputs)
        ),
        "fed": model_source.describe_value(fed.value) if fed is not None else "",
        "writable": "the arena and the state" if graph.states else "the arena",
        **{"state_bytes": f"{memory.state_bytes:,}", "arena_bytes": f"{memory.arena_bytes:,}"},
        "constant_bytes": f"{program.constant_bytes:,}",
        "npu_ram": f"{at_least}{npu.ram_bytes:,}" if npu is not None else "",
        "npu_flash": f"{at_least}{npu.flash_bytes:,}" if npu is not None else "",
        "level": " ".join(OPTIMIZE_FLAGS[program.optimize]),
    }


def _arena_definitions(program: CProgram) -> str:
    """Returns C that defines the arena, or one arena in each memory; a product places them there by its linker script."""
    name, aligned = program.graph.name, f"__attribute__((aligned({program.memory.alignment})"
    arenas = [one.memory.name for one in program.memory.arenas]
    if not arenas:
        return f"static uint8_t arena[{name.upper()}_ARENA_BYTES] {aligned}));"
    defined = [
        f'static uint8_t in_{memory}[{name.upper()}_{memory.upper()}_BYTES] {aligned}, section(".bss.{memory}")));'
        for memory in arenas
    ]
    pointers = ", ".join(f".{memory} = in_{memory}" for memory in arenas)
    return "\n".join([*defined, f"static const {name}_memories memories = {{{pointers}}};"])


def _memcpy_example(value: Value, places: str) -> str:
    return f"    /* {model_source.describe_value(value)} */\n    memcpy({places}, {value.type.size_bytes});"
