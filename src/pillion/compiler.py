# SPDX-License-Identifier: Apache-2.0
"""Read this first: `compile` is the list of stages, from a model to a program for a chip.

    read        a module, an exported program or a file becomes a Graph, one small typed IR with images     importers/
                NHWC; models of PyTorch are captured and quantized on the way, .tflite and .pte are int8
    integer     dequantize-op-quantize becomes integer ops; movement merged                                 passes/
    stream      the graph of a window becomes that of a few new frames, with rows kept between calls       streams/
    place       segments for the NPU, the rest for the CPU, and why                                         place/, devices/
    stripe      where memory is short, ops run together, a few rows at a time                               stripes/
    lower       kernels chosen, constants packed, memory planned                                            emitters/c/, memory/

The Program that comes out writes itself as C, as an ExecuTorch program or as a TFLite file (emitters/), and runs on whatever can run
it (run/). What a stage cannot do it refuses with the rule, the value and the way out; nothing falls back silently.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Union, get_args

from pillion import passes
from pillion.boards.board import BOARDS, Board, Optimize, another_core
from pillion.choices import ArithmeticName, IoDtype, IoLayout, StateForm
from pillion.emitters.segments import cost_of
from pillion.errors import PillionError, one_of
from pillion.importers import pte, tflite
from pillion.ir.graph import Graph, model_name, want_computed_outputs
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import beyond_scales
from pillion.ir.tuning import Tuning
from pillion.ir.types import Array
from pillion.ir.verify import refuse_float
from pillion.ir.verify import verify as verified
from pillion.ir.wishes import Wishes
from pillion.named import is_int8_file, refuse_useless
from pillion.ops import Segment
from pillion.ops.joined import warn_of_joined
from pillion.ops.lasting import with_lasting_states
from pillion.ops.pairs import Pairs, with_state_pairs
from pillion.ops.states import states_as_io
from pillion.outside.files import suffix_of
from pillion.outside.progress import showing_progress, stage
from pillion.passes.integer import float_ops
from pillion.place import Placement, PlacementOptions, all_on_cpu, inline_segments, place, place_loops
from pillion.place.patterns import refuse_idle_patterns
from pillion.place.units import want_same_units
from pillion.program import Program
from pillion.run.floats import FloatModel
from pillion.streams.rewrite import streamed
from pillion.streams.wish import Streamed, StreamWish, stream_wish
from pillion.stripes.wish import USUAL, WHOLE, MemoryWish, memory_wish
from pillion.targets import NPUS, Target, compiled_operators, example_with_npu, find_target

if TYPE_CHECKING:
    import torch

    from pillion.importers.torch.quantize.ptq import Progress
    from pillion.importers.torch.read import ReadModel
    from pillion.importers.torch.train.module import QatModule


Input = Union["torch.Tensor", Array]
Inputs = Input | Sequence[Input]
"""A tensor for each argument of `forward`; one alone needs no tuple."""
Model = Union["torch.nn.Module", "torch.export.ExportedProgram", str, "os.PathLike[str]"]
"""A module, an exported program, or what `-m` names: a model of the zoo, `net.py:Net`, a .pt2, .tflite or .pte file."""
AS_IN_LITERT = Wishes(fixed=frozenset({"softmax", "add"}))
"""What LiteRT's own kernels fix."""


def layout_of(wish: MemoryWish) -> IoLayout:
    """Gives the order of the axes of images where nobody says it: PyTorch's, or that of a camera, which gives lines of pixels."""
    return "nhwc" if wish.rows_in else "nchw"


