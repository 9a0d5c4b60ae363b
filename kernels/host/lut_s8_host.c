/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/host.h"

#include "vector.h"

void pillion_lut_s8_host(const pillion_lut_s8_host_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
#if PILLION_WIDE && defined(__AVX512VBMI__)
    __m512i table[4];
    for (int32_t i = 0; i < 4; i++) {
        table[i] = pillion_load_vector(p->table + 64 * i);
    }
    for (int32_t at = 0; at < p->count; at += PILLION_VECTOR) {
        const int32_t count = pillion_left(at, p->count);
        const __m512i index = pillion_flip_signs(pillion_load_some(x + at, count));
        const __m512i lower = _mm512_permutex2var_epi8(table[0], index, table[1]);
        const __m512i upper = _mm512_permutex2var_epi8(table[2], index, table[3]);
        pillion_store_some(y + at, _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), lower, upper), count);
    }
#else
    const int8_t *const table = p->table + 128;
    for (int32_t i = 0; i < p->count; i++) {
        y[i] = table[x[i]];
    }
#endif
}
