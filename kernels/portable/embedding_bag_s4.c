/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/assembly.h"
#include "embedding_bag.h"

PILLION_BEGINS_WITH(pillion_embedding_bag_s4_params, pillion_embedding_bag_s8_params, table);

static inline int32_t nibble_of(const int8_t *row, int32_t i) {
    const int32_t two = row[i >> 1];
    return (i & 1) != 0 ? two >> 4 : ((two & 15) ^ 8) - 8;
}

void pillion_embedding_bag_s4(const pillion_embedding_bag_s4_params *p, const int32_t *numbers, int8_t *y, void *scratch) {
    (void)scratch;
    pillion_embedding_bags((const pillion_embedding_bag_s8_params *)(const void *)p, p->table, (p->elements + 1) >> 1, nibble_of, numbers, y);
}