@showing_progress
def compile(
    model: Model,
    example_inputs: Inputs | None = None,
    *,
    target: str,
    calibrate: Iterable[Inputs] | str | Path | None = None,
    name: str | None = None,
    io_dtype: IoDtype = "float32",
    io_layout: IoLayout | None = None,
    state: StateForm = "kept",
    stateful: bool = False,
    state_pairs: Pairs | None = None,
    input_size: int | tuple[int, int] | None = None,
    weights: str | Path | None = None,
    trust_pickle: bool = False,
    progress: Progress | bool | None = None,
    tuning: Tuning | None = None,
    placement: PlacementOptions | None = None,
    arithmetic: ArithmeticName | None = None,
    optimize: Optimize = "speed",
    max_ram: int | str | None = None,
    extra: float | str | None = None,
    rows_in: bool | str = False,
    stream: Streamed | None = None,
    hop: int | None = None,
    watch: passes.Watch | None = None,
) -> Program:
    """Compiles a model for a target. Without `calibrate`, the example inputs alone decide the ranges; it may be samples, or the
    path of a folder or file with samples.

    Example inputs go with modules and exported programs; files say themselves what their inputs look like. `input_size` and
    `weights` go with models of the zoo, `weights` also with `net.py:Net`. `tuning` (`pillion.Tuning`) helps where
    quantization costs much. `placement` keeps ops on the CPU, or prefers or demands the NPU. With `stateful`, recurrent layers begin
    each run with what the run before left; `state_pairs={"h": 1}` does so with an input `h` and output 1; `state="io"` makes inputs
    and outputs of what the model would remember from run to run. `arithmetic` names whose bits are computed, where they shall not be those of the model's
    own framework: `Program.change_of_arithmetic` says what that changes. `optimize` chooses between fast and small code;
    `watch` sees the graph after each pass. `max_ram` (`"256K"`) bounds the RAM of the C, `extra` (`"5%"`) the instructions that less RAM
    may cost: parts of the model then run a few rows at a time. Where nothing is said, that is 1 % if it saves much; with `extra=0`, all
    ops run whole. With `rows_in`, the C is handed its input row by row, and has no room
    for all of it: of several inputs the largest, or that of a name. Images go in and come out in the order of axes of `io_layout`: where nothing is said `"nchw"`, or `"nhwc"` with `rows_in`,
    for a row of a picture is a line of pixels. `stream` (`"x:2"`, an input and its time axis) and `hop` make a program that takes so many new frames in each run, and
    answers what the model answers to the whole window: see `Program.stream`. On a terminal bars show
    how far it is, unless `progress` is False, or a function that is called after each calibration sample instead. With `trust_pickle`,
    what a .pt2 holds beside tensors is executed."""
    wish, over_time = memory_wish(max_ram, extra, rows_in), stream_wish(stream, hop)
    if over_time is not None and rows_in:
        raise two_ways_in()
    one_of("io_dtype", io_dtype, get_args(IoDtype))
    if io_layout is not None:
        one_of("io_layout", io_layout, get_args(IoLayout))
    one_of("state", state, get_args(StateForm))
    one_of("optimize", optimize, get_args(Optimize))
    if arithmetic is not None:
        one_of("arithmetic", arithmetic, get_args(ArithmeticName))
    chip = find_target(target)
    given = {
        "weights": weights,
        "input_size": input_size,
        "trust_pickle": trust_pickle or None,
        "io_layout": "nhwc" if io_layout == "nhwc" else None,
    }
    data = {"example_inputs": example_inputs, "calibrate": calibrate, "tuning": tuning}
    opened = opened_tflite(model)
    source = opened.raw if opened is not None else None
    quantizing: dict[str, Any] = {
        "wishes": chip.quantization if arithmetic in (None, "cmsis-nn") else chip.quantization | AS_IN_LITERT,
        "calibrate": calibrate,
        "progress": progress if callable(progress) else None,
        "tuning": tuning or Tuning(),
    }
    floats: FloatModel | None = None
    if opened is not None and opened.computes_in_float:
        refuse_useless(str(model), given)
        read = read_float_tflite(opened, example_inputs, name=name, **quantizing)
        graph, floats, source = read.graph, read.floats, None
    elif is_int8_file(model):
        refuse_useless(str(model), {**data, **given})
        graph = read_int8(opened or model, name)
    else:
        read = read_torch(
            model,
            example_inputs,
            name=name,
            nhwc=(io_layout or layout_of(wish)) == "nhwc",
            input_size=input_size,
            weights=weights,
            trust_pickle=trust_pickle,
            **quantizing,
        )
        graph, floats = read.graph, read.floats
    own = graph.arithmetic
    program = finish(
        in_arithmetic(graph, arithmetic),
        chip,
        io_dtype,
        placement,
        watch,
        optimize,
        wish,
        floats,
        state,
        over_time,
        stateful,
        state_pairs,
    )
    return replace(
        program, source=source, own_arithmetic=own if program.graph.arithmetic is not own else None
    )


