# SPDX-License-Identifier: Apache-2.0
"""What holds for every program. Each property takes a graph and raises where it does not hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from example_graphs import boundary_like
from fuzz.choices import from_seed
from fuzz.memory_walk import check_plan
from fuzz.scan_programs import repeated
from installed_executorch import INSTALLED
from judge.inputs import samples as samples_for_kernels
from partition.graphs import EAGER, ON_M33, SOME_NPU, one_by_one
from pillion import passes
from pillion.compile_options import PlacementOptions
from pillion.devices.cortex_m import CORES, Isa
from pillion.emitters.c.lower import lower
from pillion.emitters.c.project import project_files
from pillion.emitters.pte import emit as emit_pte
from pillion.emitters.tflite import emit as emit_tflite
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.text import to_text
from pillion.ir.types import Array, Value
from pillion.ir.verify import verify_graph
from pillion.ops import (
    Dequantize,
    Detections,
    Div,
    Function,
    Gather,
    Lut,
    Quantize,
    ReduceSum,
    Softmax,
    parse,
    split_into_tiles,
    unroll_loops,
)
from pillion.ops.example_values import random_like
from pillion.option_values import Optimize
from pillion.partition import partition
from pillion.passes.int8_io import int8_io
from pillion.passes.split_groups import split_groups
from pillion.program import Program
from pillion.run.executor import RunOptions
from pillion.run.executor_list import run_project
from pillion.run.host_executor import HostExecutor
from pillion.run.project_folder import temporary_project
from pillion.targets import find_target
from pillion.tiling.stripe import Stripe, striped

Property = Callable[[Graph], None]


def samples(graph: Graph, count: int = 2) -> list[list[Array]]:
    random = [[random_like(v, seed) for v in graph.inputs] for seed in range(1, count + 1)]
    return [*random, [boundary_like(v) for v in graph.inputs]]


def require_same(graph: Graph, wanted: Sequence[Array], got: Sequence[Array], where: str) -> None:
    """The same bytes, shapes and types."""
    assert len(wanted) == len(got) == len(graph.outputs), where
    for value, ours, theirs in zip(graph.outputs, wanted, got, strict=True):
        same = ours.shape == theirs.shape and ours.dtype == theirs.dtype
        assert same, f"{where}: {value} is {theirs.dtype}{theirs.shape}"
        wrong = np.count_nonzero(_bytes(ours) != _bytes(theirs))
        assert not wrong, f"{where}: {wrong} bytes of {value} differ"


def _bytes(array: Array) -> Array:
    return np.asarray(array.reshape(-1).view(np.uint8))


def text_round_trip(graph: Graph) -> None:
    again = verify_graph(parse(to_text(graph)))
    assert to_text(again) == to_text(graph)
    for inputs in samples(graph, 1):
        require_same(graph, graph.reference(*inputs), again.reference(*inputs), "parsed")


def passes_keep_the_bytes(graph: Graph) -> None:
    wanted = [graph.reference(*inputs) for inputs in samples(graph, 1)]

    def compare(after: str, changed: Graph) -> None:
        assert [v.type for v in changed.inputs] == [v.type for v in graph.inputs], after
        assert [v.name for v in changed.outputs] == [v.name for v in graph.outputs], after
        for inputs, outputs in zip(samples(graph, 1), wanted, strict=True):
            require_same(graph, outputs, changed.reference(*inputs), after)

    passes.run(graph, (*passes.PIPELINE, split_groups), compare)


def int8_borders_keep_the_bytes(graph: Graph) -> None:
    """What is quantized outside answers what is quantized inside, and outputs lose only their dequantize."""
    real = passes.run(graph)
    integer = passes.run(int8_io(real))
    for inputs in samples(graph, 1):
        pairs = zip(real.inputs, integer.inputs, inputs, strict=True)
        got = integer.reference(*(_quantized(real, v, w, array) for v, w, array in pairs))
        borders = zip(real.outputs, integer.outputs, got, strict=True)
        again = [_dequantized(real, v, w, array) for v, w, array in borders]
        require_same(graph, graph.reference(*inputs), again, "int8 borders")


def _quantized(graph: Graph, real: Value, integer: Value, array: Array) -> Array:
    if real.type == integer.type:
        return array
    user = graph.only_user(real)
    assert isinstance(user, Quantize)
    assert user.y.type == integer.type
    return user.reference(graph.arithmetic, array)


def _dequantized(graph: Graph, real: Value, integer: Value, array: Array) -> Array:
    if real.type == integer.type:
        return array
    maker = graph.producers[real]
    assert isinstance(maker, Dequantize)
    assert maker.x.type == integer.type
    return maker.reference(graph.arithmetic, array)


def memory_is_sound(graph: Graph) -> None:
    for isa in Isa:
        check_plan(lower(graph, isa))
        check_plan(lower(passes.run(graph), isa))


def host_is_the_reference(graph: Graph) -> None:
    with temporary_project(dict(project_files(lower(graph), "host"))) as folder:
        for inputs in samples(graph):
            require_same(graph, graph.reference(*inputs), run_project(folder, inputs).outputs, "host C")


def native_is_the_reference(graph: Graph) -> None:
    """By the kernels for this computer's vectors, where it has some."""
    every = samples(graph)
    program = Program(graph, find_target("cortex-m3"))
    for inputs, result in zip(
        every, HostExecutor().run(program, every, RunOptions(native=True)), strict=True
    ):
        require_same(graph, graph.reference(*inputs), result.outputs, "native C")


