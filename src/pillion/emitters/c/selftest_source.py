# SPDX-License-Identifier: Apache-2.0
"""The self-test of a C project: inputs, the expected result of every op, and a function that compares on the
device."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pillion.boards.board import selftest_main
from pillion.emitters.c.arena_parameter import memory_number
from pillion.emitters.c.literals import lines
from pillion.emitters.c.lower import CProgram
from pillion.emitters.c.text_templates import fill_template
from pillion.errors import PillionError
from pillion.host_io.atomic_files import Content, LazyContent
from pillion.ir.graph import Graph
from pillion.ir.types import Array, Value
from pillion.memory import STATE
from pillion.ops import Region, flatten_ops

MOST_BYTES = 8 << 20
"""The largest self-test in bytes of flash."""
MOST_ELEMENT_BYTES = 2 << 20
"""Up to this size, the elements of all results are stored; beyond it, the elements of outputs and a checksum of
each other result."""


@dataclass(frozen=True)
class SelfTestResult:
    """An expected result of an op. `at` is its offset among the elements that are stored for a sample; None if
    only its checksum is stored."""

    op: int
    number: int
    value: Value
    at: int | None


@dataclass(frozen=True)
class SelfTest:
    """The inputs of a self-test and the expected results."""

    results: tuple[SelfTestResult, ...]
    inputs: NDArray[np.uint8]
    """One row for each sample."""
    kept: NDArray[np.uint8]
    """The stored bytes of results, one row for each sample."""
    checks: NDArray[np.uint32]
    """The CRC-32 of each result, one row for each sample."""

    @property
    def samples(self) -> int:
        """The number of inferences."""
        return len(self.inputs)


@dataclass(frozen=True)
class SelfTestSize:
    """The flash that a self-test needs, and whether it locates a wrong element or only the op."""

    bytes: int
    finds_elements: bool


def size_of(graph: Graph, samples: int) -> SelfTestSize:
    """Returns the size of a self-test without building it. Raises if it is too large."""
    results = _stored_results(graph, samples)
    total = samples * _sample_bytes(graph, results)
    if total > MOST_BYTES:
        raise _selftest_too_large_error(graph, results, samples)
    return SelfTestSize(total, all(result.at is not None for result in results))


def self_test(graph: Graph, samples: Sequence[Sequence[Array]]) -> SelfTest:
    """Computes the expected results of one or more samples. For a graph with states, the samples are the steps of
    one stream."""
    if not samples:
        raise PillionError(
            "there is no sample to test with",
            rule="one or more",
            here="0 samples",
            help="give one input or more",
        )
    size_of(graph, len(samples))
    results = _stored_results(graph, len(samples))
    rows = list(_expected_bytes(graph, results, samples))
    inputs = [np.concatenate([_little_endian_bytes(x) for x in sample]) for sample in samples]
    return SelfTest(
        results,
        np.stack(inputs),
        np.stack([expected for expected, _ in rows]),
        np.stack([checks for _, checks in rows]),
    )


def _stored_results(graph: Graph, samples: int) -> tuple[SelfTestResult, ...]:
    """Returns all results with their offsets among the stored bytes: all are stored if they are small enough,
    otherwise the outputs."""
    op_results = list(_op_results(graph))
    keep_all = samples * sum(value.type.size_bytes for *_, value in op_results) <= MOST_ELEMENT_BYTES
    results, at = [], 0
    for op, number, value in op_results:
        is_kept = keep_all or graph.is_output(value)
        results.append(SelfTestResult(op, number, value, at if is_kept else None))
        at += value.type.size_bytes if is_kept else 0
    return tuple(results)


def _op_results(graph: Graph) -> Iterator[tuple[int, int, Value]]:
    """Yields the op's index in the C program, the result's index and the result, for all results that exist as a
    whole. The ops of a region count one by one."""
    first = 0
    for op in graph.ops:
        if isinstance(op, Region):
            for number, inner in enumerate(op.body.ops):
                yield from ((first + number, 0, v) for v in inner.results if v in op.ys)
            first += len(op.body.ops)
        else:
            last = first + len(flatten_ops([op])) - 1  # intermediate values of a loop do not exist after it
            yield from ((last, result_number, value) for result_number, value in enumerate(op.results))
            first = last + 1


def _sample_bytes(graph: Graph, results: Sequence[SelfTestResult]) -> int:
    stored_bytes = sum(result.value.type.size_bytes for result in results if result.at is not None)
    return stored_bytes + sum(v.type.size_bytes for v in graph.inputs) + 4 * len(results)


def _selftest_too_large_error(graph: Graph, results: Sequence[SelfTestResult], samples: int) -> PillionError:
    each = _sample_bytes(graph, results)
    return PillionError(
        f"a self-test of `{graph.name}` with {samples:,} samples takes {each * samples:,} bytes",
        rule=f"it has at most {MOST_BYTES:,} bytes, for it lies in a device's flash",
        here=f"{each:,} bytes for each sample: inputs, outputs and checksums",
        help=f"{MOST_BYTES // each} samples or fewer"
        if each <= MOST_BYTES
        else "a model with smaller inputs",
    )


def _expected_bytes(
    graph: Graph, results: Sequence[SelfTestResult], samples: Sequence[Sequence[Array]]
) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.uint32]]]:
    states: Sequence[Array] = graph.initial
    for sample in samples:
        values = graph.reference_values(*sample, states=states)
        states = [values[state.after] for state in graph.states]
        contents = [_little_endian_bytes(values[result.value]) for result in results]
        stored = [raw for raw, result in zip(contents, results, strict=True) if result.at is not None]
        yield np.concatenate(stored), np.array([zlib.crc32(raw.tobytes()) for raw in contents], np.uint32)


def _little_endian_bytes(array: Array) -> NDArray[np.uint8]:
    """Returns the elements in the little-endian order of a Cortex-M."""
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return np.frombuffer(little.tobytes(), np.uint8)


def selftest_files(program: CProgram, host: CProgram | None, test: SelfTest) -> dict[str, Content]:
    """Returns the files of the self-test folder; `host` is the host variant if it has a memory plan of its own."""
    name, has_state = program.graph.name, bool(program.graph.states)
    names = {
        "model": name,
        "MODEL": name.upper(),
        "parameter": "void *state, " * has_state,
        "state": "state" if has_state else "NULL",
        "or_state": " or among the states" * has_state,
    }
    return {
        "selftest.h": fill_template("selftest.h", names),
        "selftest.c": LazyContent(partial(_selftest_source, program, host, test, names)),
        "main.c": selftest_main(name),
    }


def _selftest_source(
    program: CProgram, host: CProgram | None, test: SelfTest, names: Mapping[str, str]
) -> Iterator[bytes]:
    facts = {
        **names,
        **{"samples": test.samples, "results": len(test.results)},
        **{"input_bytes": test.inputs.shape[1], "kept_bytes": test.kept.shape[1]},
        **{"expectations": _expectation_table(program, test), "places": _result_address_table(program, test)},
        "host_places": _result_address_table(host, test) if host is not None else "",
        "arrays": "\0",
    }
    text = fill_template("selftest.c", facts, {"host"} if host is not None else ())
    before, after = text.split("\0\n")
    yield before.encode()
    yield from _array_definition("uint8_t inputs", test.inputs)
    yield from _array_definition("uint8_t kept", test.kept)
    yield from _array_definition("uint32_t checks", test.checks)
    yield f"\n{after}".encode()


def _array_definition(declared: str, rows: NDArray[np.generic]) -> Iterator[bytes]:
    yield f"\nstatic const {declared}[] = {{\n".encode()
    yield from lines(rows)
    yield b"\n};\n"


def _expectation_table(program: CProgram, test: SelfTest) -> str:
    runs = program.runs()
    return "\n".join(
        f"    {{{r.op}, {r.number}, {r.value.type.size_bytes}, {r.value.dtype.numpy.itemsize}, "
        f"{'NOT_KEPT' if r.at is None else r.at}, {runs[r.op]}}},"
        for r in test.results
    )


def _result_address_table(program: CProgram, test: SelfTest) -> str:
    spots = [program.memory.location(result.value) for result in test.results]
    offsets = ", ".join(str(spot.offset) for spot in spots)
    areas = ", ".join("KEPT" if s.area == STATE else str(memory_number(program, s.area)) for s in spots)
    return f"static const uint32_t places[RESULTS] = {{{offsets}}};\nstatic const uint8_t areas[RESULTS] = {{{areas}}};"
