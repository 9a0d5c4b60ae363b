/* SPDX-License-Identifier: Apache-2.0
 * The cycle counter of the Data Watchpoint and Trace unit, which Cortex-M3 and later have. */
#ifndef PILLION_CYCLE_COUNTER_H
#define PILLION_CYCLE_COUNTER_H

#include <stdint.h>

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define DEMCR REGISTER(0xe000edfcu)
#define DWT_CTRL REGISTER(0xe0001000u)
#define DWT_CYCCNT REGISTER(0xe0001004u)
#define DWT_LAR REGISTER(0xe0001fb0u)

static inline void start_cycle_counter(void) {
    DEMCR |= 1u << 24; /* TRCENA */
#if __ARM_ARCH < 8
    DWT_LAR = 0xc5acce55u; /* the Cortex-M7 locks its registers */
#endif
    DWT_CYCCNT = 0;
    DWT_CTRL |= 1u; /* CYCCNTENA */
}

#endif
