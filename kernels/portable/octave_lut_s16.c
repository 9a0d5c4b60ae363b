/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"

void pillion_octave_lut_s16(const pillion_octave_lut_s16_params *p, const int16_t *x, int16_t *y, void *scratch) {
    const int16_t *const table = p->table;
    (void)scratch;
    for (int32_t i = 0, count = p->count; i < count; i++) {
        const int32_t magnitude = x[i] < 0 ? -x[i] : x[i];
        int32_t octave = 0;
        while (magnitude >> octave >= 2 * PILLION_OCTAVE) {
            octave++;
        }
        const int16_t *const first = table + (x[i] < 0 ? 0 : PILLION_SIDE) + PILLION_OCTAVE * octave + (magnitude >> octave);
        const int32_t part = magnitude & ((1 << octave) - 1);
        y[i] = (int16_t)(first[0] + (((first[1] - first[0]) * part + (1 << octave >> 1)) >> octave));
    }
}
