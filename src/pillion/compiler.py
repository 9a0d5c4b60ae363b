# SPDX-License-Identifier: Apache-2.0
"""Read this first: `compile` runs the stages from a model to a program for a chip.

    read        a module, exported program or file becomes a Graph, a small typed IR with NHWC images;       read_model.py,
                PyTorch models are captured and quantized, .tflite and .pte files are int8 already               importers/
    integer     dequantize-op-quantize becomes integer ops; data movement is merged                          passes/
    stream      the graph of a window becomes that of a few new frames, with rows kept between runs          streams/
    place       each op runs on the NPU or the core, with the reason                                         partition/, devices/
    tile        if memory is short, ops run together, a few rows at a time                                   tiling/
    lower       kernels are chosen, constants packed, memory is planned                                      emitters/c/, memory/

The resulting Program is written as C, as an ExecuTorch program or as a TFLite file (emitters/), and runs on several executors (run/).
A stage refuses what it cannot do, with the rule, the value and the way out; nothing falls back silently.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Any, Union

from pillion import passes
from pillion.boards.board import BOARDS, Board, wrong_core_error
from pillion.budgets import (
    MetricBound,
    flash_search,
    pricing,
    refuse_lost_metric,
    refuse_lost_quality,
    within_time,
)
from pillion.compile_options import (
    DEFAULT_OPTIONS,
    CompileOptions,
    Io,
    Loading,
    Memory,
    NpuOptions,
    PlacementOptions,
    Quantization,
    Stream,
    Streamed,
)
from pillion.emitters.c.int8_operands import read_int8_operands, widen_after_moves
from pillion.emitters.c.kernel_choice import BYTE_PRICE
from pillion.emitters.c.kernel_costs import core_cycles
from pillion.emitters.c.operand_bounds import mark_bounds
from pillion.emitters.segments import cost_of
from pillion.errors import PillionError
from pillion.fit_flash import FlashFit
from pillion.flash_budget import FlashSearch
from pillion.host_io.progress import show_progress, showing_progress, stage
from pillion.importers import pte
from pillion.ir.flash_choice import FlashChoice
from pillion.ir.graph import Graph, model_name, require_computed_outputs
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import why_multipliers_explicit
from pillion.ir.quantized_model import Progress, ReadModel
from pillion.ir.types import Array
from pillion.ir.verify import refuse_float
from pillion.npu_settings import fastest_that_fits, refuse_npu_options
from pillion.ops import Segment
from pillion.ops.guards import order_branches
from pillion.ops.mixed_scale_concat import warn_of_mixed_scales
from pillion.option_values import ArithmeticName, Optimize, Precision
from pillion.overlap import with_overlap
from pillion.partition import (
    Placement,
    all_on_cpu,
    partition,
    partition_loops,
    restore_original_ops,
)
from pillion.partition.placement_checks import refuse_unmatched_patterns, require_same_units
from pillion.pass_pipeline import (
    CONSTANTS,
    RECOVERED,
    STATE_STEPS,
    UNROLLED,
    integer_steps,
    npu_steps,
    run_steps,
)
from pillion.passes.convert_to_integer import float_ops
from pillion.program import Program
from pillion.read_model import read_model
from pillion.targets import NPUS, Target, find_target, npu_target_example

if TYPE_CHECKING:
    import torch

    from pillion.importers.torch.train.qat_module import QatModule


Input = Union["torch.Tensor", Array]
Inputs = Input | Sequence[Input]
"""One tensor per argument of `forward`; a single tensor needs no tuple."""
Model = Union["torch.nn.Module", "torch.export.ExportedProgram", str, "os.PathLike[str]"]
"""A module, an exported program, a zoo name, `net.py:Net`, or the path of a .pt2, .onnx, .tflite or .pte file."""


@showing_progress
def compile(
    model: Model,
    example_inputs: Inputs | None = None,
    *,
    target: str,
    quantize: Quantization | None = None,
    loading: Loading | None = None,
    io: Io | None = None,
    memory: Memory | None = None,
    stream: Stream | Streamed | None = None,
    placement: PlacementOptions | None = None,
    npu: NpuOptions | None = None,
    arithmetic: ArithmeticName | None = None,
    optimize: Optimize = "speed",
    name: str | None = None,
    progress: Progress | bool | None = None,
    watch: passes.Watch | None = None,
    metric: MetricBound | None = None,
    **keywords: Any,
) -> Program:
    """Compiles a model for a target.

    Data: `example_inputs` go with modules and exported programs; files describe their own inputs. `quantize`
    (`pillion.Quantization`) holds calibration data and what improves accuracy, `loading` (`pillion.Loading`) what zoo models
    and files need.

    Form: `io` (`pillion.Io`) describes inputs, outputs and state. `arithmetic` selects the arithmetic to reproduce bit for
    bit (default: the source framework's); `Program.change_of_arithmetic` measures the difference. `optimize` selects fast or
    small code. `name` is the program's, as in NAME_run in C.

    Execution: `placement` (`pillion.PlacementOptions`) keeps ops on the CPU, or prefers or demands the NPU. `npu`
    (`pillion.NpuOptions`) says how its compiler works. `memory`
    (`pillion.Memory`) limits the RAM of the C; parts of the model then run a few rows at a time. `stream` (`pillion.Stream`)
    makes a program that takes a few new frames per run and computes the outputs of the whole window: see `Program.stream`.

    Progress: bars on a terminal, unless `progress` is False, or a function that is called after each calibration sample.
    `watch` receives the graph after each pass. `metric` (`pillion.MetricGoal`) bounds the loss of a metric of labelled data:
    tensors get 16 bits where it needs them.

    Fields of the records are also accepted as `keywords`, by the names of the command line: `io_dtype="int8"`, `max_ram="256K"`,
    `calibrate=samples`, `stream="x:2", hop=2`, and `tuning` for the fields of `pillion.Tuning`."""
    if stream is not None and not isinstance(stream, Stream):
        keywords["stream"] = stream
    options = CompileOptions(
        loading or Loading(),
        quantize or Quantization(),
        io or Io(),
        arithmetic,
        optimize,
        name,
        placement or PlacementOptions(),
        npu or NpuOptions(),
        memory or Memory(),
        stream if isinstance(stream, Stream) else Stream(),
    ).with_keywords(keywords)
    return compile_with(model, example_inputs, target, options, progress, watch, metric)


def compile_with(
    model: Model,
    example_inputs: Inputs | None,
    target: str,
    options: CompileOptions,
    progress: Progress | bool | None = None,
    watch: passes.Watch | None = None,
    metric: MetricBound | None = None,
) -> Program:
    """Compiles a model for a target with all options in one record."""
    chip = find_target(target)
    refuse_npu_options(chip, options)
    if metric is not None:
        _require_metric_bound(metric)
        options = replace(options, quantize=options.quantize.mixed())

    def attempt(reserve: float) -> Program:
        plan_pricing = pricing(options, partial(compile_plan, chip=chip), metric, reserve)
        read = read_model(model, example_inputs, chip, options, progress, plan_pricing)
        graph = in_arithmetic(read.graph, options.arithmetic)
        return compile_graph(graph, chip, options, read=read, watch=watch)

    program = within_time(attempt, options)
    refuse_lost_quality(program.four_bits, options)
    if metric is not None:
        program = replace(program, precision=refuse_lost_metric(program, metric, options))
    return program


def _require_metric_bound(metric: object) -> None:
    """Raises if an argument is no bound of a metric."""
    if not isinstance(metric, MetricBound):
        raise PillionError(
            "`metric` is no bound of a metric",
            rule="a pillion.MetricGoal: labelled data, and by how much the metric may be worse",
            here=f"metric={metric!r}",
            help="metric=pillion.MetricGoal(data, '0.5%', 'top1')",
        )


def compile_plan(graph: Graph, options: CompileOptions, chip: Target) -> Program:
    """Compiles a trial of the search for tensors of 16 bits, without progress."""
    with show_progress(False):
        return compile_graph(in_arithmetic(graph, options.arithmetic), chip, options)


def in_arithmetic(graph: Graph, name: ArithmeticName | None) -> Graph:
    """Returns the graph in the named arithmetic. Raises if the graph holds explicit multipliers, which exist in
    its own arithmetic alone."""
    arithmetic = Arithmetic(name) if name is not None else graph.arithmetic
    if arithmetic is graph.arithmetic:
        return graph
    explicit = [(op, why) for op in graph.ops if (why := why_multipliers_explicit(op))]
    if arithmetic.is_tflite and explicit:
        op, why = explicit[0]
        raise PillionError(
            f"`{graph.name}` has no {arithmetic.value} arithmetic",
            rule="that follows from scales, and some .pte files hold multipliers in their place",
            here=f"{op.kind} `{op.name}`: {why}",
            help=f"leave --arithmetic {arithmetic.value} out, or compile the model that the file was made from",
        )
    return graph.replace(arithmetic=arithmetic)


def compile_graph(
    graph: Graph,
    chip: Target,
    options: CompileOptions = DEFAULT_OPTIONS,
    *,
    read: ReadModel | None = None,
    watch: passes.Watch | None = None,
) -> Program:
    """Runs the stages after reading: compiles an imported graph to a program, whatever format it came from. `read` is
    the model whose graph it is, perhaps in another arithmetic. Of several settings of the NPU's compiler, the one with
    the fastest program that fits is chosen."""
    read = read or ReadModel(graph)
    with stage(f"compiling for {chip.name}"):
        graph = to_integers(graph, options, watch)
        if read.floats is not None and not graph.states:
            warn_of_mixed_scales(graph)
        search = flash_search(graph, read, options)
        compile_for = partial(compile_integers, graph, chip, read=read, search=search)
        several = chip.npu.alternatives(options.npu) if chip.npu else ()
        if several:
            choices = (replace(options, npu=npu) for npu in several)
            programs = (partial(compile_for, one, watch=None) for one in choices)
            return fastest_that_fits(programs, chip, options)
        return compile_for(options, watch=watch)


def compile_integers(
    graph: Graph,
    chip: Target,
    options: CompileOptions,
    *,
    read: ReadModel,
    search: FlashSearch | None,
    watch: passes.Watch | None,
) -> Program:
    """Compiles a graph that computes in integers, for one setting of the NPU's compiler."""
    chip = chip.with_npu_options(options.npu)
    four_bits: FlashChoice | None = None
    byte_price = BYTE_PRICE
    if search is not None:
        place = partial(placed_program, chip=chip, options=options)
        graph, four_bits, byte_price = FlashFit(search, options, place).fitting()
    window = graph
    graph = run_steps(STATE_STEPS, graph, options, watch)
    is_stream = bool(options.stream.inputs)
    placed = place_ops(chip, graph, options.placement, watch, unrolls=not is_stream)
    if is_stream and chip.npu is not None:
        require_same_units(
            window.name, place_ops(chip, window, options.placement, None, unrolls=False), placed
        )
    program = Program(
        placed.graph,
        chip,
        placed.ledger,
        options.optimize,
        source=read.file,
        own_arithmetic=None if window.arithmetic is read.graph.arithmetic else read.graph.arithmetic,
        floats=None if is_stream or window.states else read.floats,
        cycles=placed.cycles,
        precision=read.precision,
        four_bits=four_bits,
        fitted_layers=read.fitted_layers,
        byte_price=byte_price,
    )
    program.lower()
    if options.placement.overlap:
        return with_overlap(program, options)
    return program.within(options.memory_budget)


def placed_program(graph: Graph, chip: Target, options: CompileOptions) -> Program:
    """Returns the program of a graph for one run of many whose ops are placed."""
    graph = run_steps(STATE_STEPS, graph, options)
    placed = place_ops(chip, graph, options.placement, None, unrolls=not options.stream.inputs)
    return Program(placed.graph, chip, placed.ledger, options.optimize)


def to_integers(graph: Graph, options: CompileOptions, watch: passes.Watch | None) -> Graph:
    """Legalizes every op between inputs and outputs to integer arithmetic, and merges data movement."""
    graph = graph.replace(name=model_name(graph.name))
    if watch:
        watch("import", graph)
    graph = run_steps(integer_steps(), graph, options, watch)
    refuse_float(graph.name, [(f"{op.kind} {op.name}", op.source, reason) for op, reason in float_ops(graph)])
    graph = CONSTANTS.apply(graph, options, watch)
    require_computed_outputs(graph)
    return graph


def place_ops(
    chip: Target, graph: Graph, options: PlacementOptions, watch: passes.Watch | None, *, unrolls: bool = True
) -> Placement:
    """Places each op on the NPU or the core. With `unrolls`, unrolls the loops whose steps run better so."""
    core = core_cycles(chip.core, graph.arithmetic)
    graph = widen_after_moves(order_branches(graph))
    if chip.npu is None:
        graph = mark_bounds(read_int8_operands(graph, chip.isa))
        return Placement(graph, all_on_cpu(graph, core, npu_target_example()))
    graph = passes.apply(RECOVERED.function, graph, watch)
    before = tuple(step.function for step in npu_steps(chip.npu))
    rewritten = passes.run(graph, before, watch)
    refuse_unmatched_patterns(rewritten, options)
    npu, name = chip.npu, chip.converter_name
    request = (rewritten, npu, core, options, lambda body: cost_of(body, npu, name))
    placed = partition_loops(*request, UNROLLED.function) if unrolls else partition(*request)
    placed = restore_original_ops(graph, rewritten, placed, core)
    placed = placed.with_core_ops(mark_bounds(read_int8_operands(placed.graph, chip.isa)), core)
    placed = replace(placed, graph=order_branches(placed.graph))
    if watch:
        watch("place", placed.graph)
    return placed


def load(path: str | os.PathLike[str], target: str | None = None, board: Board | None = None) -> Program:
    """Reads the program in a .pte file, for the core that it was compiled for, or for another `target` or `board`.

    A file that does not name its core gets portable kernels."""
    file = pte.read(path)
    if board is not None and file.core is not None and board.core != file.core:
        raise _wrong_core_error(str(path), file.core, board)
    core = target or file.core or (board.core if board else DEFAULT_CORE)
    return Program(file.graph, find_target(core if target else core + _npu_suffix(file.graph)), file=file)


def _npu_suffix(graph: Graph) -> str:
    """Returns `+NPU` if the graph holds compiled code of an NPU that targets can name, otherwise an empty string."""
    closed = (op.device for op in graph.ops if isinstance(op, Segment) and op.is_closed)
    return next((f"+{device}" for device in closed if device in NPUS), "")


DEFAULT_CORE = "cortex-m3"
"""The core for programs that do not name theirs; it gets portable C."""


def _wrong_core_error(path: str, core: str, board: Board) -> PillionError:
    """Returns the error for a file that was compiled for another core than the board's."""
    fitting = [name for name, candidate in BOARDS.items() if candidate.core == core]
    return wrong_core_error(
        path,
        core,
        board,
        rule="a program runs on a board with its core",
        here=f"--on {board.name}",
        help=f"--on {fitting[0]}"
        if fitting
        else f"pillion compile -m {quote(path)} -t {board.core} -o FOLDER",
    )


def prepare_qat(
    model: torch.nn.Module,
    example_inputs: Inputs,
    target: str,
    *,
    precision: Precision = "int8",
    int16: str | Sequence[str] = (),
) -> QatModule:
    """Returns a copy of the model that rounds every tensor in its forward pass as the compiled program will. Train it
    in any PyTorch loop, then `compile` it.

    The first axis of the example inputs is the batch, of any size unless the model's `forward` depends on it.
    Tensors whose module or op matches a pattern in `int16` have 16 bits, with `precision="int16"` all that can."""
    from pillion.importers.torch.train.qat import prepare_qat as prepare

    patterns = (int16,) if isinstance(int16, str) else tuple(int16)
    tuning = Quantization(precision=precision, int16=patterns)
    return prepare(model, example_inputs, find_target(target).quantization, tuning=tuning)


def float_weights(trained: QatModule) -> dict[str, torch.Tensor]:
    """Returns the trained weights and statistics as a state dict of the float model: copies, not rounded.

    The inverse, `trained.load_state_dict(model.state_dict())`, loads weights of the float model into a prepared
    module."""
    from pillion.importers.torch.train.qat_module import float_weights as weights

    return weights(trained)
