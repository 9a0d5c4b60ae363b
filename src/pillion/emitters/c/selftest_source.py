# SPDX-License-Identifier: Apache-2.0
"""The self-test of a C project: inputs, the expected result of every op, and a function that compares on the
device."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from textwrap import dedent

import numpy as np
from numpy.typing import NDArray

from pillion.boards.board import selftest_main
from pillion.emitters.c.literals import lines
from pillion.emitters.c.lower import CProgram
from pillion.errors import PillionError
from pillion.host_io.atomic_files import Content, LazyContent
from pillion.ir.graph import Graph
from pillion.ir.types import Array, Value
from pillion.ops import Region, flatten_ops

MOST_BYTES = 8 << 20
"""The largest self-test in bytes of flash."""
MOST_ELEMENT_BYTES = 2 << 20
"""Up to this size, the elements of all results are stored; beyond it, the elements of outputs and a checksum of
each other result."""
NOT_KEPT = "UINT32_MAX"


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
    results = _results(graph, samples)
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
    results = _results(graph, len(samples))
    rows = list(_expected_bytes(graph, results, samples))
    inputs = [np.concatenate([_bytes(x) for x in sample]) for sample in samples]
    return SelfTest(
        results,
        np.stack(inputs),
        np.stack([expected for expected, _ in rows]),
        np.stack([checks for _, checks in rows]),
    )


def _results(graph: Graph, samples: int) -> tuple[SelfTestResult, ...]:
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
        contents = [_bytes(values[result.value]) for result in results]
        stored = [raw for raw, result in zip(contents, results, strict=True) if result.at is not None]
        yield np.concatenate(stored), np.array([zlib.crc32(raw.tobytes()) for raw in contents], np.uint32)


def _bytes(array: Array) -> NDArray[np.uint8]:
    """Returns the elements in the little-endian order of a Cortex-M."""
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return np.frombuffer(little.tobytes(), np.uint8)


def selftest_files(program: CProgram, host: CProgram | None, test: SelfTest) -> dict[str, Content]:
    """Returns the files of the self-test folder; `host` is the host variant if it has a memory plan of its own."""
    name = program.graph.name
    return {
        "selftest.h": _header(name, state_parameter(program)),
        "selftest.c": LazyContent(partial(_source, program, host, test)),
        "main.c": selftest_main(name),
    }


def state_parameter(program: CProgram) -> str:
    """Returns the parameter for the state in C; empty for a model without states."""
    return "void *state, " if program.graph.states else ""


def _header(name: str, state: str) -> str:
    return dedent(f"""\
        /* Checks whether this device computes the reference results. Generated by Pillion. Do not edit. */
        #ifndef PILLION_{name.upper()}_SELFTEST_H
        #define PILLION_{name.upper()}_SELFTEST_H

        #include <stdint.h>

        #ifndef PILLION_DIFFERENCE
        #define PILLION_DIFFERENCE
        /* The first wrong element. `element` is UINT32_MAX if only a checksum of the result is stored. */
        typedef struct {{
            uint32_t sample;  /* index of the sample */
            uint32_t op;      /* index in the model's op_names */
            uint32_t result;  /* index among the op's results */
            uint32_t element; /* index in the result */
        }} pillion_difference;
        #endif

        /* Runs the model on the built-in samples, with the memory of {name}_run. Returns 0 if all results of all ops are
         * correct, otherwise the index of the first wrong op plus 1, and sets `difference` unless it is NULL.
         * Not reentrant: it uses a static variable. */
        uint32_t {name}_selftest(void *arena, {state}pillion_difference *difference);

        #endif
        """)


def _source(program: CProgram, host: CProgram | None, test: SelfTest) -> Iterator[bytes]:
    name = program.graph.name
    yield dedent(f"""\
        /* {name}: inputs, expected results, and the comparison. Generated by Pillion. Do not edit. */
        #include "selftest.h"

        #include "model.h"

        #include <stddef.h>
        #include <string.h>

        #define SAMPLES {test.samples}u
        #define RESULTS {len(test.results)}u
        #define INPUT_BYTES {test.inputs.shape[1]}u
        #define KEPT_BYTES {test.kept.shape[1]}u
        #define NOT_KEPT {NOT_KEPT}

        typedef struct {{
            uint32_t op, result, bytes, element_bytes;
            uint32_t at;   /* offset among the stored bytes of a sample */
            uint32_t runs; /* of the op, until the result is complete */
        }} expectation;
        """).encode()
    yield from _array("uint8_t inputs", test.inputs)
    yield from _array("uint8_t kept", test.kept)
    yield from _array("uint32_t checks", test.checks)
    yield f"\nstatic const expectation expectations[RESULTS] = {{\n{_expectations(program, test)}}};\n".encode()
    offset_tables = _result_place_table(program, test)
    if host is not None:
        offset_tables = (
            f"#ifdef PILLION_HOST\n{_result_place_table(host, test)}#else\n{offset_tables}#endif\n"
        )
    yield f"\n/* Offsets in the arena{' or among the states' if program.graph.states else ''}. */\n{offset_tables}".encode()
    facts = {"model": name, "parameter": state_parameter(program)}
    facts["state"] = "state" if program.graph.states else "NULL"
    yield re.sub(r"@(\w+)@", lambda match: facts[match[1]], _FUNCTIONS).encode()


def _array(declared: str, rows: NDArray[np.generic]) -> Iterator[bytes]:
    yield f"\nstatic const {declared}[] = {{\n".encode()
    yield from lines(rows)
    yield b"\n};\n"


def _expectations(program: CProgram, test: SelfTest) -> str:
    runs = program.runs()
    return "".join(
        f"    {{{r.op}, {r.number}, {r.value.type.size_bytes}, {r.value.dtype.numpy.itemsize}, "
        f"{NOT_KEPT if r.at is None else r.at}, {runs[r.op]}}},\n"
        for r in test.results
    )


def _result_place_table(program: CProgram, test: SelfTest) -> str:
    spots = [program.memory.spot(result.value) for result in test.results]
    offsets = ", ".join(str(spot.offset) for spot in spots)
    flags = ", ".join(str(int(spot.area == "state")) for spot in spots)
    return f"static const uint32_t places[RESULTS] = {{{offsets}}};\nstatic const uint8_t is_kept[RESULTS] = {{{flags}}};\n"


_FUNCTIONS = """
static struct {
    const uint8_t *arena, *state;
    uint32_t sample, compared;
    uint32_t runs[RESULTS]; /* of the ops that compute them */
    uint32_t wrong; /* the index of the first wrong op, plus 1 */
    pillion_difference where;
} test;

