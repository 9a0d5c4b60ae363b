# SPDX-License-Identifier: Apache-2.0
"""Imports quantized torch programs as graphs.

The imported graph still computes in float32 between `dequantize` and `quantize` ops; the pass `integer` turns
these into integer ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.fx import GraphModule, Node

from pillion.errors import PillionError
from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.float_origin import Origin
from pillion.importers.torch.import_loops import import_loop
from pillion.importers.torch.input_types import input_dtype
from pillion.importers.torch.layout import NHWC, Builder, LayoutValue, from_logical_order
from pillion.importers.torch.loop_nodes import LoopNodes, in_execution_order
from pillion.importers.torch.rows import ROWS
from pillion.importers.torch.rows.byte_functions import as_uint8
from pillion.ir.graph import Graph, UniqueNames, c_identifier
from pillion.ir.types import BYTES, DType, PerChannel, PerTensor, Quant, TensorType, Value, constant_value
from pillion.ops import Dequantize, Quantize

DEFAULT_HELP = "write this line of the model so that the rule holds, or leave it outside the model"
"""Help of errors whose rule names no way out."""


def import_program(module: GraphModule, name: str) -> Graph:
    """Imports a torch program as a graph."""
    return import_with_origins(module, name)[0]


def import_with_origins(
    module: GraphModule, name: str, *, nhwc: bool = False
) -> tuple[Graph, dict[str, Origin]]:
    """Imports a torch program, and maps the names of its values to the nodes of the float model that they
    correspond to. With `nhwc`, image inputs and outputs are channels last."""
    importer = _Importer(module, nhwc)
    for item in in_execution_order(module.graph):
        if isinstance(item, LoopNodes):
            import_loop(importer, item)
        else:
            importer.visit(item)
    graph = Graph(
        c_identifier(name), tuple(importer.inputs), tuple(importer.builder.ops), tuple(importer.outputs)
    )
    return graph.without_dead_ops(), importer.origins


class _Importer:
    """Visits nodes in order and keeps each node's result: a placed tensor or a list of them."""

    def __init__(self, module: GraphModule, nhwc: bool) -> None:
        self.module, self.nhwc = module, nhwc
        self.builder = Builder(UniqueNames())
        self.known: dict[Node, Any] = {}
        self.read_as: dict[Value, dict[Quant, LayoutValue]] = {}
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.origins: dict[str, Origin] = {}

    def visit(self, node: Node) -> None:
        self.builder.node = node
        self.builder.hint, self.builder.source = c_identifier(_value_name(node)), fx.source_description(node)
        self.import_one(node)
        imported = self.known.get(node)
        if isinstance(imported, LayoutValue) and not imported.value.is_constant:
            self.origins.setdefault(imported.value.name, Origin(_tensor_name(node), imported.order))

    def import_one(self, node: Node) -> None:
        match node.op:
            case "placeholder":
                self.known[node] = self.input(node)
            case "get_attr":
                self.known[node] = self.constant(node)
            case "output":
                self.output(node)
            case "call_function":
                self.known[node] = self.call(node)
            case _:
                raise PillionError(
                    f"a node of kind {node.op} cannot be imported",
                    rule="a program is calls of operators, without modules inside",
                    here=f"{node.name} ({fx.source_line(node)})",
                    help="export the module with torch.export",
                )

    def input(self, node: Node) -> LayoutValue | None:
        shape = tuple(int(d) for d in node.meta["val"].shape)
        is_image = self.nhwc and len(shape) == 4
        order = NHWC if is_image else tuple(range(len(shape)))
        dtype = input_dtype(node)
        value = Value(
            self.builder.names.fresh(c_identifier(node.name)),
            TensorType(tuple(shape[a] for a in order), dtype, _input_quant(node) if dtype in BYTES else None),
        )
        self.inputs.append(value)
        return LayoutValue(value, order)

    def constant(self, node: Node) -> Any:
        attribute: Any = self.module
        for part in str(node.target).split("."):
            attribute = getattr(attribute, part)
        if not isinstance(attribute, torch.Tensor):
            return attribute
        array = attribute.detach().cpu().numpy()
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        if array.dtype == np.int64 and (array == array.astype(np.int32)).all():
            array = array.astype(np.int32)
        if array.dtype == np.int64 or array.dtype.name not in {d.value for d in DType}:
            return attribute
        return from_logical_order(constant_value(self.builder.names.fresh(c_identifier(node.name)), array))

    def output(self, node: Node) -> None:
        results = node.args[0]
        for result in results if isinstance(results, (tuple, list)) else [results]:
            placed = self.known[result]  # type: ignore[index]  # outputs are nodes
            if result.meta["val"].dtype is torch.uint8:  # type: ignore[union-attr]  # outputs are nodes
                placed = as_uint8(self.builder, placed)
            order = NHWC if self.nhwc and placed.rank == 4 else tuple(range(placed.rank))
            self.outputs.append(self.builder.arrange(placed, order))

    def call(self, node: Node) -> Any:
        args: Any = torch.fx.node.map_arg(node.args, self.known.__getitem__)
        kwargs: Any = torch.fx.node.map_arg(node.kwargs, self.known.__getitem__)
        match fx.conversion_name(node):
            case "quantize_per_tensor":
                quant = PerTensor(float(_as_python_number(args[1])), int(_as_python_number(args[2])))
                return self.quantize(args[0], quant, DTYPES[args[5]])
            case "dequantize_per_tensor":
                return self.dequantize(
                    args[0], PerTensor(float(_as_python_number(args[1])), int(_as_python_number(args[2])))
                )
            case "dequantize_per_channel":
                scales = tuple(_as_numpy_array(args[1]).astype(float).tolist())
                return self.dequantize(args[0], PerChannel(scales, int(args[3])))
        if node.target not in ROWS:
            raise no_row_error(node)
        try:
            return ROWS[node.target](self.builder, *args, **kwargs)
        except TypeError as error:
            raise PillionError(
                f"{fx.operator_name(node)} is called in a way that cannot be imported",
                rule=str(error),
                here=fx.source_line(node),
                help="call the operator with plain tensors and numbers, or open an issue with this line",
            ) from None
        except PillionError as error:
            line = fx.source_line(node)
            here = error.here if line in error.here else f"{error.here}  ({line})"
            raise PillionError(
                error.what, rule=error.rule, here=here, help=error.help or DEFAULT_HELP
            ) from None

    def quantize(self, x: LayoutValue, quant: PerTensor, dtype: DType) -> LayoutValue:
        if x.value.is_constant:
            raise PillionError(
                f"constant `{x.value.name}` was left in float by the quantizer",
                rule="constants are integers before anything is quantized that they make",
                here=self.builder.source,
                help="this is a defect of Pillion: please open an issue with the model's source line",
            )
        return x.with_value(self.builder.emit(Quantize, x=x.value, dtype=dtype, quant=quant))

    def dequantize(self, x: LayoutValue, quant: Quant) -> LayoutValue:
        """Imports a dequantize. A quantized constant stays an integer constant with its scale; ops read it
        directly."""
        if x.value.is_constant:
            return self.read(x.value, quant)
        return x.with_value(self.builder.emit(Dequantize, x=x.value))

    def read(self, integers: Value, quant: Quant) -> LayoutValue:
        """Returns one value per constant and quantization, so that layers can share weights."""
        by_quant = self.read_as.setdefault(integers, {})
        if quant not in by_quant:
            name = self.builder.names.fresh(integers.name) if by_quant else integers.name
            by_quant[quant] = from_logical_order(constant_value(name, integers.constant, quant))
        return by_quant[quant]


