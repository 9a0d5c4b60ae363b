# SPDX-License-Identifier: Apache-2.0
"""Explains why a file cannot be read, after an operator or tensor was refused. A row of `KINDS` recognizes a
kind of file, a row of `ADVICE` an operator; a row becomes obsolete once its files are supported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property

from pillion.errors import PillionError
from pillion.importers.tflite.float_files import is_partly_float
from pillion.importers.tflite.model import has_scale, is_constant, operator_name, tensors_of
from pillion.importers.tflite.refusal_reasons import REASONS
from pillion.schemas import tflite
from pillion.schemas.tflite import ElementType

OTHER_WAY = "compile the PyTorch model that the file was made from: -m net.py:Net --quantize"
WITH_DATA = "pillion compile FILE --quantize --calibrate DATA"
"""The advice for files with float activations."""
QUANTIZED = (
    "convert with full integer quantization: converter.optimizations = [tf.lite.Optimize.DEFAULT], a representative_dataset and "
    "target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]"
)
COMPILED = {"edgetpu-custom-op": "Google's Edge TPU", "DISPATCH_OP": "an NPU, by LiteRT"}
"""Custom operators that contain code of other processors, and their vendor."""
CONTROL = ("IF", "WHILE", "CALL", "STABLEHLO_WHILE", "STABLEHLO_CASE")
"""Operators that run other subgraphs."""
LAYERS_THAT_REMEMBER = (
    "write the layer step by step (tf.keras.layers.LSTM(..., unroll=True) does so), "
    f"or {OTHER_WAY} takes nn.LSTM, nn.GRU and nn.RNN"
)
ADVICE: Mapping[str, str] = {
    "CUSTOM Flex": "Flex operators run TensorFlow itself: convert without tf.lite.OpsSet.SELECT_TF_OPS",
    "CUSTOM Convolution2DTransposeBias": "MediaPipe's operator, which LiteRT itself lacks: write it as a transposed convolution and a sum",
    "CUSTOM MaxPoolingWithArgmax2D": "MediaPipe's operator, which LiteRT itself lacks: write it as a pool, and ARG_MAX where places are wanted",
    "CUSTOM MaxUnpooling2D": "MediaPipe's operator, which LiteRT itself lacks: write it as a resize",
    "CUSTOM Signal": "TensorFlow Lite Micro's features of sound are read on int16, in files without float and SignalStacker: write such "
    "a file, or compute them in PyTorch, from operators that docs/guide/sound.md names for each of these",
    "CUSTOM": f"a custom operator has code of its own: cut the model before it, or {OTHER_WAY}",
    "STABLEHLO": "convert with supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]: STABLEHLO operators are another set",
    "LSTM": LAYERS_THAT_REMEMBER,
    "UNIDIRECTIONAL_SEQUENCE": LAYERS_THAT_REMEMBER,
    "BIDIRECTIONAL_SEQUENCE": LAYERS_THAT_REMEMBER,
    "RNN": LAYERS_THAT_REMEMBER,
}
"""The advice for an unsupported operator, by prefix of its name; the first match applies."""


class Diagnosis:
    """All operators and tensors of a file, uninterpreted."""

    def __init__(
        self, model: tflite.Model, name: str, known: Collection[str], compiled: Mapping[str, str]
    ) -> None:
        self.model, self.name, self.known, self.compiled = model, name, known, {**COMPILED, **compiled}
        self.graph = model.subgraphs[0]

    @cached_property
    def codes(self) -> list[str]:
        """The names of all operators of the main subgraph, in order."""
        return [operator_name(self.model, operator.opcode_index) for operator in self.graph.operators]

    def tensors(self, numbers: Sequence[int]) -> list[tflite.Tensor]:
        """Returns the tensors with these indices, ignoring invalid ones."""
        return tensors_of(self.graph, numbers)

    def activations_of_type(self, *types: ElementType, quantized: bool = True) -> list[tflite.Tensor]:
        """Returns the operators' non-constant operands and results of these types; only quantized ones by
        default."""
        touched = {n for operator in self.graph.operators for n in (*operator.inputs, *operator.outputs)}
        return [
            tensor
            for tensor in self.tensors(sorted(touched))
            if tensor.type in types
            and not is_constant(self.model, tensor)
            and not tensor.is_variable
            and (has_scale(tensor) or not quantized)
        ]


def count_names(codes: Iterator[str] | Sequence[str]) -> str:
    """Returns names with their counts, the most frequent first."""
    return ", ".join(f"{count} × {code}" for code, count in Counter(codes).most_common())


def compiled_already(file: Diagnosis) -> PillionError | None:
    """Recognizes a file whose operators contain code for another processor."""
    for code in dict.fromkeys(file.codes):
        custom = code.removeprefix("CUSTOM ")
        whose = file.compiled.get(custom) if custom != code else None
        if whose is not None:
            return PillionError(
                f"`{file.name}` was compiled for {whose} already",
                rule="a .tflite holds layers; a compiler for an NPU puts code of that NPU in their place",
                here=f"custom operator `{custom}`, {count_names(file.codes)}",
                help="use the .tflite from before that step: Pillion compiles it for chips with and without NPU (`pillion targets`)",
            )
    return None


def control_flow(file: Diagnosis) -> PillionError | None:
    """Recognizes loops and branches."""
    codes = [code for code in file.codes if code in CONTROL and code not in file.known]
    if not codes:
        return None
    return PillionError(
        f"`{file.name}` branches or loops",
        rule="what is computed does not depend on data",
        here=f"{count_names(codes)}, in {len(file.model.subgraphs)} subgraphs",
        help=f"convert a net whose loops are unrolled: a Python loop with a fixed number of steps, or {OTHER_WAY}",
    )


BOUNDARY = ("QUANTIZE", "DEQUANTIZE", "CAST", "CUSTOM TFLite_Detection_PostProcess")
"""Operators between float and int8, including the detectors' last operator."""


