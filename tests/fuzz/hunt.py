# SPDX-License-Identifier: Apache-2.0
"""A hunt for programs on which two executors differ: `cd tests && python -m fuzz.hunt --seconds 600`.

Programs grow from seeds, so a finding is repeated with its seed alone: `--seed N --count 1`."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fuzz import properties, streaming
from fuzz.choices import Choices, from_seed
from fuzz.merged_programs import smallest, together
from fuzz.mixed import LARGE
from fuzz.recipes import NETS, OFTEN, grown
from fuzz.stateful_programs import states_keep_the_meaning, states_on
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.text import to_text
from pillion.option_values import Optimize

MOST_TEXT = 6000
"""Characters of a program that are shown."""
BOTH = (Arithmetic.CMSIS_NN, Arithmetic.TFLITE)


@dataclass(frozen=True)
class Hunt:
    """A property, the programs that it is asked of, and how many of them at once."""

    holds: properties.Property
    arithmetics: tuple[Arithmetic, ...] = BOTH
    accepts: Callable[[Op], bool] = lambda op: True
    batch: int = 1
    grow: Callable[[Choices, Arithmetic], Graph] | None = None
    """What makes other programs than the usual ones."""


def on_board(target: str, optimize: Optimize = "speed") -> Hunt:
    return Hunt(lambda graph: properties.board_is_the_reference(graph, target, optimize), batch=12)


HUNTS = {
    "text": Hunt(properties.text_round_trip),
    "passes": Hunt(properties.passes_keep_the_bytes),
    "int8-io": Hunt(properties.int8_borders_keep_the_bytes),
    "memory": Hunt(properties.memory_is_sound),
    "host": Hunt(properties.host_is_the_reference, batch=6),
    "rows": Hunt(properties.rows_keep_the_bytes, batch=4),
    "rows-m33": Hunt(lambda graph: properties.rows_on_board_keep_the_bytes(graph, "cortex-m33"), batch=8),
    "rows-m55": Hunt(lambda graph: properties.rows_on_board_keep_the_bytes(graph, "cortex-m55"), batch=8),
    "repeat": Hunt(properties.repetitions_keep_the_bytes, (Arithmetic.CMSIS_NN,)),
    "repeat-tflite": Hunt(properties.repetitions_keep_the_bytes, (Arithmetic.TFLITE,)),
    "repeat-m33": Hunt(lambda graph: properties.repetitions_on_board_keep_the_bytes(graph, "cortex-m33")),
    "repeat-m55": Hunt(lambda graph: properties.repetitions_on_board_keep_the_bytes(graph, "cortex-m55")),
    "streams": Hunt(streaming.streams_keep_the_bytes),
    "streams-over-time": Hunt(streaming.streams_keep_the_bytes, grow=streaming.over_time),
    "streams-as-c": Hunt(streaming.streams_as_c_keep_the_bytes, grow=streaming.over_time),
    "states": Hunt(states_keep_the_meaning, batch=4),
    "states-m33": Hunt(lambda graph: states_on("mps2-an505", graph, "cortex-m33"), batch=8),
    "states-m55": Hunt(lambda graph: states_on("mps3-an547", graph, "cortex-m55"), batch=8),
    "states-litert": Hunt(
        lambda graph: states_on("litert", graph, "cortex-m33"),
        (Arithmetic.TFLITE,),
        properties.in_litert,
        batch=4,
    ),
    "states-executorch": Hunt(
        lambda graph: states_on("executorch", graph, "cortex-m33"),
        (Arithmetic.CMSIS_NN,),
        properties.in_executorch,
        batch=4,
    ),
    "long-axes": Hunt(
        properties.host_is_the_reference,
        batch=6,
        grow=lambda choices, arithmetic: grown(choices, 4, arithmetic, largest=LARGE),
    ),
    "host-alone": Hunt(properties.host_is_the_reference),
    "native": Hunt(properties.native_is_the_reference, batch=6),
    "placed": Hunt(properties.placed_is_the_reference, (Arithmetic.CMSIS_NN,), batch=4),
    "litert": Hunt(properties.litert_is_the_reference, (Arithmetic.TFLITE,), properties.in_litert, batch=4),
    "executorch": Hunt(
        properties.executorch_is_the_reference, (Arithmetic.CMSIS_NN,), properties.in_executorch, batch=4
    ),
    "executorch-npu": Hunt(
        properties.executorch_with_segments_is_the_reference,
        (Arithmetic.CMSIS_NN,),
        properties.in_executorch,
        batch=4,
    ),
    "cortex-m0": on_board("cortex-m0"),
    "cortex-m3": on_board("cortex-m3"),
    "cortex-m33": on_board("cortex-m33"),
    "cortex-m55": on_board("cortex-m55"),
    "cortex-m33-size": on_board("cortex-m33", "size"),
    "cortex-m55-size": on_board("cortex-m55", "size"),
}


def kinds(choices: Choices) -> Sequence[type[Op]]:
    """All, only those of usual nets, or a handful, which then meet more often."""
    match choices.integer(0, 2):
        case 0:
            return OFTEN
        case 1:
            return NETS
    return [choices.pick(OFTEN) for _ in range(4)]


def programs(hunt: Hunt, seed: int) -> list[Graph]:
    """The batch of a seed: from two to ten ops each, now and then of large values."""
    arithmetic = hunt.arithmetics[seed % len(hunt.arithmetics)]
    grown_ones = []
    for number in range(hunt.batch):
        choices = from_seed(1000 * seed + number)
        if hunt.grow is not None:
            grown_ones.append(hunt.grow(choices, arithmetic))
            continue
        largest = LARGE - 1 if choices.one_in(12) else 3000
        ops = choices.integer(2, 10)
        made = grown(choices, ops, arithmetic, largest=largest, kinds=kinds(choices), accepts=hunt.accepts)
        grown_ones.append(made)
    return grown_ones


def complaint(hunt: Hunt, graph: Graph) -> Exception | None:
    """What the property says of a graph for which it does not hold."""
    try:
        hunt.holds(graph)
    except Exception as error:  # whatever breaks is a finding
        return error
    return None


def findings(hunt: Hunt, graphs: Sequence[Graph]) -> list[Graph]:
    """The smallest wrong programs of a batch; the whole batch if each is right alone."""
    whole = together(graphs) if len(graphs) > 1 else graphs[0]
    if complaint(hunt, whole) is None:
        return []
    wrong = [graph for graph in graphs if complaint(hunt, graph)]
    return [smallest(graph, lambda part: complaint(hunt, part) is not None) for graph in wrong] or [whole]


def hunted(name: str, seed: int) -> int:
    """Prints what a seed finds; how many programs were wrong."""
    hunt = HUNTS[name]
    found = findings(hunt, programs(hunt, seed))
    for graph in found:
        error = complaint(hunt, graph)
        print(f"\n{name}, seed {seed}: {type(error).__name__}: {error}")
        if error is not None and not isinstance(error, AssertionError | PillionError):
            traceback.print_exception(error, limit=-4, file=sys.stdout)
        print(to_text(graph)[:MOST_TEXT], flush=True)
    return len(found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Takes the hunts in turn until the time is over; the number of wrong programs."""
    parser = argparse.ArgumentParser(prog="fuzz.hunt", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--count", type=int, default=sys.maxsize, help="how many seeds")
    parser.add_argument("--only", nargs="*", choices=HUNTS, default=list(HUNTS))
    wanted = parser.parse_args(arguments)
    end = time.monotonic() + wanted.seconds
    asked: Counter[str] = Counter()
    wrong = 0
    for seed in range(wanted.seed, wanted.seed + wanted.count):
        for name in wanted.only:
            if time.monotonic() > end:
                break
            wrong += hunted(name, seed)
            asked[name] += HUNTS[name].batch
        if time.monotonic() > end:
            break
    print(f"{wrong} wrong; programs asked: {dict(asked)}; next seed {seed}")
    return wrong


if __name__ == "__main__":
    raise SystemExit(min(main(), 1))
