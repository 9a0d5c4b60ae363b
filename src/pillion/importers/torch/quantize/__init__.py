# SPDX-License-Identifier: Apache-2.0
"""From a float module to an int8 graph: everything that must happen in torch.

    program = ptq(model, example_inputs, calibrate=batches)
    module = prepare_qat(model, example_inputs)               then train it, then
    program = finish_training(module, example_inputs)
    program.graph_module    what the importer reads
    program.float_ops       what stays in float, where, and why

The stages, a file each: `normalize` rewrites the exported graph so that each thing is written in one way (its imports are the
list of passes); `annotate` plans from the rules of the ops (`table`) who has which parameters and writes torch's annotations;
torch observes (`ptq`), or simulates rounding while the model is trained (`qat`); `convert` puts the numbers in.

The result is a `torch.fx.GraphModule`, not an ExportedProgram: exporting a second time would take longer than all of
quantization, and there is nothing to learn from it. In its graph

- placeholders are the model's inputs in order, `get_attr` nodes its constants (`constant_of(node)` is the tensor);
- every node has its shape and type in `meta["val"]`, and calls have the source line (`source_line(node)`);
- a quantized tensor is `quantize_per_tensor` followed by the `dequantize_per_tensor` that all its readers share
  (`torch.ops.quantized_decomposed`), also behind a placeholder and in front of the output;
- weights are int8 constants behind `dequantize_per_channel` (conv and linear axis 0, transposed convolution axis 1), operands
  that are constants int8 behind `dequantize_per_tensor`; biases are float constants, to be rounded at s_x · s_w;
- a layer whose result goes straight into `relu` or `clamp`, with no quantize node in between, has that as its output range;
- dequantize directly followed by quantize is a requantization that the parameters demand;
- what runs between no dequantize and no quantize node is float, and listed in `float_ops`.

The calls are those that have rows (`rows.quantization.RULES`), plus the ones in `float_ops`. In particular there are no in-place calls, no `view`,
`flatten`, `squeeze`, `select`, `split`, `stack`, `expand` (all `reshape`, `slice`, `cat`), no `transpose` or `t` (`permute`), no
`mm`, `matmul`, `addmm` (`linear` or `bmm`), no relu6, hardtanh (`clamp`), no scalar operands (constants), no division by constants
(`mul`), no batch norm that has statistics (folded, or a depthwise `conv2d`), and no `padding="same"`.
"""

from pillion.importers.torch.export import export, quiet
from pillion.ir.wishes import Wishes

with quiet():
    import torchao.quantization.pt2e  # noqa: F401  # it registers the library

from pillion.importers.torch.data import CalibrationData, load_calibration
from pillion.importers.torch.nodes import constant_of, evaluate_unary, module_of, shape_of, source_line
from pillion.importers.torch.quantize.annotate import FloatOp, PillionQuantizer
from pillion.importers.torch.quantize.program import DEQUANTIZE, QUANTIZE, QuantizedProgram
from pillion.importers.torch.quantize.ptq import ptq
from pillion.importers.torch.rewrite.batch_norm import fold_batch_norms
from pillion.importers.torch.rewrite.normalize import normalize
from pillion.importers.torch.rows.quantization import RULES, Rule, function_of
from pillion.importers.torch.train.module import QatModule
from pillion.importers.torch.train.qat import finish_training, prepare_qat

__all__ = [
    "DEQUANTIZE",
    "QUANTIZE",
    "RULES",
    "CalibrationData",
    "FloatOp",
    "PillionQuantizer",
    "QatModule",
    "QuantizedProgram",
    "Rule",
    "Wishes",
    "constant_of",
    "evaluate_unary",
    "export",
    "finish_training",
    "fold_batch_norms",
    "function_of",
    "load_calibration",
    "module_of",
    "normalize",
    "prepare_qat",
    "ptq",
    "shape_of",
    "source_line",
]
