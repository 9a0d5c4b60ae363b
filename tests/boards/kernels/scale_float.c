/* SPDX-License-Identifier: Apache-2.0
 * y = the integer nearest below x * x / 7 - x / 3 in float32: multiply, add, divide and convert. */
#include "pillion/test_kernels.h"

void test_scale_float(const int8_t *x, int8_t *y, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        const float value = (float)x[i];
        const float scaled = value * value / 7.0f - value / 3.0f;
        y[i] = (int8_t)(uint8_t)((uint32_t)(scaled + 128.0f) & 255u);
    }
}