def placed_is_the_reference(graph: Graph, eager: bool = True) -> None:
    """Each op in the arithmetic of its unit, whatever segments they form; then the C of the whole."""
    graph = split_groups(passes.run(graph))
    try:
        placement = partition(graph, EAGER if eager else SOME_NPU, ON_M33, PlacementOptions())
    except PillionError as refusal:
        raise AssertionError(f"placement refuses: {refusal}") from None
    placed = verify_graph(placement.graph)
    for inputs in samples(graph, 1):
        require_same(graph, one_by_one(graph, placement, inputs), placed.reference(*inputs), "placed")
    host_is_the_reference(parse(to_text(placed)))


def in_rows(graph: Graph) -> Graph:
    """Random parts of a graph as regions, in steps of random sizes."""
    choices = from_seed(
        len(graph.ops) * 1_000 + sum(v.type.elements for op in graph.ops for v in op.results) % 997
    )
    stripes, at = [], 0
    while at < len(graph.ops):
        ends = [end for end in range(at + 1, min(at + 9, len(graph.ops)) + 1) if is_region(graph, at, end)]
        if not ends or choices.one_in(6):
            at += 1
            continue
        end = choices.pick(ends[::-1])
        fed = fed_by_rows(graph, at, end) if choices.one_in(2) and not any(s.fed for s in stripes) else ""
        stripes.append(Stripe(at, end, choices.pick((1, 2, 3, 4)), choices.pick((0, 0, 1, 2)), fed))
        at = end
    return verify_graph(striped(graph, stripes))


def fed_by_rows(graph: Graph, first: int, end: int) -> str:
    """The first input that nothing but these ops reads, and that can come row by row; none if there is none."""
    inside = set(graph.ops[first:end])
    alone = [v for v in graph.inputs if v not in graph.sinks and set(graph.users.get(v, ())) <= inside]
    read = [v.name for v in alone if graph.users.get(v)]
    return next((name for name in read if is_region(graph, first, end, name)), "")


def is_region(graph: Graph, first: int, end: int, fed: str = "") -> bool:
    ops = graph.ops[first:end]
    used = {v for op in graph.ops[end:] for v in op.operands} | set(graph.outputs)
    if not any(r in used for r in ops[-1].results):
        return False
    try:
        split_into_tiles(graph, first, end, 1, fed=fed).check()
    except PillionError:
        return False
    return True


def rows_keep_the_bytes(graph: Graph) -> None:
    """What runs a few rows at a time means the same, and its C on this computer does the same."""
    parts = in_rows(graph)
    for inputs in samples(graph, 1):
        require_same(graph, graph.reference(*inputs), parts.reference(*inputs), "regions")
    host_is_the_reference(parts)


def in_loops(graph: Graph) -> Graph | None:
    """A program that runs many times; now and then it runs many times in each of many times."""
    choices = from_seed(len(graph.ops) * 31 + len(graph.inputs))
    loop = repeated(graph, choices)
    return repeated(loop, choices) if loop is not None and choices.one_in(3) else loop


