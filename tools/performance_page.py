# SPDX-License-Identifier: Apache-2.0
"""docs/performance.md, from the recorded figures: benchmarks/results.json (ours) and benchmarks/peers.json (others')."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from performance_times import HOST, Figures, Table, host_table, number, seconds_table

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
CORES = {"cortex-m55": "M55", "cortex-m33": "M33"}
WITHOUT_SIMD = {"cortex-m3": "M3", "cortex-m0": "M0"}
DENSE = ("conv2d", "linear")
PRODUCTS = {"cortex-m55": 128 / 14, "cortex-m33": 24 / 17}
"""Products of an instruction in the inner loops of convolutions."""
OF_KERNELS = {
    "conv2d_3x3_fours_mve": 384 / 37,
    "conv2d_winograd_dsp": 36 / 16 * 12 / 8,
}
"""The same of kernels that share more loads, and of those that need fewer products."""
SHARES = """What of the ratio to ExecuTorch is left if nothing but the inner loops of convolutions and fully connected layers ran, at their full rate:
on M55, 14 instructions for 128 products (six loads, eight VMLADAVA into the eight even registers that it can add to), and 37 for 384 where four
pixels of a 3x3 kernel share columns; on M33, 17 for 24 (three loads, two unpackings, twelve SMLAD in thirteen registers), and 8 for what is 27 of the definition where 3x3 layers take
16 products for 36. Around them: widening or
gathering inputs, requantization (about 2.5 instructions for an output on M55, 8 on M33), the fill of pieces of 16 where a sum is shorter.
"""
FLOORS = """What keeps single ops from going below these figures with the same scheme of work:

- **Convolutions on M55.** VMLADAVA adds to an even core register, of which there are eight; a result takes one. So a round has eight of them and at least
  six loads, of 2 + 4 or 4 + 2 vectors; only taps that share columns need fewer (12 loads for 24 products of vectors). 16 results take 38 instructions
  beside their products: 4 for biases, 8 to move the sums into vectors, 2 for factors, 8 for both roundings (the second one adds the zero point and rounds
  halves away from zero, `kernels/README.md`), 1 that asks whether that may be, 6 for narrowing, 4 for the stores, 5 around; 47 where sums are longer than 64,
  for the loop over them, and 45 in fours of a 3x3 kernel. resnet8 has 86,016 results. Its products alone are 0.259 of ExecuTorch and 45 for 16 results 0.050;
  its first layer fills 27 inputs up to 32, windows are copied with their padding, three tensors are added: 0.33 would leave 0.022 for all of these, which take
  0.033. MobileNetV2 at 96x96 spends two fifths of its instructions in 1x1 layers on maps of 6x6 and 3x3: there a group of eight channels, which takes 40 to begin,
  meets 18 or 5 pairs of pixels, and the ninth pixel is half of a pair.
