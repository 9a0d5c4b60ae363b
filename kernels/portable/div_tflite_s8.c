/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/requantize.h"
#include "pillion/walk.h"

/* Binary digits of a number that is not negative. */
static int32_t digits(int32_t value) {
    int32_t count = 0;
    for (; value != 0; value >>= 1) {
        count++;
    }
    return count;
}

static int32_t quotient(const pillion_div_tflite_s8_params *p, int32_t a, int32_t b) {
    if (b == 0) {
        return 0;
    }
    const int32_t numerator = b < 0 ? -a : a, divisor = b < 0 ? -b : b;
    const int32_t headroom = 31 - digits(numerator < 0 ? -(numerator + 1) : numerator);
    const int32_t widened = (int32_t)((uint32_t)numerator << headroom);
    const int32_t product = pillion_requantize(widened, p->reciprocals[divisor], 0);
    const int32_t places = digits(divisor) - 1 + headroom - p->shift;
    return places > 31 ? 0 : pillion_requantize(product, p->multiplier, -places);
}

void pillion_div_tflite_s8(const pillion_div_tflite_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y,
                           void *scratch) {
    (void)scratch;
    int32_t a_at[PILLION_MAX_AXES] = {0}, b_at[PILLION_MAX_AXES] = {0};
    for (int32_t i = 0; i < p->elements; i++) {
        const int32_t level = quotient(p, *a - p->a_zp, *b - p->b_zp);
        y[i] = pillion_saturate(level, p->out_zp, p->low, p->high);
        a += pillion_walk(p->axes, p->extent, p->a_step, a_at);
        b += pillion_walk(p->axes, p->extent, p->b_step, b_at);
    }
}
