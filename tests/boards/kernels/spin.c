/* SPDX-License-Identifier: Apache-2.0
 * On a Cortex-M exactly two instructions a turn. */
#include "pillion/test_kernels.h"

void test_spin(uint32_t turns) {
#if defined(__arm__)
    __asm volatile(".syntax unified\n1: subs %0, #1\n bne 1b" : "+l"(turns) : : "cc");
#else
    for (volatile uint32_t i = 0; i < turns; i++) {
    }
#endif
}