static uint32_t crc32(const uint8_t *bytes, uint32_t count) {
    uint32_t crc = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (uint32_t bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (0xedb88320u & (0u - (crc & 1u)));
        }
    }
    return ~crc;
}

/* Returns the index of the first wrong element, or the number of bytes if all are correct. With a checksum only, a wrong result is
 * UINT32_MAX. */
static uint32_t first_difference(const expectation *e, uint32_t number) {
    const uint8_t *const found = (is_kept[number] ? test.state : test.arena) + places[number];
    if (e->at == NOT_KEPT) {
        return crc32(found, e->bytes) == checks[test.sample * RESULTS + number] ? e->bytes : UINT32_MAX;
    }
    const uint8_t *const wanted = kept + (size_t)test.sample * KEPT_BYTES + e->at;
    for (uint32_t i = 0; i < e->bytes; i++) {
        if (found[i] != wanted[i]) {
            return i / e->element_bytes;
        }
    }
    return e->bytes;
}

static void compare_result(const expectation *e, uint32_t number) {
    const uint32_t element = first_difference(e, number);
    test.compared++;
    if (element != e->bytes && test.wrong == 0) {
        test.wrong = e->op + 1;
        test.where.sample = test.sample;
        test.where.op = e->op;
        test.where.result = e->result;
        test.where.element = element;
    }
}

static void compare(uint32_t op) {
    for (uint32_t number = 0; number < RESULTS; number++) {
        if (expectations[number].op == op && ++test.runs[number] == expectations[number].runs) {
            compare_result(&expectations[number], number);
        }
    }
}

/* Passes an input row by row. */
static void run_by_rows(const pillion_model *model, uint8_t *arena, void *state, const uint8_t *rows) {
    pillion_begin_rows(model, arena, state, compare);
    while (model->row_functions->hand_over(arena, rows, 1) > 0) {
        rows += model->row_functions->row_bytes;
    }
    (void)model->row_functions->end(arena);
}

static void run(const pillion_model *model, uint8_t *arena, void *state, const uint8_t *input) {
    const uint8_t *rows = NULL;
    for (uint32_t i = 0; i < model->input_count; i++) {
        if (model->inputs[i].offset == PILLION_NOWHERE) {
            rows = input;
        } else {
            memcpy(arena + model->inputs[i].offset, input, model->inputs[i].bytes);
        }
        input += model->inputs[i].bytes;
    }
    if (model->row_functions != NULL) {
        run_by_rows(model, arena, state, rows);
    } else {
        pillion_run(model, arena, state, compare);
    }
}

uint32_t @model@_selftest(void *arena, @parameter@pillion_difference *difference) {
    const pillion_model *const model = &pillion_model_@model@;
    test.arena = arena;
    test.state = @state@;
    test.wrong = 0;
    pillion_reset_state(model, @state@);
    for (test.sample = 0; test.sample < SAMPLES && test.wrong == 0; test.sample++) {
        test.compared = 0;
        memset(test.runs, 0, sizeof test.runs);
        run(model, arena, @state@, inputs + (size_t)test.sample * INPUT_BYTES);
        if (test.compared != RESULTS && test.wrong == 0) { /* a result was never computed */
            test.wrong = model->op_count;
        }
    }
    if (test.wrong != 0 && difference != NULL) {
        *difference = test.where;
    }
    return test.wrong;
}
"""
