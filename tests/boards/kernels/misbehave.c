/* SPDX-License-Identifier: Apache-2.0
 * What a kernel must not do. */
#include "pillion/test_kernels.h"

void test_undefined_instruction(void) {
#if defined(__arm__)
    __asm volatile("udf #0");
#endif
}

int32_t test_read_nowhere(void) {
    return *(const volatile int32_t *)(uintptr_t)0xf8000000u;
}

void test_endless(void) {
    for (volatile int32_t i = 0;; i++) {
    }
}

void test_write_at(int8_t *arena, int32_t offset) {
    arena[offset] = 1;
}
