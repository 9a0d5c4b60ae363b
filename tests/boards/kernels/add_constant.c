/* SPDX-License-Identifier: Apache-2.0
 * y = x + constant, wrapping; by Helium where there is Helium. */
#include "pillion/test_kernels.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

void test_add_constant(const int8_t *constant, const int8_t *x, int8_t *y, int32_t count) {
    for (; count > 0; count -= 16, constant += 16, x += 16, y += 16) {
        const mve_pred16_t tail = vctp8q((uint32_t)count);
        vstrbq_p_s8(y, vaddq_s8(vldrbq_z_s8(constant, tail), vldrbq_z_s8(x, tail)), tail);
    }
}
#else
void test_add_constant(const int8_t *constant, const int8_t *x, int8_t *y, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        y[i] = (int8_t)(constant[i] + x[i]);
    }
}
#endif
