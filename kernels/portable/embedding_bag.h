/* SPDX-License-Identifier: Apache-2.0
 * Bags of rows whose elements are read by a function. */
#ifndef PILLION_EMBEDDING_BAG_H
#define PILLION_EMBEDDING_BAG_H

#include "pillion/kernels.h"

enum { PILLION_BAG_BLOCK = 8 }; /* elements with sums in registers while all rows of a bag are read */

static inline int32_t pillion_bag_row(int32_t number, int32_t rows) {
    return number < 0 ? 0 : number < rows ? number : rows - 1;
}

static inline int64_t pillion_bag_offset(const pillion_embedding_bag_s8_params *p) {
    return (int64_t)((uint64_t)(uint32_t)p->offset_high << 32 | (uint32_t)p->offset_low);
}

static inline int8_t pillion_bag_level(int64_t sum, int32_t places) {
    const int64_t level = sum >> places;
    return level > INT8_MAX ? INT8_MAX : level < INT8_MIN ? INT8_MIN : (int8_t)level;
}

/* `element` is element i of a row, rows being `row_bytes` apart. */
static inline void pillion_embedding_bags(const pillion_embedding_bag_s8_params *p, const int8_t *table, int32_t row_bytes,
                                          int32_t (*element)(const int8_t *row, int32_t i), const int32_t *numbers, int8_t *y) {
    const int64_t offset = pillion_bag_offset(p);
    for (int32_t bag = 0; bag < p->bags; bag++, numbers += p->words) {
        for (int32_t first = 0; first < p->elements; first += PILLION_BAG_BLOCK) {
            const int32_t count = p->elements - first < PILLION_BAG_BLOCK ? p->elements - first : PILLION_BAG_BLOCK;
            int64_t sums[PILLION_BAG_BLOCK];
            for (int32_t i = 0; i < PILLION_BAG_BLOCK; i++) {
                sums[i] = offset;
            }
            for (int32_t word = 0; word < p->words; word++) {
                const int32_t row = pillion_bag_row(numbers[word], p->rows);
                const int8_t *from = table + row * row_bytes;
                for (int32_t i = 0; i < count; i++) {
                    sums[i] += (int64_t)p->multipliers[row] * element(from, first + i);
                }
            }
            for (int32_t i = 0; i < count; i++) {
                *y++ = pillion_bag_level(sums[i], p->places);
            }
        }
    }
}

#endif
