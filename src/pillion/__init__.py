# SPDX-License-Identifier: Apache-2.0
"""Pillion compiles PyTorch models for microcontrollers with an NPU next to a Cortex-M core.

program = pillion.compile(model, example_inputs, target="cortex-m55+int8", calibrate=batches)
program.run(x)                   # the exact reference; on="host" or a board runs the generated C
program.firmware("fw/")          # plain C, no interpreter
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pillion.errors import PillionError

if TYPE_CHECKING:
    from pillion.compile_options import (
        CompileOptions,
        Io,
        Loading,
        Memory,
        NpuOptions,
        PlacementOptions,
        Quantization,
        Stream,
        Tuning,
    )
    from pillion.compiler import compile, float_weights, load, prepare_qat
    from pillion.evaluation.evaluate import evaluate
    from pillion.evaluation.evaluation_result import Evaluation, EventEvaluation
    from pillion.evaluation.event_evaluation import evaluate_events
    from pillion.evaluation.metric_goal import MetricGoal
    from pillion.program import Program
    from pillion.registry import REGISTRY, Registry
    from pillion.run.verify import verify

__version__ = "0.1.0"
__all__ = [
    "REGISTRY",
    "CompileOptions",
    "Evaluation",
    "EventEvaluation",
    "Io",
    "Loading",
    "Memory",
    "MetricGoal",
    "NpuOptions",
    "PillionError",
    "PlacementOptions",
    "Program",
    "Quantization",
    "Registry",
    "Stream",
    "Tuning",
    "__version__",
    "compile",
    "evaluate",
    "evaluate_events",
    "float_weights",
    "load",
    "prepare_qat",
    "verify",
]

_MODULES = {
    "pillion.compiler": "compile float_weights load prepare_qat",
    "pillion.compile_options": "CompileOptions Io Loading Memory NpuOptions PlacementOptions Quantization Stream Tuning",
    "pillion.evaluation.evaluate": "evaluate",
    "pillion.evaluation.evaluation_result": "Evaluation EventEvaluation",
    "pillion.evaluation.event_evaluation": "evaluate_events",
    "pillion.evaluation.metric_goal": "MetricGoal",
    "pillion.program": "Program",
    "pillion.registry": "REGISTRY Registry",
    "pillion.run.verify": "verify",
}
_LAZY = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Loads the compiler on first use, so that importing the package stays fast."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