def no_row_error(node: Node) -> PillionError:
    """Returns the error for an operator that has no row."""
    return PillionError(
        f"operator {fx.operator_name(node)} is not supported",
        rule="`pillion ops --pytorch` lists what is",
        here=f"{node.name} ({fx.source_line(node)})",
        help="write it with supported operators, or open an issue with the model's source line",
    )


def _input_quant(node: Node) -> PerTensor:
    """Returns the scale and zero point with which an input of integers is dequantized."""
    reader = next(iter(node.users), None)
    is_quantized = fx.conversion_name(reader) == "dequantize_per_tensor"
    return PerTensor(float(reader.args[1]), int(reader.args[2])) if is_quantized else UNIT_SCALE  # type: ignore[union-attr, arg-type]  # numbers


def _as_python_number(value: Any) -> Any:
    return _as_numpy_array(value).item() if isinstance(value, (torch.Tensor, LayoutValue)) else value


def _as_numpy_array(value: Any) -> np.ndarray[Any, Any]:
    return value.value.constant if isinstance(value, LayoutValue) else np.asarray(value.detach().cpu())


DTYPES = {torch.int8: DType.INT8, torch.int16: DType.INT16}
UNIT_SCALE = PerTensor(1.0)
"""Quantization of integer inputs: each integer is its own value."""


def _value_name(node: Node) -> str:
    """Returns the value name of a node; conversions are named after the node that they convert."""
    suffix = {"": "", "quantize_per_tensor": "_q"}.get(fx.conversion_name(node), "_f")
    is_clamped = any(fx.CLAMPED in user.meta for user in node.users)
    return _tensor_name(node) + ("_unclamped" if is_clamped else suffix)


def _tensor_name(node: Node) -> str:
    """Returns the name of the node that made a tensor, before it was converted or clamped to fewer levels."""
    made = _before_conversions(node)
    return str(made.meta.get(fx.CLAMPED, made.name))


def _before_conversions(node: Node) -> Node:
    """Returns the first node that is not a conversion, upstream of `node`."""
    while fx.conversion_name(node) and isinstance(node.args[0], Node):
        node = node.args[0]
    return node
