/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/assembly.h"
#include "embedding_bag.h"

PILLION_BEGINS_WITH(pillion_embedding_bag_s4_params, pillion_embedding_bag_s8_params, table);

static inline int32_t nibble_of(const int8_t *row, int32_t i) {
    const int32_t two = row[i >> 1];
    return (i & 1) != 0 ? two >> 4 : ((two & 15) ^ 8) - 8;
}

/* A row alone: each of its elements has one of 16 results. */
static void one_row(const pillion_embedding_bag_s8_params *p, const int8_t *from, int32_t multiplier, int8_t *y) {
    int8_t levels[16]; /* of 0 to 7, then of -8 to -1 */
    int64_t sum = pillion_bag_offset(p) - 8 * (int64_t)multiplier;
    for (int32_t i = 0; i < 16; i++, sum += multiplier) {
        levels[i ^ 8] = pillion_bag_level(sum, p->places);
    }
    const uint8_t *two = (const uint8_t *)from;
    for (const int8_t *const pairs_end = y + (p->elements & ~1); y < pairs_end; y += 2, two++) {
        y[0] = levels[*two & 15];
        y[1] = levels[*two >> 4];
    }
    if ((p->elements & 1) != 0) {
        *y = levels[*two & 15];
    }
}

void pillion_embedding_bag_s4(const pillion_embedding_bag_s4_params *p, const int32_t *numbers, int8_t *y, void *scratch) {
    const pillion_embedding_bag_s8_params *const of_bytes = (const pillion_embedding_bag_s8_params *)(const void *)p;
    const int32_t row_bytes = (p->elements + 1) >> 1;
    (void)scratch;
    if (p->words != 1) {
        pillion_embedding_bags(of_bytes, p->table, row_bytes, nibble_of, numbers, y);
        return;
    }
    for (int32_t bag = 0; bag < p->bags; bag++, y += p->elements) {
        const int32_t row = pillion_bag_row(numbers[bag], p->rows);
        one_row(of_bytes, p->table + row * row_bytes, p->multipliers[row], y);
    }
}
