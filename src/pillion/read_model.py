# SPDX-License-Identifier: Apache-2.0
"""The first stage of `compile`: a module, an exported program or a file becomes a graph."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pillion.compile_options import CompileOptions, Loading
from pillion.errors import PillionError
from pillion.host_io.atomic_files import suffix_of
from pillion.host_io.progress import stage
from pillion.importers import pte, tflite
from pillion.ir.constraints import QuantizationConstraints
from pillion.ir.graph import Graph
from pillion.ir.precision_choice import Pricing
from pillion.ir.quantized_model import Progress, QuantizationTask, ReadModel
from pillion.model_names import is_int8_file, refuse_useless_options
from pillion.partition import inline_segments
from pillion.registry import REGISTRY
from pillion.targets import Target, compiled_operators

AS_IN_LITERT = QuantizationConstraints(fixed=frozenset({"softmax", "lut", "add"}))
"""The parameters that LiteRT's kernels fix."""


def read_model(
    model: Any,
    example_inputs: Any,
    chip: Target,
    options: CompileOptions,
    progress: Progress | bool | None,
    pricing: Pricing | None,
) -> ReadModel:
    """Reads a model, and quantizes its float parts under the constraints of a chip. `pricing` compares plans where the
    compiler chooses tensors of 16 bits."""
    loading, quantize = options.loading, options.quantize
    constraints = (
        replace(chip.quantization, int16_inputs=options.has_int16_samples)
        if options.arithmetic in (None, "cmsis-nn")
        else chip.quantization | AS_IN_LITERT
    )
    task = QuantizationTask(quantize, constraints, progress if callable(progress) else None, pricing)
    if not is_int8_file(model):
        return _read_torch(
            model, example_inputs, task, name=options.name, nhwc=options.is_nhwc, loading=loading
        )
    source_options = {
        "weights": loading.weights,
        "input_size": loading.size,
        "trust_pickle": loading.trust_pickle or None,
        "preprocess": loading.preprocess,
        "io_layout": "nhwc" if options.io.layout == "nhwc" else None,
    }
    refuse_useless_options(str(model), source_options)
    opened = opened_tflite(model)
    if opened is not None and opened.computes_in_float:
        return _read_float_tflite(opened, example_inputs, task, options.name)
    has_data = quantize.calibrate is not None or example_inputs is not None
    if opened is not None and has_data and opened.has_float_parts:
        return ReadModel(_named(_partly_float_tflite(opened, example_inputs, task), options.name))
    tuning = quantize.tuning or None
    data = {"example_inputs": example_inputs, "calibrate": quantize.calibrate, "tuning": tuning}
    refuse_useless_options(str(model), data)
    graph = opened.graph() if opened else _read_int8(model)
    return ReadModel(_named(graph, options.name), file=opened.raw if opened else None)


def opened_tflite(model: Any) -> tflite.OpenedTflite | None:
    """Opens the model if it is the path of a .tflite file; otherwise returns None."""
    is_one = is_int8_file(model) and suffix_of(os.fspath(model)) == ".tflite"
    return tflite.open_file(model, compiled_operators()) if is_one else None


def _read_torch(model: Any, example_inputs: Any, task: QuantizationTask, **options: Any) -> ReadModel:
    """Captures, quantizes and imports a PyTorch model."""
    with stage("importing PyTorch"):
        from pillion.importers.torch.capture import refuse_size_and_weights
        from pillion.importers.torch.read import read

    if isinstance(loading := options.get("loading"), Loading) and not isinstance(model, (str, os.PathLike)):
        refuse_size_and_weights(type(model).__name__, "module", loading.size, loading.weights)
    return read(model, example_inputs, task, **options)


def _read_float_tflite(
    opened: tflite.OpenedTflite, example_inputs: Any, task: QuantizationTask, name: str | None
) -> ReadModel:
    """Quantizes and imports a .tflite file that computes in float, with ranges from calibration data or example
    inputs."""
    if task.options.calibrate is None and example_inputs is None:
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
    inputs = examples if example_inputs is None else example_inputs
    return _read_torch(exported, inputs, task, name=name or opened.name)


def _partly_float_tflite(opened: tflite.OpenedTflite, example_inputs: Any, task: QuantizationTask) -> Graph:
    """Reads an int8 .tflite file with float operators, which are quantized by calibration data or example
    inputs."""
    with stage("importing PyTorch"):
        from pillion.importers.tflite_float.partly_float import partly_float_graph

    calibrate = task.options.calibrate
    task = replace(task, constraints=task.constraints | AS_IN_LITERT)

    def quantize(part: Any, examples: Any, samples: Any) -> Graph:
        return _read_torch(part, examples, task.calibrated_by(samples), name=opened.name).graph

    return partly_float_graph(opened, [example_inputs] if calibrate is None else calibrate, quantize)


def _read_int8(path: Any) -> Graph:
    """Reads an int8 file that is no .tflite."""
    read: Callable[[Path], Graph] = REGISTRY.importers.get(suffix_of(os.fspath(path)), _read_pte)
    return read(Path(path))


def _read_pte(path: Path) -> Graph:
    """Reads a .pte file. Its NPU segments become ops again, so that they can be placed anew."""
    return inline_segments(pte.read(path).graph)


def _named(graph: Graph, name: str | None) -> Graph:
    return graph.replace(name=name) if name else graph
