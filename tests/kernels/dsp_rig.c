/* SPDX-License-Identifier: Apache-2.0
 * Runs kernels on the cases of cases.bin and writes to results.bin what they answered, how long they took and whether
 * they stayed within their memory. Both files are sequences of 32-bit words and of bytes padded to words; see dsp_rig.py. */
#include "board.h"
#include "rig_table.h"
#include "semihosting.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define MOST_OPERANDS 3u
#define GUARD_BYTES 64u
#define GUARD 0x5au
#define JUNK 0xa5u

/* Ends with its memory: reading beyond an operand that lies at the end is a fault. */
__attribute__((aligned(16), section(".pillion_arena"))) static uint8_t memory[PILLION_RIG_BYTES];

typedef struct {
    uint32_t kernel, operands, bytes[MOST_OPERANDS], y_bytes, scratch_bytes, misalign, in_place;
    uint32_t params_words, constants_bytes, relocations;
} case_header;

static uint32_t used;

static uint8_t *take(uint32_t bytes, uint32_t misalign) {
    used = (used + 15u) & ~15u;
    uint8_t *const place = memory + used + misalign;
    used += bytes + misalign;
    return place;
}

static uint8_t *take_guarded(uint32_t bytes, uint32_t misalign) {
    uint8_t *const place = take(bytes + 2 * GUARD_BYTES, misalign);
    memset(place, GUARD, bytes + 2 * GUARD_BYTES);
    memset(place + GUARD_BYTES, JUNK, bytes);
    return place + GUARD_BYTES;
}

static bool guarded(const uint8_t *place, uint32_t bytes) {
    for (uint32_t i = 0; i < GUARD_BYTES; i++) {
        if (place[i - GUARD_BYTES] != GUARD || place[bytes + i] != GUARD) {
            return false;
        }
    }
    return true;
}

static void call(uint32_t kernel, uint32_t operands, const void *params, uint8_t *const *x, uint8_t *y, void *scratch) {
    if (operands == 1) {
        ((void (*)(const void *, const void *, void *, void *))rig_table[kernel])(params, x[0], y, scratch);
    } else {
        ((void (*)(const void *, const void *, const void *, void *, void *))rig_table[kernel])(params, x[0], x[1], y,
                                                                                                scratch);
    }
}

static void must(bool ok, const char *what) {
    if (!ok) {
        semihost_print(what);
        semihost_print("\n");
        semihost_exit(1);
    }
}

static void read(int32_t file, void *to, uint32_t bytes) {
    must(bytes == 0 || semihost_read(file, to, (bytes + 3u) & ~3u) == 0, "cases.bin ends early");
}

/* Words of the params that are offsets into the constants become addresses. */
static uint32_t *read_params(int32_t file, const case_header *c) {
    uint32_t *const params = (uint32_t *)(void *)take(4 * c->params_words + 4, 0);
    read(file, params, 4 * c->params_words);
    uint8_t *const constants = take(c->constants_bytes + 4, 0);
    read(file, constants, c->constants_bytes);
    for (uint32_t i = 0; i < c->relocations; i++) {
        uint32_t word;
        read(file, &word, 4);
        params[word] += (uint32_t)(uintptr_t)constants;
    }
    return params;
}

static void run_case(int32_t file, int32_t results, const case_header *c) {
    used = 0;
    const uint32_t *const params = read_params(file, c);
    uint8_t *const scratch = take_guarded(c->scratch_bytes, 0);
    const uint32_t y_place = c->in_place != 0 && c->bytes[0] > c->y_bytes ? c->bytes[0] : c->y_bytes;
    uint8_t *const y = take_guarded(y_place, c->misalign);
    uint8_t *x[MOST_OPERANDS];
    uint8_t *end = memory + sizeof memory;
    for (uint32_t i = 0; i < c->operands; i++) {
        uint8_t *const loaded = take(c->bytes[i] + 4, 0);
        read(file, loaded, c->bytes[i]);
        end = end - c->bytes[i];
        x[i] = end;
        memcpy(x[i], loaded, c->bytes[i]);
    }
    must(end - memory > (ptrdiff_t)used, "the case does not fit into memory");
    if (c->in_place != 0) {
        memcpy(y, x[0], c->bytes[0]);
        x[0] = y;
    }
    uint32_t result[2];
    const uint64_t start = pillion_clock_now();
    call(c->kernel, c->operands, params, x, y, scratch);
    result[0] = (uint32_t)(pillion_clock_now() - start);
    result[1] = (uint32_t)(guarded(scratch, c->scratch_bytes) && guarded(y, y_place));
    must(semihost_write(results, result, 8) == 0, "results.bin cannot be written");
    must(semihost_write(results, y, (c->y_bytes + 3u) & ~3u) == 0, "results.bin cannot be written");
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const int32_t cases = semihost_open("cases.bin", SEMIHOST_READ);
    const int32_t results = semihost_open("results.bin", SEMIHOST_WRITE);
    must(cases >= 0 && results >= 0, "cases.bin or results.bin cannot be opened");
    pillion_clock_start();
    uint32_t count;
    read(cases, &count, 4);
    for (; count > 0; count--) {
        case_header header;
        read(cases, &header, sizeof header);
        run_case(cases, results, &header);
    }
    return semihost_close(results) == 0 ? 0 : 1;
}
