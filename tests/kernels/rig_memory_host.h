/* SPDX-License-Identifier: Apache-2.0
 * The memory of a case on a PC: each buffer is a block of the heap, of just its size, which a sanitizer guards. */

#include <stdlib.h>

static uint8_t *taken[2u * MOST_BLOCKS];
static uint32_t taken_count;

static void release_all(void) {
    while (taken_count > 0) {
        free(taken[--taken_count]);
    }
}

static uint8_t *take(uint32_t bytes, uint32_t misalign) {
    uint8_t *const place = malloc(bytes + misalign);
    must(place != NULL && taken_count < 2u * MOST_BLOCKS, "a case does not fit into memory");
    memset(place, filling, bytes + misalign);
    taken[taken_count++] = place;
    return place + misalign;
}

static uint8_t *take_input(uint32_t bytes, uint32_t overread_bytes, uint32_t misalign) {
    return take(bytes + overread_bytes, misalign);
}

static bool is_guarded(const block *b) {
    (void)b;
    return true;
}
