/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/requantize.h"

#define PART 14 /* bits of a place between two entries: at least as many as there are octaves */

void pillion_octave_lut_s16(const pillion_octave_lut_s16_params *p, const int16_t *x, int16_t *y, void *scratch) {
    const int16_t *const below = p->table + PILLION_OCTAVE * PART, *const above = below + PILLION_SIDE;
    (void)scratch;
    for (int32_t i = 0, count = p->count; i < count; i++) {
        const uint32_t magnitude = (uint32_t)(x[i] < 0 ? -x[i] : x[i]);
        const int32_t left = pillion_leading_zeros(magnitude | (2 * PILLION_OCTAVE - 1)) + PART - 25;
        const uint32_t place = magnitude << left;
        const int16_t *const first = (x[i] < 0 ? below : above) - PILLION_OCTAVE * left + (place >> PART);
        const int32_t part = (int32_t)(place & ((1 << PART) - 1));
        y[i] = (int16_t)(first[0] + (((first[1] - first[0]) * part + (1 << (PART - 1))) >> PART));
    }
}
