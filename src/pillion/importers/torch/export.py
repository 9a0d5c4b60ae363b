# SPDX-License-Identifier: Apache-2.0
"""Calls torch.export: its errors become Pillion's, and its log output is suppressed."""

from __future__ import annotations

import inspect
import io
import logging
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from keyword import iskeyword
from pathlib import Path
from traceback import walk_tb

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, TensorArgument
from torch.fx import Node
from torch.nn.modules import transformer
from torch.nn.utils.rnn import PackedSequence

from pillion.errors import PillionError
from pillion.host_io.progress import stage
from pillion.importers.torch.fx_nodes import source_line
from pillion.importers.torch.tensor_sizes import check_tensors
from pillion.importers.torch.user_inputs import as_inputs, describe_value

NOISY_LOGGERS = (
    "torch.export",
    "torch.utils._pytree",
    "torch._subclasses.fake_tensor",
    "torch.fx",
    "torchao",
)
"""Loggers whose messages do not concern users or repeat an exception."""


def export(module: nn.Module, example_inputs: Sequence[Tensor], *, training: bool = False) -> ExportedProgram:
    """Exports a module in eval mode (or train mode) and restores the modes of its submodules."""
    inputs = as_inputs(example_inputs, "example_inputs")
    _refuse_keywords(module)
    stderr = io.StringIO()
    try:
        with (
            stage(f"capturing {type(module).__name__}"),
            quiet_torch(),
            without_mask_detection(),
            in_mode(module, training),
            redirect_stderr(stderr),
        ):  # torch prints whole graphs when it fails
            exported = torch.export.export(module, inputs, strict=False)
    except Exception as error:
        raise _argument_mismatch(module, inputs) or _export_failure(module, error) from error
    sys.stderr.write(stderr.getvalue())
    check_static(exported)
    check_sizes_are_known(exported)
    check_outputs(exported)
    check_tensors(exported)
    return exported


def _refuse_keywords(module: nn.Module) -> None:
    """Raises if a part of a module has a name that the code of its graph cannot hold."""
    names = (
        name for name, _ in (*module.named_modules(), *module.named_parameters(), *module.named_buffers())
    )
    if name := next((name for name in names if any(map(iskeyword, name.split(".")))), None):
        raise PillionError(
            f"PyTorch cannot write the graph of {type(module).__name__} as code",
            rule="no module, parameter or buffer is named by a keyword of Python",
            here=f"`{name}`",
            help="another name: `in_` for `in`, also as a key of a ModuleDict",
        )


@contextmanager
def in_mode(module: nn.Module, training: bool = False) -> Iterator[None]:
    """Puts a module into eval mode (or train mode) and restores the modes of its submodules. Exported modules inside
    have one mode for ever: torch forbids `train` and `eval` on the instance."""
    modes = {part: part.training for part in module.modules()}
    if any("train" in vars(part) for part in modes):
        for part in modes:
            part.training = training
    else:
        module.train(training)
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


@contextmanager
def quiet_torch() -> Iterator[None]:
    """Suppresses warnings and log messages of torch and torchao."""
    loggers = [logging.getLogger(name) for name in NOISY_LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def without_mask_detection() -> Iterator[None]:
    """Keeps `nn.Transformer` from comparing masks with the causal mask: values are unknown while a module is
    traced, and the comparison changes no result."""
    name = "_detect_is_causal_mask"
    before = getattr(transformer, name)
    setattr(transformer, name, lambda mask, is_causal=None, size=None: is_causal is True)
    try:
        yield
    finally:
        setattr(transformer, name, before)


def _has_packed_sequences(error: BaseException) -> bool:
    """Whether an error passed through a frame that holds a packed sequence."""
    frames = (frame for frame, _ in walk_tb(error.__traceback__))
    return any(isinstance(value, PackedSequence) for frame in frames for value in frame.f_locals.values())


def _argument_mismatch(module: nn.Module, inputs: Sequence[Tensor]) -> PillionError | None:
    """Returns the error for a forward that cannot be called with the example inputs; None if it can."""
    try:
        signature = inspect.signature(module.forward)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*inputs)
    except TypeError:
        pass
    else:
        return None
    name = type(module).__name__
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    shown = inspect.Signature(parameters)
    here = f"forward{shown}, {len(inputs)} example input{'s' * (len(inputs) != 1)}"
    in_order = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    by_name = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    if not by_name:
        needed = [p.name for p in parameters if p.default is p.empty and p.name in in_order]
        return PillionError(
            f"{name} takes other inputs",
            rule="an example input for each argument of forward that has no default, in their order",
            here=here,
            help=f"give {', '.join(needed)}"
            if needed
            else "give no example input that forward does not take",
        )
    taken = ", ".join(["self", *in_order, *by_name])
    passed = ", ".join([*in_order, *(f"{argument}={argument}" for argument in by_name)])
    return PillionError(
        f"{name} takes {', '.join(f'`{argument}`' for argument in by_name)} by name alone",
        rule="a program is handed its inputs in the order of forward's arguments",
        here=here,
        help=f"""leave the * out of forward's arguments, or compile a module around it:
    class Plain(nn.Module):
        def __init__(self, net):
            super().__init__()
            self.net = net

        def forward({taken}):
            return self.net({passed})""",
    )


