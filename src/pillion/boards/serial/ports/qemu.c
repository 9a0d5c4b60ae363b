/* SPDX-License-Identifier: Apache-2.0
 * The emulated boards: the UART of Arm's CMSDK (DDI 0479) on the MPS2 and MPS3. Under `-icount shift=7` an instruction takes 128 ns
 * of emulated time, so ticks of SysTick are instructions. */
#include "board_port.h"

#include "../harness/board.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))
#if defined(__ARM_FEATURE_MVE)
#define UART 0x59303000u
#define COUNTER_HZ 32000000u
#define NAME "emulated Cortex-M55 (mps3-an547)"
#elif __ARM_ARCH >= 8
#define UART 0x50200000u
#define COUNTER_HZ 20000000u
#define NAME "emulated Cortex-M33 (mps2-an505)"
#else
#define UART 0x40004000u
#define COUNTER_HZ 25000000u
#define NAME "emulated Cortex-M (mps2)"
#endif
#define DATA REGISTER(UART)
#define STATE REGISTER(UART + 4u)
#define CTRL REGISTER(UART + 8u)
#define BAUDDIV REGISTER(UART + 16u)
#define TX_FULL 1u
#define RX_FULL 2u

extern uint32_t pillion_stack_bottom[];
const board_facts board = {NAME, 7812500u, COUNTER_HZ, 1u, pillion_stack_bottom};

static uint32_t wrap_ticks;

void board_start(void) {
    BAUDDIV = 16;
    CTRL = 3;
    pillion_clock_start();
    wrap_ticks = (uint32_t)pillion_clock_wrap_ticks();
}

void board_put(uint8_t byte) {
    while ((STATE & TX_FULL) != 0) {
    }
    DATA = byte;
}

int32_t board_get(void) {
    return (STATE & RX_FULL) != 0 ? (int32_t)(DATA & 0xffu) : -1;
}

/* Without the instructions that the processor spends when SysTick wraps. */
uint32_t board_ticks(void) {
    const uint64_t now = pillion_clock_now();
    return (uint32_t)now - (uint32_t)(now >> PILLION_CLOCK_BITS) * wrap_ticks;
}
