/* SPDX-License-Identifier: Apache-2.0
 * Runs kernels on the cases of cases.bin and writes to results.bin what they answered, how long they took, and whether they
 * wrote only where they may. Both files are words of 32 bits and bytes padded to words; see rig.py. It is the same program on a
 * board and on a PC, but for memory: rig_memory_board.h puts every buffer between guards, the inputs before what cannot be read;
 * rig_memory_host.h gives each a block of the heap, so that a sanitizer sees every access outside. */
#include "board.h"
#include "rig_table.h"
#include "semihosting.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define MOST_INPUTS 4u
#define MOST_BLOCKS 512u

typedef struct {
    uint32_t calls, inputs, bytes[MOST_INPUTS], y_bytes, scratch_bytes, misalign;
    uint32_t overwritten;    /* 0, or 1 + the input in whose memory the result goes */
    uint32_t overread_bytes; /* that may be read behind an input */
} case_header;

typedef struct {
    uint32_t kernel, params_bytes, pointers, arguments, argument[MOST_INPUTS];
} call_header;

static void must(bool ok, const char *what) {
    if (!ok) {
        semihost_print(what);
        semihost_print("\n");
        semihost_exit(1);
    }
}

/* What unused memory is filled with. */
static uint8_t filling;

/* A buffer of a case. What must stay as it is has a sum. */
typedef struct {
    uint8_t *place;
    uint32_t bytes, sum;
    bool is_constant;
} block;

static block blocks[MOST_BLOCKS];
static uint32_t block_count;

#include RIG_MEMORY

static uint32_t sum_of(const uint8_t *place, uint32_t bytes) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < bytes; i++) {
        sum = 31u * sum + place[i];
    }
    return sum;
}

static uint8_t *remember(uint8_t *place, uint32_t bytes, bool is_constant) {
    must(block_count < MOST_BLOCKS, "a case has too many buffers");
    blocks[block_count] = (block){place, bytes, is_constant ? sum_of(place, bytes) : 0, is_constant};
    block_count++;
    return place;
}

static bool all_as_they_were(void) {
    bool ok = true;
    for (uint32_t i = 0; i < block_count; i++) {
        const block *const b = &blocks[i];
        ok = ok && is_guarded(b) && (!b->is_constant || sum_of(b->place, b->bytes) == b->sum);
    }
    return ok;
}

static void read(int32_t file, void *to, uint32_t bytes) {
    static uint8_t rest[4];
    const uint32_t more = (4u - bytes % 4u) % 4u;
    must(bytes == 0 || semihost_read(file, to, bytes) == 0, "cases.bin ends early");
    must(more == 0 || semihost_read(file, rest, more) == 0, "cases.bin ends early");
}

static uint8_t *load(int32_t file, uint32_t bytes) {
    uint8_t *const place = take(bytes, 0);
    read(file, place, bytes);
    return remember(place, bytes, true);
}

/* The params of a call, whose pointers are loaded as blocks of their own. */
static void *load_params(int32_t file, const call_header *c) {
    uint8_t *const params = take(c->params_bytes, 0);
    read(file, params, c->params_bytes);
    for (uint32_t i = 0; i < c->pointers; i++) {
        uint32_t where[2]; /* of the pointer in the params; bytes that it points to */
        read(file, where, sizeof where);
        const void *const target = load(file, where[1]);
        memcpy(params + where[0], &target, sizeof target);
    }
    return remember(params, c->params_bytes, true);
}

typedef void one_input(const void *params, const void *x, void *y, void *scratch);
typedef void two_inputs(const void *params, const void *a, const void *b, void *y, void *scratch);
typedef void three_inputs(const void *params, const void *a, const void *b, const void *c, void *y, void *scratch);
typedef void no_input(const void *params, void *y, void *scratch);

/* Ticks that the call took. */
static uint32_t run_call(int32_t file, uint8_t *const *x, uint8_t *y, void *scratch) {
    call_header c;
    read(file, &c, sizeof c);
    const void *const params = load_params(file, &c);
    const rig_function kernel = rig_table[c.kernel];
    const uint8_t *const first = x[c.argument[0]], *const second = x[c.argument[1]];
    const uint64_t start = pillion_clock_now();
    if (c.arguments == 0) {
        ((no_input *)kernel)(params, y, scratch);
    } else if (c.arguments == 1) {
        ((one_input *)kernel)(params, first, y, scratch);
    } else if (c.arguments == 2) {
        ((two_inputs *)kernel)(params, first, second, y, scratch);
    } else {
        ((three_inputs *)kernel)(params, first, second, x[c.argument[2]], y, scratch);
    }
    return (uint32_t)(pillion_clock_now() - start);
}

static void run_case(int32_t file, int32_t results, const case_header *c) {
    uint8_t *x[MOST_INPUTS] = {NULL}, *y = NULL;
    block_count = 0;
    release_all();
    for (uint32_t i = 0; i < c->inputs; i++) {
        if (i + 1u == c->overwritten) {
            const uint32_t room = c->bytes[i] > c->y_bytes ? c->bytes[i] : c->y_bytes;
            x[i] = y = remember(take(room, c->misalign), room, false);
        } else {
            x[i] = take_input(c->bytes[i], c->overread_bytes, c->misalign);
        }
        read(file, x[i], c->bytes[i]);
        if (i + 1u != c->overwritten) {
            remember(x[i], c->bytes[i], true);
        }
    }
    y = y != NULL ? y : remember(take(c->y_bytes, c->misalign), c->y_bytes, false);
    void *const scratch = c->scratch_bytes > 0 ? remember(take(c->scratch_bytes, 0), c->scratch_bytes, false) : NULL;
    uint32_t result[2] = {0, 0};
    for (uint32_t i = 0; i < c->calls; i++) {
        result[0] += run_call(file, x, y, scratch);
    }
    result[1] = (uint32_t)all_as_they_were();
    must(semihost_write(results, result, sizeof result) == 0, "results.bin cannot be written");
    must(c->y_bytes == 0 || semihost_write(results, y, c->y_bytes) == 0, "results.bin cannot be written");
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const int32_t cases = semihost_open("cases.bin", SEMIHOST_READ);
    const int32_t results = semihost_open("results.bin", SEMIHOST_WRITE);
    must(cases >= 0 && results >= 0, "cases.bin or results.bin cannot be opened");
    pillion_clock_start();
    uint32_t numbers[2]; /* of cases; the filling */
    read(cases, numbers, sizeof numbers);
    filling = (uint8_t)numbers[1];
    for (; numbers[0] > 0; numbers[0]--) {
        case_header header;
        read(cases, &header, sizeof header);
        run_case(cases, results, &header);
    }
    release_all();
    return semihost_close(results) == 0 && semihost_close(cases) == 0 ? 0 : 1;
}