def computes_in_float(file: Diagnosis) -> PillionError | None:
    """Recognizes operators that compute in float, with weights of 8, 16 or 32 bits."""
    tensors = file.activations_of_type(ElementType.FLOAT32, ElementType.FLOAT16, quantized=False)
    ids = {id(tensor) for tensor in tensors}
    computing = [
        (code, operator)
        for code, operator in zip(file.codes, file.graph.operators, strict=True)
        if code not in BOUNDARY
        and any(id(t) in ids for t in file.tensors((*operator.inputs, *operator.outputs)))
    ]
    if not computing:
        return None
    inside = file.activations_of_type(ElementType.INT8, ElementType.UINT8)
    read = (t for _, operator in computing for t in file.tensors(operator.inputs))
    constants = [t for t in read if is_constant(file.model, t)]
    ops = count_names([code for code, _ in computing])
    if any(t.type in (ElementType.INT8, ElementType.UINT8) and has_scale(t) for t in constants):
        what, rule = (
            "has int8 weights and float activations (dynamic range quantization)",
            "activations are int8 too",
        )
    elif inside:
        what, rule = "computes in float in some places", "all operators between the borders compute on int8"
    elif any(t.type == ElementType.FLOAT16 for t in file.graph.tensors):
        what, rule = "computes in float, with weights of 16 bits", "operators compute on int8"
    else:
        what, rule = "computes in float", "operators compute on int8"
    prefix = "" if inside and not is_partly_float(file.model) else f"{WITH_DATA}, "
    return PillionError(
        f"`{file.name}` {what}", rule=rule, here=ops, help=f"{prefix}{QUANTIZED}, or {OTHER_WAY}"
    )


def unknown_operators(file: Diagnosis) -> PillionError | None:
    """Recognizes unsupported operators."""
    unknown = [code for code in file.codes if code and code not in (*file.known, *CONTROL)]
    if not unknown:
        return None
    advice = dict.fromkeys(_operator_advice(code) for code in dict.fromkeys(unknown))
    return PillionError(
        f"`{file.name}` has operators that are not read",
        rule=f"operators are among the {len(set(file.known))} that are read: docs/reference/tflite.md lists them",
        here=f"{count_names(unknown)}, of {len(file.codes)} operators",
        help="\n".join(advice),
    )


def _operator_advice(code: str) -> str:
    advice = next((words for begin, words in ADVICE.items() if code.startswith(begin)), None)
    why = f" ({REASONS[code]})" if code in REASONS else ""
    return advice or f"write {code} with operators that are read{why}, or {OTHER_WAY}"


KINDS: tuple[Callable[[Diagnosis], PillionError | None], ...] = (
    control_flow,
    computes_in_float,
    unknown_operators,
)
"""The recognizers, in the order of the message."""


def explained_error(
    model: tflite.Model, name: str, refused: PillionError, known: Collection[str], compiled: Mapping[str, str]
) -> PillionError:
    """Returns an error that explains the whole file, or the original error if nothing more is known."""
    file = Diagnosis(model, name, known, compiled)
    diagnosis = compiled_already(file)
    findings = [diagnosis] if diagnosis else [found for kind in KINDS if (found := kind(file)) is not None]
    if not findings:
        help = refused.help or f"convert the model with a current TensorFlow, or {OTHER_WAY}"
        return PillionError(refused.what, rule=refused.rule, here=refused.here, help=help)
    first, *others = (finding.what for finding in findings)
    return PillionError(
        "; ".join((first, *(what.removeprefix(f"`{name}` ") for what in others))),
        rule="\n".join(finding.rule for finding in findings),
        here="\n".join(finding.here for finding in findings),
        help="\n".join(dict.fromkeys(line for finding in findings for line in finding.help.split("\n"))),
    )


def combined_error(refusals: Sequence[PillionError]) -> PillionError:
    """Returns one error for all refused operators; equal reasons are listed once, with their count."""
    rules = Counter(refusal.rule for refusal in refusals)
    first = {refusal.rule: refusal for refusal in reversed(refusals)}
    if len(rules) == 1 and len(refusals) == 1:
        return refusals[0]
    shown = [first[rule] for rule in rules]
    return PillionError(
        f"{len(refusals)} operators cannot be read",
        rule="\n".join(rules),
        here="\n".join(
            f"{rules[refusal.rule]} ×, first {refusal.what.removesuffix(' cannot be read')}: {refusal.here}"
            for refusal in shown
        ),
        help="\n".join(dict.fromkeys(refusal.help for refusal in shown if refusal.help)),
    )
