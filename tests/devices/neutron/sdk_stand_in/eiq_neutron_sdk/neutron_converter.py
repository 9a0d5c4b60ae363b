# SPDX-License-Identifier: Apache-2.0
import ctypes
import os
import struct
import sys
import time
from pathlib import Path

import numpy as np

from eiq_neutron_sdk.neutron_library_utils import getNeutronTargets
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import read_root_table, write_flatbuffer

HOW = os.environ.get("STAND_IN", "")
MICROCODE_BYTES, WEIGHTS, KERNELS = 70, bytes(range(33)), b"kernels!"
PROFILE_BYTES, DEBUG_BYTES, PREFETCH_BYTES = 96, 32, 4096


class CompilationOptions:
    __slots__ = (
        "dumpAfterGenerate",
        "dumpAfterImport",
        "dumpKernelSelectionCode",
        "excludeGraphPasses",
        "fetchConstantsToSRAM",
        "minNumOpsPerGraph",
        "verbose",
        *(() if HOW == "without_profiling" else ("useProfiling",)),
    )

    def __init__(self):
        if HOW != "without_profiling":
            self.useProfiling = False


class CompilationContext:
    __slots__ = ("compilationOpts", "targetOpts")

    def __init__(self):
        self.compilationOpts = CompilationOptions()


def getNeutronTarget(name):
    found = [target for target in getNeutronTargets() if target.name == name]
    if not found:
        os.abort()
    return found[0]


def convertModel(model, context):
    assert isinstance(model, list)
    assert context.targetOpts.name
    assert context.compilationOpts.minNumOpsPerGraph == 1
    print("stand-in: converting", flush=True)
    if HOW in ENDINGS:
        ENDINGS[HOW]()
    if context.compilationOpts.dumpKernelSelectionCode:
        options = context.compilationOpts
        Path("_kernel_selection.c").write_text(
            f"/* {context.targetOpts.name} sram={options.fetchConstantsToSRAM} */\n"
        )
    if HOW == "not_a_model":
        return list(b"no TFLite at all")
    options = context.compilationOpts
    profile = getattr(options, "useProfiling", False)
    if profile and options.dumpAfterGenerate == "console":
        print("stand-in: kernel 0 is all of it", flush=True)
    file = read_root_table(tflite.Model, bytes(model), tflite.IDENTIFIER)
    return list(converted(file, profile, options.fetchConstantsToSRAM))


def hang():
    print("stand-in: thinking", flush=True)
    time.sleep(600)


ENDINGS = {
    "abort": os.abort,
    "segfault": lambda: ctypes.string_at(0),
    "exit_0": lambda: os._exit(0),
    "exit_3": lambda: sys.exit(3),
    "raise": lambda: [].pop(),
    "hang": hang,
}


def converted(file, profile, prefetch):
    """The inputs and outputs of a model around one NeutronGraph, or around what HOW asks for."""
    graph = file.subgraphs[0]
    inputs = [graph.tensors[t] for t in graph.inputs]
    outputs = [graph.tensors[t] for t in graph.outputs]
    if HOW == "reorder":
        inputs.reverse()
        outputs.reverse()
    if HOW == "drop_input":
        inputs.pop()
    if HOW == "drop_output":
        outputs.pop()
    if HOW == "rename":
        inputs[0].name = "something_else"
    version = 1 if profile or HOW == "version_1" else 0
    blocks = [microcode(version, len(inputs), len(outputs), profile, prefetch), WEIGHTS, KERNELS]
    names = ("microcode", "weights", "kernels")
    consts = [tensor(name, len(b), 1 + i) for i, (name, b) in enumerate(zip(names, blocks, strict=True))]
    extras = [tensor(name, 16, 0) for name in (("profile", "debug", "scratch") if version else ("scratch",))]
    for each in (*inputs, *outputs):
        each.buffer = 0
    tensors = [*inputs, *consts, *outputs, *extras]
    neutron = tflite.Operator(
        inputs=list(range(len(inputs) + 3)), outputs=list(range(len(inputs) + 3, len(tensors)))
    )
    operators = {"no_graph": [], "two_graphs": [neutron, neutron]}.get(HOW, [neutron])
    softmax = any(code.number == tflite.OPERATOR_NUMBERS["SOFTMAX"] for code in file.operator_codes)
    if HOW == "leftover" or (HOW == "leaves_softmax" and softmax):
        operators = [neutron, tflite.Operator(opcode_index=1)]
    first = len(inputs) + 3
    sub = tflite.SubGraph(
        tensors=tensors,
        inputs=list(range(len(inputs))) * (2 if HOW == "input_twice" else 1),
        outputs=list(range(first, first + len(outputs))),
        operators=operators,
    )
    codes = [tflite.OperatorCode(custom_code="NeutronGraph", deprecated_builtin_code=32, builtin_code=32)]
    codes.append(tflite.OperatorCode())
    buffers = [tflite.Buffer(), *(tflite.Buffer(data=np.frombuffer(b, np.uint8)) for b in blocks)]
    return write_flatbuffer(
        tflite.Model(version=3, operator_codes=codes, subgraphs=[sub], buffers=buffers), tflite.IDENTIFIER
    )


def microcode(version, inputs, outputs, profile, prefetch):
    words = [0] * 16
    words[0] = 1 if HOW == "wrong_magic" else 0x64434D6E
    words[6], words[7] = MICROCODE_BYTES, len(WEIGHTS) + (16 if HOW == "wrong_weights" else 0)
    words[9] = 40_960
    if profile:
        words[10], words[11] = 1 << 31 | PROFILE_BYTES, DEBUG_BYTES
    if prefetch:
        words[12 if version else 10] = PREFETCH_BYTES
    first = 13 if version else 11
    words[first], words[first + 1] = inputs, outputs + (HOW == "wrong_counts")
    return struct.pack("<16I", *words) + b"\x5a" * (MICROCODE_BYTES - 64)


def tensor(name, count, buffer):
    return tflite.Tensor(name=name, shape=[count], type=tflite.ElementType.UINT8, buffer=buffer)
