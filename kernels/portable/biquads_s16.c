/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/fixed16.h"
#include "pillion/kernels.h"

#define MOST_SECTIONS 8
#define PLACES 28 /* of the coefficients, behind the point */

/* The last two values of a signal, or the last two remainders of a section. */
typedef struct {
    int32_t last, before;
} pair;

static int32_t section(const int32_t *c, int32_t x, const pair *xs, const pair *ys, pair *remainders) {
    int64_t sum = (int64_t)c[0] * x + (int64_t)c[1] * xs->last + (int64_t)c[2] * xs->before;
    sum += (int64_t)c[3] * ys->last + (int64_t)c[4] * ys->before;
    sum += (int64_t)c[5] * remainders->last + (int64_t)c[6] * remainders->before;
    remainders->before = remainders->last;
    remainders->last = (int32_t)((uint32_t)sum & ((UINT32_C(1) << PLACES) - 1));
    return (int32_t)(sum >> PLACES);
}

void pillion_biquads_s16(const pillion_biquads_s16_params *p, const int16_t *x, const int16_t *past, int16_t *y, void *scratch) {
    (void)scratch;
    const int32_t sections = p->sections, count = 2 * sections + 1;
    for (int32_t n = 0; n < p->signals; n++, x += p->samples, past += 4 * count) {
        pair pairs[2 * MOST_SECTIONS + 1]; /* of the signals, then the remainders */
        for (int32_t i = 0; i < count; i++) {
            const int16_t *words = past + 4 * i;
            pairs[i].last = (int32_t)((uint32_t)(uint16_t)words[0] << 16 | (uint16_t)words[1]);
            pairs[i].before = (int32_t)((uint32_t)(uint16_t)words[2] << 16 | (uint16_t)words[3]);
        }
        for (int32_t t = 0; t < p->samples; t++) {
            int32_t value = (int32_t)x[t] * (int32_t)(1 << p->fraction);
            pair *at = pairs;
            for (int32_t k = 0; k < sections; k++, at++) {
                const int32_t next = section(p->coefficients + 7 * k, value, at, at + 1, at + sections + 1);
                at->before = at->last;
                at->last = value;
                value = next;
            }
            at->before = at->last;
            at->last = value;
            *y++ = (int16_t)pillion_saturate16(((value >> (p->fraction - 1)) + 1) >> 1);
        }
        for (int32_t i = 0; i < count; i++, y += 4) {
            y[0] = (int16_t)(pairs[i].last >> 16);
            y[1] = (int16_t)pairs[i].last;
            y[2] = (int16_t)(pairs[i].before >> 16);
            y[3] = (int16_t)pairs[i].before;
        }
    }
}