def in_arithmetic(graph: Graph, name: ArithmeticName | None) -> Graph:
    """Gives the graph in the arithmetic that was asked for; raises where it is of none but its own."""
    asked = Arithmetic(name) if name is not None else graph.arithmetic
    if asked is graph.arithmetic:
        return graph
    given = [(op, why) for op in graph.ops if (why := beyond_scales(op))]
    if asked.is_tflite and given:
        op, why = given[0]
        raise PillionError(
            f"`{graph.name}` has no {asked.value} arithmetic",
            rule="that follows from scales, and some .pte files hold multipliers in their place",
            here=f"{op.kind} `{op.name}`: {why}",
            help=f"leave --arithmetic {asked.value} out, or compile the model that the file was made from",
        )
    return graph.replace(arithmetic=asked)


def finish(
    graph: Graph,
    chip: Target,
    io_dtype: IoDtype = "float32",
    placement: PlacementOptions | None = None,
    watch: passes.Watch | None = None,
    optimize: Optimize = "speed",
    wish: MemoryWish = WHOLE,
    floats: FloatModel | None = None,
    state: StateForm = "kept",
    over_time: StreamWish | None = None,
    stateful: bool = False,
    state_pairs: Pairs | None = None,
) -> Program:
    """Runs the stages after reading: from an imported graph to a program, whatever the model was written in."""
    with stage(f"compiling for {chip.name}"):
        graph = to_integers(graph, io_dtype, watch)
        if floats is not None:
            warn_of_joined(graph)
        whole, options = graph, placement or PlacementOptions()
        if over_time is not None:
            graph, floats = passes.run(streamed(graph, over_time), passes.AFTER_CUTTING, watch), None
        elif stateful:  # streams keep what recurrent layers carry
            graph = with_lasting_states(graph)
        graph = with_state_pairs(graph, state_pairs) if state_pairs else graph
        graph = states_as_io(graph) if state == "io" else graph
        placed = put_on(chip, graph, options, watch, copies=over_time is None)
        if over_time is not None and chip.npu is not None:
            want_same_units(graph.name, put_on(chip, whole, options, None, copies=False), placed)
        program = Program(placed.graph, chip, placed.ledger, optimize, floats=floats)
        program.lower()
        # A stream takes few rows anyway, and stripes take code.
        has_none = wish == USUAL and (over_time is not None or optimize == "size")
        program = program.within(WHOLE if has_none else wish)
    return program


def read_torch(model: Any, example_inputs: Any, **options: Any) -> ReadModel:
    """Captures, quantizes and imports a model of PyTorch."""
    with stage("importing PyTorch"):
        from pillion.importers.torch.read import read

    return read(model, example_inputs, **options)


def opened_tflite(model: Any) -> tflite.Opened | None:
    """Opens a model, if it is the name of a .tflite file."""
    is_one = is_int8_file(model) and suffix_of(os.fspath(model)) == ".tflite"
    return tflite.open_file(model, compiled_operators()) if is_one else None


def read_float_tflite(opened: tflite.Opened, example_inputs: Any, **options: Any) -> ReadModel:
    """Quantizes and imports a .tflite file that computes in float. Ranges come from data, or from inputs like those that it will see."""
    if options["calibrate"] is None and example_inputs is None:
        raise PillionError(
            f"`{opened.name}` computes in float"
            + (", with weights of 8 bits (hybrid, dynamic range quantization)" if opened.is_hybrid else ""),
            rule="programs are int8: a model in float is quantized by the ranges of data like those that it will see",
            here=f"{opened.place}, without calibration data",
            help=f"--quantize --calibrate DATA (a folder, an .npz or file.py:function); in Python compile({opened.place!r}, calibrate=samples, …)",
        )
    with stage("importing PyTorch"):
        from pillion.importers.tflite_float import float_program

    exported, examples = float_program(opened)
    name = options.pop("name") or opened.name
    return read_torch(exported, examples if example_inputs is None else example_inputs, name=name, **options)


def read_int8(model: Any, name: str | None) -> Graph:
    """Reads a file whose ops are int8 already. A .pte is placed anew: the NPU's segments are ops again."""
    graph = (
        model.graph() if isinstance(model, tflite.Opened) else inline_segments(pte.read(Path(model)).graph)
    )
    return graph.replace(name=name) if name else graph


def to_integers(graph: Graph, io_dtype: IoDtype, watch: passes.Watch | None) -> Graph:
    """Makes all ops between the model's borders compute in integers, and merges movement."""
    graph = graph.replace(name=model_name(graph.name))
    if watch:
        watch("import", graph)
    of_litert = (passes.plain_bags,) if graph.arithmetic.is_tflite else ()
    graph = passes.run(graph, passes.PIPELINE + of_litert + passes.BORDERS[io_dtype], watch)
    refuse_float(graph.name, [(f"{op.kind} {op.name}", op.source, reason) for op, reason in float_ops(graph)])
    graph = verified(passes.write_constants(graph), "write_constants")
    want_computed_outputs(graph)
    return graph


