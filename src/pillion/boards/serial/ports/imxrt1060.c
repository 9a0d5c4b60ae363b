/* SPDX-License-Identifier: Apache-2.0
 * i.MX RT1060 by its reference manual. Not run on a chip. LPUART1 is that of the debug probe on the evaluation kit; its clock (80 MHz
 * unless BOARD_UART_HZ says otherwise) and its pins are set by the board files of the MCUXpresso SDK, which run before. */
#include "board_port.h"

#include "cycle_counter.h"

#include <stddef.h>

#define UART 0x40184000u
#define BAUD REGISTER(UART + 0x10u)
#define STATUS REGISTER(UART + 0x14u)
#define CONTROL REGISTER(UART + 0x18u)
#define DATA REGISTER(UART + 0x1cu)
#define OVERRUN (1u << 19)
#define RX_FULL (1u << 21)
#define TX_EMPTY (1u << 23)
#define OVERSAMPLING 16u

#ifndef BOARD_CLOCK_HZ
#define BOARD_CLOCK_HZ 600000000u
#endif
#ifndef BOARD_UART_HZ
#define BOARD_UART_HZ 80000000u
#endif
#ifndef BOARD_BAUD
#define BOARD_BAUD 115200u
#endif

const board_facts board = {"i.MX RT1060", BOARD_CLOCK_HZ, BOARD_CLOCK_HZ, 0, NULL};

void board_start(void) {
    CONTROL = 0;
    BAUD = (OVERSAMPLING - 1u) << 24 | (BOARD_UART_HZ + OVERSAMPLING * BOARD_BAUD / 2u) / (OVERSAMPLING * BOARD_BAUD);
    CONTROL = 1u << 19 | 1u << 18;
    start_cycle_counter();
}

void board_put(uint8_t byte) {
    while ((STATUS & TX_EMPTY) == 0) {
    }
    DATA = byte;
}

int32_t board_get(void) {
    const uint32_t status = STATUS;
    if ((status & OVERRUN) != 0) {
        STATUS = OVERRUN;
    }
    return (status & RX_FULL) != 0 ? (int32_t)(DATA & 0xffu) : -1;
}

uint32_t board_ticks(void) {
    return DWT_CYCCNT;
}
