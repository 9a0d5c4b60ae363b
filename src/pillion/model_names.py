# SPDX-License-Identifier: Apache-2.0
"""Checks of model names: zoo name, `file.py:factory`, .pt2, .onnx, .tflite or .pte. Nothing is imported or executed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from shlex import quote

from pillion import zoo
from pillion.errors import PillionError
from pillion.host_io.atomic_files import MODEL_FILES, regular_file, suffix_of
from pillion.host_io.user_code import split_spec
from pillion.registry import REGISTRY

INT8_FILES = (".tflite", ".pte")
"""Suffixes of models that are quantized already."""
CONVERSIONS = b"quantized_decomposed"
"""Namespace of torch's quantize and dequantize operators, as a .pt2 spells it."""
WEIGHTS = (".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".npz")
"""Suffixes of files with weights, or with a module that only its own code can read."""


def int8_suffixes() -> tuple[str, ...]:
    """Returns the suffixes of int8 models, including those of plug-ins."""
    return (*INT8_FILES, *REGISTRY.importers)


def file_suffixes() -> tuple[str, ...]:
    """Returns the suffixes of model files; a .py file is a model with `:factory` behind it."""
    return (".pt2", ".onnx", *int8_suffixes())


_KERAS = """python -c "import sys, tensorflow as tf
model = tf.keras.models.load_model(sys.argv[1])
open(sys.argv[2], 'wb').write(tf.lite.TFLiteConverter.from_keras_model(model).convert())" {model} {stem}.tflite
and compile {stem}.tflite with --quantize --calibrate DATA"""
_SAVED_MODEL = """python -c "import sys, tensorflow as tf
open(sys.argv[2], 'wb').write(tf.lite.TFLiteConverter.from_saved_model(sys.argv[1]).convert())" {model} {stem}.tflite
and compile {stem}.tflite with --quantize --calibrate DATA"""
ONNX_QUANTIZE = b'"\x0eQuantizeLinear'
"""The kind of a quantize node as a field of a serialized message, which no name of a tensor looks like."""
_C_ARRAY = """python -c "import re, sys
digits = re.findall('0x([0-9a-fA-F]+)', open(sys.argv[1]).read())
open(sys.argv[2], 'wb').write(bytes(int(byte, 16) for byte in digits))" {model} {stem}.tflite
and compile {stem}.tflite"""
OTHER_FORMS = {
    ".plm": "images hold no graph: name the model; `pillion show`, `run`, `verify` and `report` take images",
    **dict.fromkeys((".h5", ".keras"), _KERAS),
    **dict.fromkeys((".c", ".cc", ".cpp", ".h"), _C_ARRAY),
    ".pb": _SAVED_MODEL,
    ".zip": "unpack it, and name the .tflite, .onnx or .pt2 file inside, or the folder of a SavedModel",
}
"""Advice for model formats that Pillion does not read, by suffix."""


def check_named(spec: str) -> None:
    """Raises if the name cannot be a model: an unknown zoo name, or a missing file."""
    file, factory = split_spec(spec)
    suffix = ".py" if factory else suffix_of(spec)
    if factory or suffix in file_suffixes():
        regular_file(file, suffix)
    elif zoo.find(spec) is None and not _looks_like_path(spec):
        zoo.require_model(spec)
    elif zoo.find(spec) is None:
        raise _unknown_model_error(spec)


def is_int8_file(model: object) -> bool:
    """Whether the model is a .tflite or .pte file. A .tflite may still compute in float."""
    return isinstance(model, (str, os.PathLike)) and suffix_of(os.fspath(model)) in int8_suffixes()


def is_converted_file(model: str) -> bool:
    """Whether the model is a .pt2 or .onnx whose program has quantize nodes already."""
    words = {".pt2": CONVERSIONS, ".onnx": ONNX_QUANTIZE}.get(suffix_of(model))
    return words is not None and words in Path(model).read_bytes()


def refuse_useless_options(model: str, options: Mapping[str, object]) -> None:
    """Raises if an option contradicts the form of an int8 file. Options are spelled as the user writes them."""
    useless = [option for option, value in options.items() if value is not None]
    if useless:
        raise PillionError(
            f"{model} has its ranges, weights and inputs inside",
            rule=f"{', '.join(options)} go with models that Pillion quantizes",
            here=f"{', '.join(f'{option} {options[option]}' for option in useless)} with a {suffix_of(model)}",
            help="leave them out, or compile the PyTorch model that the file was made from",
        )


def _looks_like_path(spec: str) -> bool:
    return any(mark in spec for mark in ("/", "\\", ".", ":"))


def _unknown_model_error(spec: str) -> PillionError:
    if suffix_of(spec) in WEIGHTS:
        regular_file(Path(spec), suffix_of(spec))
        return _only_weights_error(spec)
    is_file = spec.rstrip(":").endswith(".py")
    return PillionError(
        f"{spec} does not name a model",
        rule=f"a name that `pillion models` lists, {MODEL_FILES}",
        here="a file without a factory" if is_file else spec,
        help=_model_name_help(spec, is_file),
    )


def _model_name_help(spec: str, is_file: bool) -> str:
    known = zoo.find(re.split(r"[:/\\.]", spec)[-1])
    if known is not None:
        return f"-m {known.name}"
    if is_file:
        return f"name the class or function that makes the model: {Path(spec.rstrip(':')).name}:Net"
    path = Path(spec)
    if (path / "saved_model.pb").is_file():
        return _converter_command(_SAVED_MODEL, path)
    if suffix_of(spec) == ".pb":
        return _converter_command(_SAVED_MODEL, path.parent)
    if suffix_of(spec) in OTHER_FORMS:
        return _converter_command(OTHER_FORMS[suffix_of(spec)], path)
    return "write a function that loads it: file.py:factory"


def _converter_command(command: str, path: Path) -> str:
    """Returns a command with a model's path and the stem of its .tflite."""
    name = path.stem or "model"
    return command.replace("{model}", quote(f"{path}")).replace("{stem}.tflite", quote(f"{name}.tflite"))


def _only_weights_error(spec: str) -> PillionError:
    return PillionError(
        f"{spec} does not say what the model computes",
        rule=f"a model is code or a graph: a name that `pillion models` lists, {MODEL_FILES}",
        here=f"a {suffix_of(spec)} holds weights, or a pickled module, whose code is elsewhere and is never executed from here",
        help=f"weights: -m net.py:Net --weights {quote(spec)}; a whole module, in Python: "
        f"torch.export.save(torch.export.export(module, inputs), {Path(spec).stem + '.pt2'!r})",
    )