def put_on(
    chip: Target, graph: Graph, options: PlacementOptions, watch: passes.Watch | None, *, copies: bool = True
) -> Placement:
    """Places each op on the NPU or on the CPU of a chip. With `copies`, steps of loops are written out where that is better."""
    if chip.npu is None:
        refuse_npu_options(chip, options)
        return Placement(graph, all_on_cpu(graph, chip.isa, example_with_npu()))
    graph = passes.run(graph, (passes.usual_multipliers, *chip.npu.rewrites), watch)
    refuse_idle_patterns(graph, options)
    npu, name = chip.npu, chip.converter_name
    asked = (graph, npu, chip.isa, options, lambda body: cost_of(body, npu, name))
    placed = place_loops(*asked, passes.after_copying) if copies else place(*asked)
    if watch:
        watch("place", placed.graph)
    return placed


def two_ways_in() -> PillionError:
    """Makes the error of an input that is handed over both row by row and by frames."""
    return PillionError(
        "rows of an input that comes by frames",
        rule="--rows-in hands over one window row by row, --stream the new frames of a window that moves",
        here="--rows-in and --stream",
        help="leave one of them out",
    )


def refuse_npu_options(chip: Target, asked: PlacementOptions) -> None:
    """Raises where a chip without an NPU is asked for more or less of it."""
    demands = ["--only-npu"] * asked.only_npu + ["--prefer-npu"] * asked.prefer_npu
    options = demands + [f"--keep-on-cpu {pattern}" for pattern in asked.keep_on_cpu]
    if options:
        raise PillionError(
            f"`{chip.name}` has no NPU",
            rule="--only-npu, --prefer-npu and --keep-on-cpu go with chips that have one",
            here=f"--target {chip.name} {' '.join(options)}",
            help=f"{example_with_npu()}, or leave {options[0].split()[0]} out",
        )


def load(path: str | os.PathLike[str], target: str | None = None, board: Board | None = None) -> Program:
    """Reads the program in a .pte file, for the core that it was compiled for, for another `target`, or for the board that is to
    run it.

    What it was compiled for counts where nothing else is said. A file that does not say it gets portable kernels."""
    file = pte.read(path)
    if board is not None and file.core is not None and board.core != file.core:
        raise _for_another_core(str(path), file.core, board)
    core = target or file.core or (board.core if board else ANY_CORE)
    return Program(file.graph, find_target(core if target else core + _npu_of(file.graph)), file=file)


def _npu_of(graph: Graph) -> str:
    """The end of the name of a target with the NPU whose own code a program holds, if it does."""
    closed = (op.device for op in graph.ops if isinstance(op, Segment) and op.is_closed)
    return next((f"+{device}" for device in closed if device in NPUS), "")


ANY_CORE = "cortex-m3"
"""The core of programs that do not say what they were compiled for, where it makes no difference: portable C."""


def _for_another_core(path: str, core: str, board: Board) -> PillionError:
    """The error of a file that was compiled for another core than a board has."""
    fitting = [name for name, one in BOARDS.items() if one.core == core]
    return another_core(
        path,
        core,
        board,
        rule="a program runs on a board with its core",
        here=f"--on {board.name}",
        help=f"--on {fitting[0]}"
        if fitting
        else f"pillion compile -m {quote(path)} -t {board.core} -o FOLDER",
    )


def prepare_qat(model: torch.nn.Module, example_inputs: Inputs, target: str) -> QatModule:
    """Gives a copy of a model for training: every tensor that the target holds in int8 is rounded on the way forward. Train it in
    any loop of PyTorch, then `compile` it.

    The first axis of the example inputs is the batch, of any size unless the model's `forward` depends on it."""
    from pillion.importers.torch.quantize import prepare_qat as prepare

    return prepare(model, example_inputs, find_target(target).quantization)


def float_weights(trained: QatModule) -> dict[str, torch.Tensor]:
    """Gives what a prepared module has learned as a state dict of the float model: copies of its weights and statistics, not rounded.

    The other way, `trained.load_state_dict(model.state_dict())` puts weights of the float model into a prepared one."""
    from pillion.importers.torch.train.module import float_weights as weights

    return weights(trained)