def repetitions_keep_the_bytes(graph: Graph) -> None:
    """A program that runs many times means the same as its copies one after another, in text too, and its C does the same."""
    loop = in_loops(graph)
    if loop is None:
        return
    text_round_trip(loop)
    copies = verify_graph(unroll_loops(loop))
    for inputs in samples(loop, 1):
        require_same(loop, loop.reference(*inputs), copies.reference(*inputs), "unrolled")
    host_is_the_reference(loop)


def repetitions_on_board_keep_the_bytes(graph: Graph, target: str) -> None:
    loop = in_loops(graph)
    if loop is not None:
        board_is_the_reference(loop, target)


def rows_on_board_keep_the_bytes(graph: Graph, target: str) -> None:
    board_is_the_reference(in_rows(graph), target)


# --- other people's executors


def in_litert(op: Op) -> bool:
    """Whether LiteRT has the op, computes it with its reference kernel as meant, and does not stop the process."""
    if isinstance(op, Lut) and op.function in (Function.SQRT, Function.RSQRT):
        return False  # refuses negative numbers at run time
    if isinstance(op, Softmax) and op.x.shape[-1] > 512:
        return False  # aborts where sums exceed what it expects
    if isinstance(op, Gather) and not op.indices.is_constant:
        return False  # stops at numbers that no slice has
    if isinstance(op, Detections):
        return False  # leaves what stands behind the last box as it was
    if isinstance(op, ReduceSum) or (isinstance(op, Div) and not op.b.is_constant):
        return False
    return _emits(op, Arithmetic.TFLITE, lambda graph: emit_tflite(graph))


def in_executorch(op: Op) -> bool:
    return _emits(op, Arithmetic.CMSIS_NN, lambda graph: emit_pte(graph, CORES["cortex-m33"], INSTALLED))


def _emits(op: Op, arithmetic: Arithmetic, emit: Callable[[Graph], bytes]) -> bool:
    try:
        emit(Graph("one", op.activations, (op,), op.results, arithmetic))
    except PillionError:
        return False
    return True


def finite(array: Array) -> Array:
    """LiteRT's conversion to integers is undefined outside of their range."""
    return array if array.dtype != np.float32 else np.clip(np.nan_to_num(array), -1e4, 1e4).astype(np.float32)


def litert_is_the_reference(graph: Graph) -> None:
    from ai_edge_litert import interpreter as litert

    interpreter = litert.Interpreter(
        model_content=emit_tflite(graph),
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
        num_threads=1,
        experimental_preserve_all_tensors=True,  # see run/litert.py
    )
    interpreter.allocate_tensors()
    for inputs in samples(graph, 1):
        inputs = [finite(array) for array in inputs]
        for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
            interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
        outputs = [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]
        require_same(graph, graph.reference(*inputs), outputs, "LiteRT")


def executorch_is_the_reference(graph: Graph) -> None:
    from pillion.run.executorch import run_executorch

    program = emit_pte(graph, CORES["cortex-m33"], INSTALLED)
    for inputs in samples_for_kernels(graph):
        require_same(graph, graph.reference(*inputs), run_executorch(program, inputs), "ExecuTorch")


def executorch_with_segments_is_the_reference(graph: Graph) -> None:
    """The NPU's segments are delegates there."""
    from pillion.run.executorch import run_executorch

    placed = partition(split_groups(passes.run(graph)), EAGER, ON_M33, PlacementOptions()).graph
    program = Program(placed, find_target("imxrt700")).pte(INSTALLED)
    for inputs in samples_for_kernels(graph):
        require_same(graph, placed.reference(*inputs), run_executorch(program, inputs), "ExecuTorch")


def board_is_the_reference(graph: Graph, target: str, optimize: Optimize = "speed") -> None:
    """On the target's emulated board, with the kernels of its core."""
    chip = find_target(target)
    program = Program(graph, chip, optimize=optimize)
    with temporary_project(program.files) as folder:
        for inputs in samples(graph, 1):
            got = run_project(folder, inputs, chip.board).outputs
            require_same(graph, graph.reference(*inputs), got, chip.board)
