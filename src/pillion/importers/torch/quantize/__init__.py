# SPDX-License-Identifier: Apache-2.0
"""Quantizes float modules to int8 graphs: after training (`ptq`), or with it (`prepare_qat`, then `finish_training`).

`QuantizedProgram` documents the graph that the importer reads."""

from pillion.importers.torch.export import export, quiet
from pillion.ir.constraints import QuantizationConstraints

with quiet():
    import torchao.quantization.pt2e  # noqa: F401  # it registers the library

from pillion.importers.torch.calibration_data import CalibrationData, load_calibration
from pillion.importers.torch.fx_nodes import constant_of, module_of, shape_of, source_line
from pillion.importers.torch.quantize.annotate import FloatOp, PillionQuantizer
from pillion.importers.torch.quantize.ptq import ptq
from pillion.importers.torch.quantize.quantized_program import DEQUANTIZE, QUANTIZE, QuantizedProgram
from pillion.importers.torch.rewrite.batch_norm import fold_batch_norms
from pillion.importers.torch.rewrite.pipeline import rewrite_for_quantization
from pillion.importers.torch.rows.quantization import RULES, QuantizationRule, function_of
from pillion.importers.torch.train.qat import finish_training, prepare_qat
from pillion.importers.torch.train.qat_module import QatModule

__all__ = [
    "DEQUANTIZE",
    "QUANTIZE",
    "RULES",
    "CalibrationData",
    "FloatOp",
    "PillionQuantizer",
    "QatModule",
    "QuantizationConstraints",
    "QuantizationRule",
    "QuantizedProgram",
    "constant_of",
    "export",
    "finish_training",
    "fold_batch_norms",
    "function_of",
    "load_calibration",
    "module_of",
    "prepare_qat",
    "ptq",
    "rewrite_for_quantization",
    "shape_of",
    "source_line",
]
