/* SPDX-License-Identifier: Apache-2.0
 * Uses `bytes` of stack, and a little more. */
#include "pillion/test_kernels.h"

__attribute__((noinline)) int32_t test_touch_stack(int32_t bytes) {
    volatile uint8_t used[256];
    for (int32_t i = 0; i < 256; i++) {
        used[i] = (uint8_t)i;
    }
    return bytes > 256 ? test_touch_stack(bytes - 256) + used[17] : used[5];
}
