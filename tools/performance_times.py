# SPDX-License-Identifier: Apache-2.0
"""The times in docs/performance.md: those of inferences and commands on a computer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Figures = dict[str, Any]
Table = Callable[[list[str], list[list[str]]], str]

HOST = """Milliseconds of one inference in one thread, float inputs and outputs, on: {computer}. Pillion's C is that of a product,
compiled for any processor of the kind. `--native` takes kernels for this processor's vectors (AVX2, and products of bytes where it has
them: AVX-VNNI, AVX-512 VNNI); the bytes are the same, and products never hold these kernels. LiteRT runs the same model's `.tflite` file
by its default kernels (XNNPACK), which round otherwise, and by its reference kernels. All take 15 turns of up to 20 runs, of which the
shortest counts. `.venv/bin/python benchmarks/bench.py --host` measures these alone.
"""


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:,}"


def host_table(results: Figures, table: Table) -> str:
    names = ("generic_ms", "native_ms", "litert_default_ms", "litert_reference_ms")
    rows = []
    for label, figures in results["host"]["models"].items():
        cells = [f"{figures[name]:.3f}" if name in figures else "–" for name in names]
        speed = figures.get("litert_default_ms", float("nan")) / figures["native_ms"]
        rows.append([label, *cells, f"{speed:.2f}"])
    head = [
        "model",
        "Pillion's C",
        "`--native`",
        "LiteRT",
        "LiteRT's reference kernels",
        "speed of `--native` × LiteRT",
    ]
    return table(head, rows)


def seconds_table(results: Figures, peers: Figures, table: Table) -> str:
    names = {
        "help": "`pillion --help`",
        "targets": "`pillion targets`",
        "models": "`pillion models`",
        "ops": "`pillion ops`",
        "doctor": "`pillion doctor`, which asks four programs for their version",
        "wrong_option": "the refusal of an option that does not exist",
        "wrong_model": "the refusal of a model that does not exist",
        "wrong_target": "the refusal of a target that does not exist",
        "mobilenet_v2_pte": "`pillion compile -m mobilenet_v2 -t cortex-m55 --quantize -o model.pte`",
        "dense": "a densely connected net of 160 layers (641 calls), to a C project",
        "chain": "2,000 calls in a row, to a `.tflite` file",
        "chain_tflite": "that file, to a C project for `cortex-m55`",
        "chain_tflite_npu": "that file, to a C project for `imxrt700`",
        "wide": "50 million weights, to a C project",
    }
    theirs = {"mobilenet_v2_pte": number(peers["pte_seconds"]["mobilenet_v2"])}
    commands = [
        [
            names[key],
            *(f"{figures[unit]:.2f}" for unit in ("clock", "processors")),
            number(figures["peak_mb"]),
            theirs.get(key, "–"),
        ]
        for key, figures in results["seconds"].items()
    ]
    models = [
        [f"`pillion.compile`, {label}", "–", f"{cores['cortex-m55']['compile_seconds']:.2f}", "–", "–"]
        for label, cores in results["models"].items()
    ]
    return table(["", "seconds", "processor seconds", "MB at most", "ExecuTorch, seconds"], commands + models)
