/* SPDX-License-Identifier: Apache-2.0
 * nRF52840 by its product specification. Not run on a chip. The UART is that of the J-Link on the development kit: P0.06 and P0.08. */
#include "board_port.h"

#include "cycle_counter.h"

#include <stddef.h>

#define UART 0x40002000u
#define START_RX REGISTER(UART)
#define START_TX REGISTER(UART + 0x008u)
#define RX_READY REGISTER(UART + 0x108u)
#define TX_READY REGISTER(UART + 0x11cu)
#define ENABLE REGISTER(UART + 0x500u)
#define TX_PIN REGISTER(UART + 0x50cu)
#define RX_PIN REGISTER(UART + 0x514u)
#define RECEIVED REGISTER(UART + 0x518u)
#define SENT REGISTER(UART + 0x51cu)
#define BAUD REGISTER(UART + 0x524u)
#define BAUD_115200 0x01d7e000u

const board_facts board = {"nRF52840", 64000000u, 64000000u, 0, NULL};

static uint32_t is_sending;

void board_start(void) {
    TX_PIN = 6;
    RX_PIN = 8;
    BAUD = BAUD_115200;
    ENABLE = 4;
    RX_READY = 0;
    TX_READY = 0;
    START_RX = 1;
    START_TX = 1;
    start_cycle_counter();
}

void board_put(uint8_t byte) {
    while (is_sending && TX_READY == 0) {
    }
    TX_READY = 0;
    SENT = byte;
    is_sending = 1;
}

int32_t board_get(void) {
    if (RX_READY == 0) {
        return -1;
    }
    RX_READY = 0;
    return (int32_t)(RECEIVED & 0xffu);
}

uint32_t board_ticks(void) {
    return DWT_CYCCNT;
}
