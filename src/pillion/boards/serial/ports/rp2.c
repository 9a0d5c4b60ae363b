/* SPDX-License-Identifier: Apache-2.0
 * RP2040 and RP2350 by their data sheets. Not run on a chip. UART0 at GPIO0 and GPIO1, clocked by clk_peri as the start-up code of the
 * Pico SDK leaves it. The Cortex-M0+ has no cycle counter: there the timer counts microseconds. */
#include "board_port.h"

#include "cycle_counter.h"

#include <stddef.h>

#if BOARD_RP2040
#define CHIP "RP2040"
#define DEFAULT_HZ 125000000u
#define COUNTER_HZ 1000000u
#define TIMER_RAW REGISTER(0x40054028u)
#define RESETS 0x4000c000u
#define RESET_BITS (1u << 22 | 1u << 8 | 1u << 5)
#define IO_BANK 0x40014000u
#define PADS 0x4001c000u
#define UART 0x40034000u
#else
#define CHIP "RP2350"
#define DEFAULT_HZ 150000000u
#define COUNTER_HZ BOARD_CLOCK_HZ
#define RESETS 0x40020000u
#define RESET_BITS (1u << 26 | 1u << 9 | 1u << 6)
#define IO_BANK 0x40028000u
#define PADS 0x40038000u
#define UART 0x40070000u
#endif
#define RELEASE_RESET REGISTER(RESETS + 0x3000u)
#define RESET_DONE REGISTER(RESETS + 8u)
#define FUNCTION(pin) REGISTER(IO_BANK + 4u + 8u * (pin))
#define PAD(pin) REGISTER(PADS + 4u + 4u * (pin))
#define DATA REGISTER(UART)
#define FLAGS REGISTER(UART + 0x18u)
#define IBRD REGISTER(UART + 0x24u)
#define FBRD REGISTER(UART + 0x28u)
#define LINE REGISTER(UART + 0x2cu)
#define CONTROL REGISTER(UART + 0x30u)
#define RX_EMPTY (1u << 4)
#define TX_FULL (1u << 5)

#ifndef BOARD_CLOCK_HZ
#define BOARD_CLOCK_HZ DEFAULT_HZ
#endif
#ifndef BOARD_UART_HZ
#define BOARD_UART_HZ BOARD_CLOCK_HZ
#endif
#ifndef BOARD_BAUD
#define BOARD_BAUD 115200u
#endif

const board_facts board = {CHIP, BOARD_CLOCK_HZ, COUNTER_HZ, 0, NULL};

void board_start(void) {
    const uint32_t divisor = (8u * BOARD_UART_HZ / BOARD_BAUD + 1u) / 2u; /* in 64ths */
    RELEASE_RESET = RESET_BITS;
    while ((RESET_DONE & RESET_BITS) != RESET_BITS) {
    }
    for (uint32_t pin = 0; pin < 2; pin++) {
        FUNCTION(pin) = 2;
        PAD(pin) = 1u << 6 | 1u << 4; /* input on, 4 mA; on the RP2350 also no isolation */
    }
    IBRD = divisor >> 6;
    FBRD = divisor & 63u;
    LINE = 7u << 4; /* 8 bits, with FIFOs */
    CONTROL = 1u << 9 | 1u << 8 | 1u;
#ifndef TIMER_RAW
    start_cycle_counter();
#endif
}

void board_put(uint8_t byte) {
    while ((FLAGS & TX_FULL) != 0) {
    }
    DATA = byte;
}

int32_t board_get(void) {
    return (FLAGS & RX_EMPTY) == 0 ? (int32_t)(DATA & 0xffu) : -1;
}

uint32_t board_ticks(void) {
#ifdef TIMER_RAW
    return TIMER_RAW;
#else
    return DWT_CYCCNT;
#endif
}
