# SPDX-License-Identifier: Apache-2.0
"""Writes programs: C projects, ExecuTorch programs and TFLite files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pillion.compile_options import Memory
from pillion.compiled_program import CompiledProgram
from pillion.emitters.c.project import write_project
from pillion.emitters.c.selftest_source import SelfTest, self_test
from pillion.emitters.image.kernel_set import read_kernel_set, require_kernels
from pillion.emitters.image.npu_code import npu_code
from pillion.emitters.image.writer import image_bytes
from pillion.emitters.image_delegate import emit_with_images
from pillion.emitters.pte import bundle_with_samples
from pillion.emitters.pte import emit as emit_pte
from pillion.emitters.tflite import emit as emit_tflite
from pillion.errors import PillionError, warn
from pillion.host_io.atomic_files import output_suffix, write_whole
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.memory.npu_calls import NpuCalls
from pillion.ops import Segment, flatten_ops
from pillion.option_values import CORTEX_M, NEWEST_RUNTIME, PILLION, Runtime, known_runtime
from pillion.partition import inline_segments
from pillion.passes import decompose_silu, legalize_for_runtime, legalize_functions, sum_hard_sigmoids
from pillion.passes import run as run_passes
from pillion.run.executor import RunOptions
from pillion.run.image_check import reference_checksums
from pillion.run.selftest_samples import SelfTestSamples, no_selftest_error, samples_of
from pillion.run.stream_steps import run_stream_steps


def save(
    program: CompiledProgram,
    path: str | Path,
    runtime: Runtime = NEWEST_RUNTIME,
    *,
    force: bool = False,
    selftest: SelfTestSamples | None = None,
    kernels: str | Path | None = None,
) -> Path:
    """Writes the program in the form that the path's suffix selects: `.pte`, `.tflite`, a program image `.plm`, or a C
    project folder (see `firmware`). `kernels` is for a `.pte` (see `pte`), and for an image (see `image`).

    A `.pte` with NPU code gets files for the NPU's firmware next to it; with `selftest`, also a `.bpte`
    that bundles the samples."""
    path = Path(path)
    form = output_suffix(path)
    _refuse_kernels(path, form, kernels)
    runtime = known_runtime(runtime)
    if not (form == ".pte" and _has_images(kernels)):
        _refuse_other_forms(program, form)
    if form in (".tflite", ".plm") and selftest is not None:
        raise no_selftest_error(path)
    if form == ".plm":
        write_whole(path, image(program, kernels))
    elif form == ".pte":
        content = pte(program, runtime, kernels)
        bundle = bundled(program, selftest, runtime, kernels) if selftest is not None else None
        for name, text in program.payloads.firmware_files.items():
            write_whole(path.with_name(f"{path.stem}_{name}"), text.encode())
        write_whole(path, content)
        if bundle is not None:
            write_whole(path.with_suffix(".bpte"), bundle)
    elif form == ".tflite":
        if program.own_arithmetic is not None and program.graph.arithmetic is not Arithmetic.TFLITE:
            raise PillionError(
                f"a .tflite cannot compute `{program.graph.name}` in {program.graph.arithmetic.value} arithmetic",
                rule="LiteRT computes a .tflite in tflite arithmetic, whatever it was compiled for",
                here=f"--arithmetic {program.graph.arithmetic.value}",
                help="leave --arithmetic out, or write a .pte or a C project: -o folder/",
            )
        write_whole(path, tflite(program))
    else:
        firmware(program, path, force=force, selftest=selftest)
    return path


def _refuse_other_forms(program: CompiledProgram, form: str) -> None:
    """Raises if a program needs features of C projects that other runtimes lack."""
    if (
        form in (".pte", ".tflite")
        and program.memory_budget != Memory()
        and (program.stripes or program.memory.several)
    ):
        raise _untiled_program(program, form)
    if form in (".pte", ".tflite") and program.npu_calls is not NpuCalls.BLOCKING:
        raise PillionError(
            f"a {form} cannot run core and NPU at once",
            rule="--overlap is for C projects; runtimes of other programs wait for the NPU",
            here="--overlap",
            help="-o FOLDER for a C project, or leave --overlap out",
        )


def _refuse_kernels(path: Path, form: str, kernels: str | Path | None) -> None:
    if kernels not in (None, CORTEX_M, PILLION) and not Path(str(kernels)).exists():
        raise PillionError(
            f"there are no kernels `{kernels}`",
            rule=f"{CORTEX_M}, {PILLION}, or the manifest of a kernel set",
            here=f"--kernels {kernels}, and no file of this name",
            help="pillion kernels --all --core CORE -o FOLDER/ writes FOLDER/manifest.json",
        )
    if kernels is not None and (form not in (".plm", ".pte") or (form == ".plm" and kernels == CORTEX_M)):
        raise PillionError(
            f"--kernels {kernels} says nothing about {path}",
            rule="the kernels of a .pte are cortex_m or pillion; a kernel set is for program images, alone or in a .pte",
            here=f"-o {path}",
            help=f"-o {path.stem}.plm or {path.stem}.pte, or leave --kernels out",
        )


def _has_images(kernels: str | Path | None) -> bool:
    """Whether a .pte for these kernels holds program images."""
    return kernels not in (None, CORTEX_M)


def firmware(
    program: CompiledProgram,
    folder: str | Path,
    *,
    force: bool = False,
    selftest: SelfTestSamples | None = None,
) -> Path:
    """Writes the C project completely or not at all. It replaces an earlier project in the folder and keeps
    other files. If a file would be lost, or a generated file was edited, it refuses without `force`.

    With `selftest` samples (a file, or inputs of several runs), the project gets a function by which a
    device checks itself."""
    test = self_test_of(program, selftest) if selftest is not None else None
    write_project(program.project(test) if test else program.files, Path(folder), force)
    return Path(folder)


def self_test_of(program: CompiledProgram, samples: SelfTestSamples) -> SelfTest:
    """Computes the expected outputs of every op for sample inputs of several runs, or for a file of inputs."""
    return self_test(program.lowered.graph, samples_of(program.graph, samples))


def image(program: CompiledProgram, kernels: str | Path | None = None) -> bytes:
    """Returns the program as a program image. Raises if `kernels`, the manifest of a firmware's kernel set, lacks a kernel of it."""
    _require_firmware_kernels(program, kernels)
    return image_bytes(program.lowered, program.target.core.name, reference_checksums(program.graph))


