/* SPDX-License-Identifier: Apache-2.0
 * The memory of a case on a board: buffers follow one another, with guards around them. Inputs lie at the end of memory:
 * reading more behind them than a kernel may is a fault. */

#define GUARD_BYTES 64u

__attribute__((aligned(16), section(".pillion_arena"))) static uint8_t memory[RIG_MEMORY_BYTES];
static uint32_t used;
static uint8_t *end;

static void release_all(void) {
    used = 0;
    end = memory + sizeof memory;
}

/* Aligned to 16 bytes, but for `misalign` bytes. */
static uint8_t *take(uint32_t bytes, uint32_t misalign) {
    used = (used + 15u) & ~15u;
    uint8_t *const place = memory + used + misalign;
    used += bytes + misalign + 2u * GUARD_BYTES;
    must(end - memory >= (ptrdiff_t)used, "a case does not fit into memory");
    memset(place, filling, bytes + 2u * GUARD_BYTES);
    return place + GUARD_BYTES;
}

static uint8_t *take_input(uint32_t bytes, uint32_t overread_bytes, uint32_t misalign) {
    const uintptr_t last = (uintptr_t)end - bytes - overread_bytes;
    end = (uint8_t *)(misalign != 0 || bytes % 4u != 0 ? last : last & ~(uintptr_t)3);
    must(end - memory >= (ptrdiff_t)used, "a case does not fit into memory");
    memset(end, filling, bytes + overread_bytes);
    return end;
}

static bool is_guarded(const block *b) {
    if (b->place >= end) {
        return true; /* an input: its neighbours are inputs, whose sums are known */
    }
    for (uint32_t i = 0; i < GUARD_BYTES; i++) {
        if (b->place[(ptrdiff_t)i - (ptrdiff_t)GUARD_BYTES] != filling || b->place[b->bytes + i] != filling) {
            return false;
        }
    }
    return true;
}
