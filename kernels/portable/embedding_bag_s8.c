/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"

enum { BLOCK = 8 }; /* elements whose sums are kept while all rows of a bag are read */

static inline int32_t row_of(int32_t number, int32_t rows) {
    return number < 0 ? 0 : number < rows ? number : rows - 1;
}

void pillion_embedding_bag_s8(const pillion_embedding_bag_s8_params *p, const int8_t *table, const int32_t *numbers, int8_t *y,
                    void *scratch) {
    const int64_t offset = (int64_t)((uint64_t)(uint32_t)p->offset_high << 32 | (uint32_t)p->offset_low);
    (void)scratch;
    for (int32_t bag = 0; bag < p->bags; bag++, numbers += p->words) {
        for (int32_t first = 0; first < p->elements; first += BLOCK) {
            const int32_t count = p->elements - first < BLOCK ? p->elements - first : BLOCK;
            int64_t sums[BLOCK];
            for (int32_t i = 0; i < BLOCK; i++) {
                sums[i] = offset;
            }
            for (int32_t word = 0; word < p->words; word++) {
                const int32_t row = row_of(numbers[word], p->rows);
                const int8_t *from = table + row * p->elements + first;
                for (int32_t i = 0; i < count; i++) {
                    sums[i] += (int64_t)p->multipliers[row] * from[i];
                }
            }
            for (int32_t i = 0; i < count; i++) {
                const int64_t level = sums[i] >> p->places;
                *y++ = level > INT8_MAX ? INT8_MAX : level < INT8_MIN ? INT8_MIN : (int8_t)level;
            }
        }
    }
}