def _require_firmware_kernels(program: CompiledProgram, kernels: str | Path | None) -> None:
    if kernels not in (None, PILLION):
        names = [routine.name for routine in program.lowered.routines]
        require_kernels(read_kernel_set(Path(str(kernels))), program.target.core, names)


def tflite(program: CompiledProgram) -> bytes:
    """Returns the whole graph as a TFLite file, which computes in LiteRT's arithmetic."""
    graph = inline_segments(_legalize_with_warnings(program, ".tflite"))
    graph = run_passes(graph, (sum_hard_sigmoids, decompose_silu))
    legalized = run_passes(graph, (legalize_functions,))
    if len(list(flatten_ops(legalized.ops))) > len(list(flatten_ops(graph.ops))):
        warn(
            ".tflite: sigmoids and tanh have steps of 1/256 and 1/128 there, and finer ones in C (docs/guide/quantization.md)"
        )
    return emit_tflite(legalized.replace(arithmetic=Arithmetic.TFLITE))


def pte(
    program: CompiledProgram, runtime: Runtime = NEWEST_RUNTIME, kernels: str | Path | None = None
) -> bytes:
    """Returns an ExecuTorch program: kernel calls for the core, delegate calls for the NPU's segments.

    `kernels` are those of the runtime's library `cortex_m` (the default), or `pillion`: then the core's segments are program
    images, for a runtime with the delegate of `pillion kernels --delegate`. The manifest of a firmware's kernel set means
    `pillion`, and raises if the set lacks a kernel of the program."""
    runtime = known_runtime(runtime)
    if _has_images(kernels):
        return _pte_with_images(program, runtime, kernels)
    payloads = [segment.payload for segment in program.payloads.segments]
    return emit_pte(
        _legalize_with_warnings(program, ".pte"),
        program.target.core,
        runtime,
        payloads,
        program.target.delegate,
    )


def _pte_with_images(program: CompiledProgram, runtime: Runtime, kernels: str | Path | None) -> bytes:
    program = _without_workspaces(program)
    _require_firmware_kernels(program, kernels)
    code = [segment.payload for segment in program.payloads.segments]
    target, checksums = program.target, reference_checksums(program.graph)
    return emit_with_images(program.lowered, target.core.name, runtime, code, target.delegate, checksums)


def delegate_data(program: CompiledProgram) -> bytes:
    """Returns the program as one delegate `PillionBackend` has it: an image, then the code of its NPU segments."""
    own = _without_workspaces(program)
    segments = [op for op in own.graph.ops if isinstance(op, Segment)]
    payloads = [segment.payload for segment in own.payloads.segments]
    return image(own) + (npu_code(own.target.delegate, segments, payloads) if segments else b"")


def _without_workspaces(program: CompiledProgram) -> CompiledProgram:
    """Returns the program for runtimes in which the NPU's delegate has memory of its own."""
    if not program.payloads.workspaces:
        return program
    own = replace(program)
    own.__dict__["payloads"] = replace(program.payloads, workspaces=())
    return own


def bundled(
    program: CompiledProgram,
    samples: SelfTestSamples,
    runtime: Runtime = NEWEST_RUNTIME,
    kernels: str | Path | None = None,
) -> bytes:
    """Returns a .bpte: the ExecuTorch program bundled with sample inputs and expected outputs."""
    graph = program.graph if _has_images(kernels) else legalize_for_runtime(program.graph)
    taken = samples_of(program.graph, samples)
    answers = list(run_stream_steps(graph, taken, RunOptions(stream=True), graph.reference_step))
    return bundle_with_samples(pte(program, runtime, kernels), taken, answers)


def _legalize_with_warnings(program: CompiledProgram, form: str) -> Graph:
    """Returns the graph for other runtimes, and warns of lost precision."""
    return legalize_for_runtime(
        program.graph, lambda words: warn(f"{form}: {words}"), is_litert=form == ".tflite"
    )


def _untiled_program(program: CompiledProgram, form: str) -> PillionError:
    return PillionError(
        f"a {form} cannot run `{program.graph.name}` a few rows at a time"
        if program.stripes
        else f"a {form} cannot divide `{program.graph.name}` among memories",
        rule="C projects alone have stripes (--max-ram, --extra, --rows-in) and several memories (--memory); runtimes of other programs "
        "hold whole tensors in one arena",
        here=f"{len(program.stripes)} stripes, {len(program.memory.arenas) or 1} arenas",
        help="-o FOLDER for a C project, or leave --max-ram, --extra, --memory and --rows-in out",
    )