- **Convolutions on M33.** A product of SMLAD is two of bytes. Six sums need twelve of them for four inputs, and three loads and two unpackings: 1.41 products
  an instruction. Four pixels instead of three would be 1.45, and take fifteen registers of fourteen. MobileNetV2 is at 1.34 to 1.37 where sums have 144 inputs and more, and its depthwise layers and its sums of 16, 24 and 32 inputs keep it above 0.33.
  What would go below is SMLAL with two numbers in a word: (p + q z)(A + B z) has three fields, a third pixel in a second word tells the middle one apart, and
  two instructions make six products, 12 in 6 with their loads. But such words have to be made of bytes: those of weights in two instructions each, for
  all pixels that wait in scratch, those of inputs in 2.1 instructions for a byte instead of 0.8, and a result takes 3 more. With 12 pixels at a time that is
  78 instructions for a result of 96 inputs and 24 channels, which takes 80 now, and 256 for one of 384 inputs and 64 channels instead of 285: a tenth
  of MobileNetV2, for 40 bytes of scratch an input channel instead of 6. Memory is dearer here. Windows of 3x3 without strides need fewer products (Winograd's, exact in integers): 16 for four results where the definition has 36,
  12 of them in 8 instructions, 3.4 of the definition's for each. Around them are 8.5 instructions for each result that join places, 6.3 that make a byte of
  it, 14 for each input that prepare it; of 32x32x16 the products are 0.56 of all. The first stage of resnet8 has such layers. Prepared weights are
  3.6 times the bytes: its 32 and 64 channels would save 0.8 and 0.9 million instructions more (16x16x32 in about 1.0 million, 8x8x64 in 0.94) for 23,552 and 94,208
  bytes of flash, 35 and 9 instructions a byte. Prepared at run time for six tiles (138 instructions for four inputs of a channel), the same
  layers take 1,380,189 and 1,358,167, in 8,536 and 16,888 bytes of scratch where the usual kernel has 6,376 and 8,900, and a program that makes few
  rows at a time would gain nothing: that is not done.
- **Depthwise 3x3, stride 1, on M55.** A round is 29 instructions for eight outputs (27 where results are rectified): two loads, eight VMLADAV, four
  moves, two biases, four or six of rounding, seven to narrow and store, two around: 2.48 products each. A channel of 48x48 makes 288 rounds; 2.3 products an
  instruction for the whole would leave 660 instructions to lay out 2,304 bytes, of which gathers, their joining and the interleaving
  stores alone are 720. All eight vectors are taken (four of the kernel, a window, two of sums, the places of results), so the factors that save the zero
  point and the sign fix elsewhere, also at stride 2, have no place. Narrowing by the shift itself would take it as a constant of the code: 16 copies of
  each loop.
- **Fully connected on M33.** One row of inputs meets four channels in 14 instructions for 16 products: weights are used once, so that each needs its unpacking.
  The autoencoder's products alone are 0.387 at that rate; its 1,672 results take 40 instructions for four, 0.028, and float inputs
  and outputs 0.013.
- **Products of two tensors.** With 16 products to a result (the first `bmm`), eight results on M55 take 35 instructions, of which 10 are products
  and loads: 3.66 products each, before a vector is copied. On M33 four results take 44 for products and loads and 33 for the rest: 0.83.
  Longer sums (the second one) get beyond 4 on M55 and to 1 on M33.
"""
SCALAR = """On emulated `mps2-an385` (Cortex-M3) and `microbit` (Cortex-M0, with more memory than the real one has). Peers were not measured
there.

What keeps them from going below these figures with the same scheme of work: on M3 a round of convolutions of 1x1 is nine instructions for six
products (0.67 to an instruction), before inputs are widened and results rounded; they are 63 to 67 % of a network with depthwise layers.
A window of 3x3 takes 54 instructions for four results, 24 more to round and store them, and 12 around: 0.40 before rows are widened. On M0 a
product takes the place of a factor and has to be added: 14 instructions for four products of depthwise layers, and some twenty for the product of 64
bits that scales a result.
"""
SHOWN_IN_FULL = "mobilenet_v2"
"""The model whose instructions are listed by kernel."""

INTRO = """# Performance

**Instructions, not cycles.** The figures are instructions that one inference executes, counted exactly on emulated boards
(QEMU `mps3-an547`, Cortex-M55 with Helium; `mps2-an505`, Cortex-M33 with DSP extension). They are the same on every computer
and in every run, which makes them good for comparing programs on one core, and they are no prediction of time: memory, caches
and instructions of several cycles are not in them.

Reproduce: `make bench` measures everything on this page again and fails where a recorded figure got worse by more than 1 %;
`.venv/bin/python benchmarks/bench.py --update` records. Profile of your own model: `pillion run fw/ --on mps3-an547 --profile`.

The peer is ExecuTorch with its `cortex_m` operators and CMSIS-NN on the same compiler and emulator; TFLM is TensorFlow Lite
Micro with CMSIS-NN. Their figures are recorded in `benchmarks/peers.json`, with how they were measured. The answers of ours are
equal, byte for byte, to the reference of every op.
"""

MEMORY = """Code is the kernels in use, the generated calls, and what of the compiler's library they need; the harness that measures is
left out. Constants are weights, biases, scales and tables as the kernels read them: at most 14 bytes per output channel on top
of the weights, and on M33 the prepared weights of 3x3 layers with fewer products (resnet8 has two). The arena holds all activations, inputs and outputs and the kernels' scratch; the floor is the largest sum of
bytes that are live at once if no result takes the place of its operand. The peer's code and arena are those of its smallest build, which has a loader and run-time tables beside.
Here, as in the tables above, all ops run whole (`--extra 0%`); the next section has what less memory costs.
"""

STRIPES = """The C of these networks runs parts of them [a few rows at a time](guide/memory.md): int8 NHWC input and output, the arena in bytes, and how
many instructions are more than those of whole tensors. With `--rows-in` the input is not in the arena at all; taking its rows is counted.
`--extra 1%` is what is done by default where it saves much. The calls are part of the code. Plans are found by
estimates: all of these cost what was asked for or less.
"""

STREAMS = """Networks [over time](guide/streams.md) that are fed a few new frames in each call, and answer what the whole window would; int8 input and
output. Where strides in time want the frames of several calls (`--hop 1` at stride 2), the longest call runs the model, the others copy frames;
the mean is over both, and copies of frames are not counted. `window ÷ call` is how much less a mean call takes than a run over the whole window, `share of a frame` what
a new frame takes, in parts of what one takes of a run over the whole window: where windows do not overlap, below 1 is a gain. All bytes
were compared with the reference's over forty runs.

- **ds_cnn**: the zoo's, without padding in time, a window of 48 frames of 10 bands, an answer for the window
- **dilated**: four `Conv1d` without padding (k = 3, d = 1, 2, 4, 8; 40 to 64 channels), a window of 50 frames, an answer for the window
- **causal**: ten residual blocks of two `Conv1d` each that are padded in front (k = 3, d = 1 to 16, 64 channels), 64 frames, an answer for each frame
"""

VARIANTS = """What LSTMs, filters over time (SVDF), sums in 16 bits with the norms behind them, means and bilinear resizes as LiteRT makes them of uint8,
and ops that compare and choose take of networks that have them: instructions by the portable C of these ops, and by the kernels for the core, with
their share of all instructions. `all ops` and `less` are of the whole network. The networks are written op by op, with the shapes of such ones and
random weights (`benchmarks/variants.py`): the figures do not depend on these, but that of the detector on how many boxes have a score that
counts: one in thirty. Resizes are done by portable C on M33, too: 21.5 instructions an element where eight pixels lie between two. So are comparisons,
choices and detections on both cores.
"""

MICRO = """One op each, with random data and int8 bounds, beside a call of CMSIS-NN for the same shape. Counts include all that happens
inside the call: padding, copies, borders.
"""


def ratio(ours: int, theirs: int | None) -> str:
    return "–" if theirs is None else f"{ours / theirs:.3f}"


def of_peer(peers: Figures, peer: str, label: str, core: str, key: str) -> int | None:
    found: int | None = peers[peer].get(label, {}).get(core, {}).get(key)
    return found


def models_table(results: Figures, peers: Figures, table: Table) -> str:
    rows = []
    for label, cores in results["models"].items():
        for core, figures in cores.items():
            ours = figures["instructions"]
            theirs = [of_peer(peers, peer, label, core, "instructions") for peer in ("executorch", "tflm")]
            ratios = [cell for their in theirs for cell in (number(their), ratio(ours, their))]
            rate = f"{figures['macs_per_instruction']:.2f}"
            rows.append([label, CORES[core], number(figures["macs"]), number(ours), rate, *ratios])
    head = ["model", "core", "MACs", "instructions", "MAC/instr.", "ExecuTorch", "ratio", "TFLM", "ratio"]
    return table(head, rows)


def comparison_table(table: Table) -> str:
    """The tables of docs/comparison.md: Pillion beside its peers, where all or some of them were measured."""
    results, peers = (json.loads((BENCHMARKS / f"{name}.json").read_text()) for name in ("results", "peers"))

    def beside(label: str, core: str, key: str) -> list[str]:
        theirs = [of_peer(peers, peer, label, core, key) for peer in ("executorch", "tflm")]
        return [number(figure) for figure in (results["models"][label][core][key], *theirs)]

    measured = [(label, core) for label, cores in results["models"].items() for core in cores]
    tables = []
    for keys in ({"instructions": "instructions"}, {"code_bytes": "flash", "arena_bytes": "arena"}):
        head = [f"{what}, {who}" for what in keys.values() for who in ("Pillion", "ET", "TFLM")]
        rows = [
            [label, CORES[core], *(cell for key in keys for cell in beside(label, core, key))]
            for label, core in measured
        ]
        tables.append(table(["model", "core", *head], rows))
    return "\n".join(tables)


def pte_table(table: Table) -> str:
    """Returns the table of docs/guide/executorch.md: instructions of `.pte` programs, as shares of those of ExecuTorch's own flow, too."""
    results, peers = (json.loads((BENCHMARKS / f"{name}.json").read_text()) for name in ("results", "peers"))

    def cells(label: str, core: str, ours: int) -> list[str]:
        theirs = of_peer(peers, "executorch", label, core, "instructions")
        return [number(ours), f"{ours / theirs:.2f}" if theirs else "–"]

    rows = [
        [label, *(cell for core, ours in cores.items() for cell in cells(label, core, ours))]
        for label, cores in results["pte"].items()
    ]
    return table(["model", "Cortex-M55", "ratio", "Cortex-M33", "ratio"], rows)


def delegate_table(table: Table) -> str:
    """Returns the table of docs/guide/executorch-delegate.md: instructions and planned memory of `--kernels pillion`, and their ratio to
    ExecuTorch's own flow."""
    results, peers = (json.loads((BENCHMARKS / f"{name}.json").read_text()) for name in ("results", "peers"))
    rows = [
        [
            *(label, core.replace("cortex-m", "M"), number(ours["instructions"])),
            f"{ours['instructions'] / of_peer(peers, 'executorch', label, core, 'instructions'):.3f}",
            number(ours["planned_bytes"]),
            f"{ours['planned_bytes'] / of_peer(peers, 'executorch', label, core, 'arena_bytes'):.2f}",
        ]
        for label, cores in results["delegate"].items()
        for core, ours in sorted(cores.items(), reverse=True)
    ]
    return table(["model", "core", "instructions", "ratio", "planned bytes", "ratio"], rows)


def kernels_table(figures: Figures, table: Table) -> str:
    """Instructions of a model by kernel, most first."""
    count: Counter[str] = Counter()
    macs: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for op in figures["ops"]:
        count[op["kernel"]] += op["instructions"]
        macs[op["kernel"]] += op["macs"]
        calls[op["kernel"]] += 1
    rows = [
        [
            f"`{kernel}`",
            str(calls[kernel]),
            number(n),
            f"{100 * n / figures['instructions']:.1f} %",
            f"{macs[kernel] / n:.2f}" if macs[kernel] else "–",
        ]
        for kernel, n in count.most_common()
        if n > 0
    ]
    return table(["kernel", "ops", "instructions", "share", "MAC/instr."], rows)


def micro_table(results: Figures, peers: Figures, table: Table) -> str:
    head = ["op"] + [
        f"{core} {what}" for core in CORES.values() for what in ("instr.", "MAC/instr.", "ratio")
    ]
    rows = []
    for name in results["micro"]["cortex-m55"]:
        cells = [name]
        for core in CORES:
            ours = results["micro"][core][name]
            rate = f"{ours['macs'] / ours['instructions']:.2f}" if ours["macs"] else "–"
            their = peers["cmsis_nn"].get(name, {}).get(core)
            cells += [number(ours["instructions"]), rate, ratio(ours["instructions"], their)]
        rows.append(cells)
    return table(head, rows)


def memory_table(results: Figures, peers: Figures, table: Table) -> str:
    keys = ("code_bytes", "weights", "constant_bytes", "arena_bytes", "floor_bytes", "stack_bytes")
    head = ["model", "core", "code", "weights", "constants"]
    head += ["arena", "floor", "stack", "ExecuTorch code", "its arena"]
    rows = [
        [
            *(label, CORES[core], *(number(figures[key]) for key in keys)),
            number(of_peer(peers, "executorch", label, core, "code_bytes")),
            number(of_peer(peers, "executorch", label, core, "arena_bytes")),
        ]
        for label, cores in results["models"].items()
        for core, figures in cores.items()
    ]
    return table(head, rows)


def stripes_table(results: Figures, table: Table) -> str:
    """Arena and instructions of what runs a few rows at a time."""
    rows = []
    for label, cores in results.get("stripes", {}).items():
        for core, figures in cores.items():
            whole = figures["whole"]
            for wish, one in figures.items():
                more = 100 * (one["instructions"] / whole["instructions"] - 1)
                price = "–" if one is whole else f"{more:+.1f} %"
                asked = wish if one is whole else f"`{wish}`"
                rows.append(
                    [
                        *(label, CORES[core], asked, number(one["arena_bytes"]), price),
                        number(one["code_bytes"]),
                    ]
                )
    return table(["model", "core", "asked for", "arena", "instructions", "code"], rows)


def streams_table(results: Figures, table: Table) -> str:
    """Instructions of what is fed a few frames at a time."""
    rows = []
    for label, cores in results.get("streams", {}).items():
        for core, figures in cores.items():
            whole = figures["whole"]
            for way, one in figures.items():
                mean = one["mean_instructions"]
                share = (mean / one["frames"]) / (whole["instructions"] / whole["frames"])
                gain = (
                    ("–", "–") if one is whole else (f"{whole['instructions'] / mean:.1f} ×", f"{share:.2f}")
                )
                fed = "whole window" if one is whole else f"`{way}`"
                cells = [number(n) for n in (one["instructions"], mean)]
                memory = [number(one[key]) for key in ("arena_bytes", "state_bytes", "code_bytes")]
                rows.append([label, CORES[core], fed, *cells, *gain, *memory])
    head = ["network", "core", "fed", "longest call", "mean call", "window ÷ call", "share of a frame"]
    return table([*head, "arena", "state", "code"], rows)


def size_table(results: Figures, table: Table) -> str:
    rows = []
    for label, cores in results["size"].items():
        for core, small in cores.items():
            fast = results["models"][label][core]
            cells = [number(f[key]) for key in ("instructions", "code_bytes") for f in (fast, small)]
            rows.append([label, CORES[core], *cells])
    return table(
        ["model", "core", "instructions: speed", "instructions: size", "code: speed", "code: size"], rows
    )


def shares_table(results: Figures, peers: Figures, table: Table) -> str:
    """What of the ratio to the peer is the loops over products alone, and what is the rest."""
    rows = []
    for label, cores in results["models"].items():
        for core, figures in cores.items():
            their = peers["executorch"][label][core]["instructions"]
            dense = [op for op in figures["ops"] if op["kind"] in DENSE]
            loops = sum(op["macs"] / OF_KERNELS.get(op["kernel"], PRODUCTS[core]) for op in dense)
            around = sum(op["instructions"] for op in dense) - loops
            depthwise = sum(op["instructions"] for op in figures["ops"] if op["kind"] == "depthwise_conv2d")
            others = figures["instructions"] - loops - around - depthwise
            cells = [f"{part / their:.3f}" for part in (loops, around, depthwise, others)]
            rows.append([label, CORES[core], f"{figures['instructions'] / their:.3f}", *cells])
    return table(["model", "core", "ratio", "loops alone", "around them", "depthwise", "others"], rows)


def variants_table(results: Figures, table: Table) -> str:
    rows = []
    for label, cores in results["variants"].items():
        for core, now in cores.items():
            before = now["portable"]
            shares = (f"{100 * f['of_these'] / f['instructions']:.1f} %" for f in (before, now))
            pairs = zip((before, now), shares, strict=True)
            cells = [cell for f, share in pairs for cell in (number(f["of_these"]), share)]
            less = f"{before['instructions'] / now['instructions']:.1f} ×"
            rows.append([label, CORES[core], *cells, number(now["instructions"]), less])
    head = ["network", "core", "portable C", "share", "now", "share", "all ops", "less"]
    return table(head, rows)


def scalar_table(results: Figures, table: Table) -> str:
    keys = ("instructions", "code_bytes", "constant_bytes", "arena_bytes", "stack_bytes")
    rows = [
        [
            label,
            WITHOUT_SIMD[core],
            *(number(figures[key]) for key in keys),
            f"{figures['macs_per_instruction']:.2f}",
        ]
        for label, cores in results["scalar"].items()
        for core, figures in cores.items()
    ]
    return table(["model", "core", "instructions", "code", "constants", "arena", "stack", "MAC/instr."], rows)


def performance_page(table: Table) -> str:
    """The whole page; `table` makes a table of a head and rows."""
    results = json.loads((BENCHMARKS / "results.json").read_text("utf-8"))
    peers = json.loads((BENCHMARKS / "peers.json").read_text("utf-8"))
    by_kernel = [
        f"### {SHOWN_IN_FULL} on {short}\n\n{kernels_table(results['models'][SHOWN_IN_FULL][core], table)}"
        for core, short in CORES.items()
    ]
    parts = [
        INTRO,
        f"Measured with {results['tools']}.\n",
        "## Models\n\n" + models_table(results, peers, table),
        *by_kernel,
        "## Single ops\n\n" + MICRO + "\n" + micro_table(results, peers, table),
        "## Memory, in bytes\n\n" + MEMORY + "\n" + memory_table(results, peers, table),
        "## Less memory: a few rows at a time\n\n" + STRIPES + "\n" + stripes_table(results, table),
        "## Streams: a few new frames at a time\n\n" + STREAMS + "\n" + streams_table(results, table),
        "## Where the instructions are\n\n"
        + SHARES
        + "\n"
        + shares_table(results, peers, table)
        + "\n\n"
        + FLOORS,
        "## Ops of other networks\n\n" + VARIANTS + "\n" + variants_table(results, table),
        "## Cores without SIMD\n\n" + SCALAR + "\n" + scalar_table(results, table),
        "## `--optimize size`\n\n" + size_table(results, table),
        f"## On a computer\n\n{HOST.format(computer=results['host']['computer'])}\n"
        + host_table(results, table),
        "## Time to compile\n\nOn the same computer, commands from process start to end. Seconds by the clock depend on what else the "
        "computer does; processor seconds do not. The peer's figure: "
        + peers["pte_seconds"]["what"]
        + ".\n\n"
        + seconds_table(results, peers, table),
        "## Others\n\n- " + "\n- ".join(peers[key]["what"] for key in ("executorch", "tflm", "cmsis_nn")),
    ]
    return "\n".join(parts)
