# SPDX-License-Identifier: Apache-2.0
"""`--native`: programs run on this computer by kernels for its vectors. They give the reference's bytes, and no product holds them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pillion
from example_graphs import samples_of, side_by_side
from pillion import zoo
from pillion.boards import toolchain
from pillion.boards.build import Compiler
from pillion.boards.toolchain import HOST_COMPILER, Processor, compiler_view_of_processor, host_compiler
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel_lists import KERNELS_OF
from pillion.emitters.c.manifest import MANIFEST, manifest_of
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import all_ok
from pillion.program import Program
from pillion.run import host_executor as run_host
from pillion.run.executor import RunOptions
from pillion.run.host_executor import HostExecutor, files_for_host
from pillion.targets import find_target

pytestmark = pytest.mark.skipif(HOST_COMPILER.find() is None, reason="needs a C compiler")
NATIVE = RunOptions(native=True)
needs_vectors = pytest.mark.skipif(
    HOST_COMPILER.find() is None or not compiler_view_of_processor(host_compiler()).has_vectors,
    reason="needs AVX2",
)


def examples() -> Graph:
    """One example of each op that has a kernel for vectors, as large as it comes."""
    ops = []
    for cls in dict.fromkeys(kernel.op for kernel in KERNELS_OF[Isa.HOST]):
        rows = [kernel for kernel in KERNELS_OF[Isa.HOST] if kernel.op is cls]
        taken = [op for op in cls.examples() if any(all_ok(k.check(op, Arithmetic.CMSIS_NN)) for k in rows)]
        ops += sorted(taken, key=lambda op: op.results[0].type.elements)[-1:]
    return side_by_side(ops, "vectors")


def zoo_program(target: str) -> Program:
    module, example = zoo.build("separable_residual")
    return pillion.compile(
        module, example, target=target, calibrate=zoo.random_inputs("separable_residual", 1)
    )


def names_of(program: Program) -> set[str]:
    """The kernels of a program as it is run on this computer with all that there is."""
    text = files_for_host(program, NATIVE)[MANIFEST]
    return {op.kernel for op in manifest_of(str(text)).ops}


@pytest.mark.turns(3)
@needs_vectors
def test_every_kernel_in_one_program() -> None:
    graph = examples()
    program = Program(graph, find_target("cortex-m55"))
    assert {name for name in names_of(program) if name.endswith("_host")} >= {
        "conv2d_host",
        "depthwise_conv2d_host",
        "linear_host",
        "sum_host",
        "mul_host",
        "lut_host",
        "quantize_host",
    }
    samples = samples_of(graph, 2)
    for sample, result in zip(samples, HostExecutor().run(program, samples, NATIVE), strict=True):
        for got, wanted in zip(result.outputs, graph.reference(*sample), strict=True):
            assert np.array_equal(got.view(np.uint8), wanted.view(np.uint8))


@needs_vectors
@pytest.mark.parametrize("target", ["cortex-m33", "imxrt700"])
def test_a_model_also_where_an_npu_has_a_part_of_it(target: str) -> None:
    program = zoo_program(target)
    inputs = [x.numpy() for x in zoo.random_inputs("separable_residual", 1, seed=3)[0]]
    (got,) = program.measure(*inputs, on="host", native=True).outputs
    (wanted,) = program.run(*inputs)
    assert np.array_equal(got.view(np.uint8), wanted.view(np.uint8))
    sources = [path for path in files_for_host(program, NATIVE) if path.endswith("_host.c")]
    assert any("conv2d" in path for path in sources), "the NPU's part has its kernels too"


def test_products_hold_none_of_them() -> None:
    for target in ("cortex-m3", "cortex-m33", "imxrt700"):
        files = zoo_program(target).files
        assert not [path for path in files if re.search(r"_host\.c|/host\.h|vector\.h", path)]


def test_without_being_asked_for_the_product_s_c_is_run() -> None:
    program = zoo_program("cortex-m33")
    assert files_for_host(program) is program.files


def test_without_vectors_too(monkeypatch: pytest.MonkeyPatch) -> None:
    program = zoo_program("cortex-m33")
    monkeypatch.setattr(run_host, "compiler_view_of_processor", lambda command: Processor((), ""))
    assert files_for_host(program, NATIVE) is program.files


# --- the processor ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("macros", "has_vectors"),
    [
        ("#define __AVX2__ 1\n#define __FMA__ 1\n#define __x86_64__ 1", True),
        ("#define __AVX2__ 1\n#define __x86_64__ 1", False),
        ("#define __FMA__ 1\n#define __x86_64__ 1", False),
        ("#define __ARM_NEON 1", False),
        ("", False),
    ],
)
def test_vectors_are_detected_from_compiler_macros(macros: str, has_vectors: bool) -> None:
    assert Processor(("-march=native",), macros).has_vectors == has_vectors


def shell(path: Path, text: str) -> tuple[str, ...]:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return (str(path),)


def test_native_flags_are_asked_of_the_compiler(tmp_path: Path) -> None:
    """Some have a flag of their own, and some have none."""
    toolchain.compiler_view_of_processor.cache_clear()
    plain = shell(tmp_path / "plain", "exit 1")
    arm = shell(tmp_path / "arm", 'test "$1" = -mcpu=native && echo "#define __ARM_NEON 1"')
    assert compiler_view_of_processor(plain) == Processor((), "")
    assert compiler_view_of_processor(arm) == Processor(("-mcpu=native",), "#define __ARM_NEON 1")


def test_objects_are_kept_apart_by_processor() -> None:
    """Several computers may share a cache: what is compiled for all of one would crash on another."""
    compiler = Compiler(host_compiler(), ("-march=native",), "#define __AVX2__ 1")
    assert compiler.key() == replace(compiler).key()
    assert compiler.key() != replace(compiler, machine="").key()