def _export_failure(module: nn.Module, error: Exception) -> PillionError:
    if _has_packed_sequences(error):
        return PillionError(
            f"{type(module).__name__} packs sequences of several lengths",
            rule="all sequences have one length, which is known when the program is compiled",
            here=f"torch.nn.utils.rnn  ({_failing_user_line(module, error)})",
            help="give the recurrent layer the padded tensor, return its outputs for all steps, and read those of the last step that "
            "counts in your code: y[i, length - 1]",
        )
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return PillionError(
        f"torch cannot export {type(module).__name__}",
        rule="a forward that torch.export can trace: tensors in and out, no control flow that depends on their values",
        here=f"{reason}  ({_failing_user_line(module, error)})",
        help="x.shape[1] in place of a size that is read from a tensor, as by int(lengths.max()): sizes are known when the program is compiled"
        if "specialized integer from data-dependent" in reason
        else "torch.where(condition, a, b) or torch.cond in place of `if`, or a decision in the code that calls the program"
        if "data-dependent" in reason
        else "does model(*example_inputs) run in Python? torch.export.export(model, example_inputs, strict=False) shows the whole story",
    )


def _failing_user_line(module: nn.Module, error: Exception) -> str:
    """Returns the innermost line of the user's code in an error's traceback."""
    try:
        own = inspect.getfile(type(module))
    except (TypeError, OSError):
        own = ""
    lines = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    lines += [(f, int(n)) for f, n in re.findall(r'File "([^"]+)", line (\d+)', str(error))]
    mine = [line for line in lines if line[0] == own and not own.startswith(str(Path(torch.__file__).parent))]
    return f"{Path(mine[-1][0]).name}:{mine[-1][1]}" if mine else type(module).__name__


def user_input_nodes(exported: ExportedProgram) -> list[Node]:
    """Returns the input nodes of a program that are not its own tensors."""
    names = set(exported.graph_signature.user_inputs)
    return [node for node in exported.graph.find_nodes(op="placeholder") if node.name in names]


def _has_unknown_size(value: object) -> bool:
    return isinstance(value, Tensor) and not all(isinstance(size, int) for size in value.shape)


def check_static(exported: ExportedProgram) -> None:
    """Raises if an input has a dynamic shape."""
    for node in exported.graph.find_nodes(op="placeholder"):
        if _has_unknown_size(node.meta.get("val")):
            raise PillionError(
                f"input {node.name} has a dynamic dimension",
                rule="all shapes are fixed: memory is planned before the program runs",
                here=f"shape {list(node.meta['val'].shape)}",
                help="export without dynamic_shapes, with inputs of the size that the device will see",
            )


def check_sizes_are_known(exported: ExportedProgram) -> None:
    """Raises if the size of a tensor depends on data, as in `x[x > 0]` or `nonzero`."""
    for node in exported.graph.nodes:
        if _has_unknown_size(node.meta.get("val")):
            raise PillionError(
                f"how much {node.target} gives depends on what its operand holds",
                rule="all shapes are fixed: memory is planned before the program runs",
                here=source_line(node) or node.name,
                help="torch.where(mask, x, 0.0) keeps the size; topk takes so many of the largest",
            )


def check_outputs(exported: ExportedProgram) -> None:
    """Raises if an output is not a tensor."""
    results = exported.graph_signature.output_specs
    for index, spec in enumerate(results):
        if not isinstance(spec.arg, TensorArgument):
            raise PillionError(
                f"result {index} of the model is not a tensor",
                rule="forward returns a tensor, or a tuple, list or dict of tensors",
                here=f"{getattr(spec.arg, 'value', None)!r}, {index + 1} of {len(results)} results",
                help="return the tensors alone",
            )


def specialize_sizes(exported: ExportedProgram, inputs: Sequence[Tensor]) -> ExportedProgram:
    """Re-exports a program with dynamic axes (`Dim("batch")`) at the sizes of the example inputs."""
    arguments = [node.meta["val"] for node in user_input_nodes(exported)]
    if len(arguments) != len(inputs) or not any(
        isinstance(d, torch.SymInt) for x in arguments for d in x.shape
    ):
        return exported
    fits = all(
        x.dim() == example.dim()
        and all(isinstance(d, torch.SymInt) or d == n for d, n in zip(x.shape, example.shape, strict=True))
        for x, example in zip(arguments, inputs, strict=True)
    )
    if not fits:
        return exported
    with quiet_torch():
        return torch.export.export(exported.module(check_guards=False), tuple(inputs), strict=False)


def check_examples(exported: ExportedProgram, inputs: Sequence[Tensor]) -> None:
    """Raises if the example inputs do not match the exported program, or if its tensors exceed a chip's address
    space."""
    check_tensors(exported)
    for spec in exported.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT and not isinstance(spec.arg, TensorArgument):
            raise PillionError(
                f"argument `{spec.arg.name}` of the exported program is not a tensor",
                rule="a program takes tensors and nothing else",
                here=repr(getattr(spec.arg, "value", None)),
                help="export a module whose forward has this value inside",
            )
    arguments = [node.meta["val"] for node in user_input_nodes(exported)]
    expected, examples = (", ".join(map(describe_value, them)) for them in (arguments, inputs))
    if expected != examples:
        raise PillionError(
            "the example inputs do not fit the exported program",
            rule=expected,
            here=examples,
            help="give inputs like those of torch.export.export, or export for these",
        )
