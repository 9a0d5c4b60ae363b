/* SPDX-License-Identifier: Apache-2.0
 * STM32 by the register maps of RM0090 (F4), RM0410 (F7) and RM0433 (H7). Not run on a chip. The UART is that of the ST-Link on Nucleo
 * boards: USART2 at PA2 and PA3 of an F4, USART3 at PD8 and PD9 of an F7 or H7. BOARD_CLOCK_HZ is the core's clock and BOARD_UART_HZ
 * that of the USART, after the start-up code of the vendor: here the oscillator that runs after reset. */
#include "board_port.h"

#include "cycle_counter.h"

#include <stddef.h>

#if BOARD_STM32F4
#define CHIP "STM32F4"
#define DEFAULT_HZ 16000000u
#define ENABLE_GPIO REGISTER(0x40023830u)
#define GPIO_BIT 0u
#define ENABLE_UART REGISTER(0x40023840u)
#define UART_BIT 17u
#define GPIO 0x40020000u
#define UART 0x40004400u
#define TX_PIN 2u
#elif BOARD_STM32F7
#define CHIP "STM32F7"
#define DEFAULT_HZ 16000000u
#define ENABLE_GPIO REGISTER(0x40023830u)
#define GPIO_BIT 3u
#define ENABLE_UART REGISTER(0x40023840u)
#define UART_BIT 18u
#define GPIO 0x40020c00u
#define UART 0x40004800u
#define TX_PIN 8u
#else
#define CHIP "STM32H7"
#define DEFAULT_HZ 64000000u
#define ENABLE_GPIO REGISTER(0x580244e0u)
#define GPIO_BIT 3u
#define ENABLE_UART REGISTER(0x580244e8u)
#define UART_BIT 18u
#define GPIO 0x58020c00u
#define UART 0x40004800u
#define TX_PIN 8u
#endif
#define RX_PIN (TX_PIN + 1u)
#define MODER REGISTER(GPIO)
#define AFR REGISTER(GPIO + 0x20u + 4u * (TX_PIN / 8u))
#define ALTERNATE_7(pin) (7u << 4u * ((pin) % 8u))
#if BOARD_STM32F4
#define STATUS REGISTER(UART)
#define RECEIVED REGISTER(UART + 0x04u)
#define SENT REGISTER(UART + 0x04u)
#define BRR REGISTER(UART + 0x08u)
#define CR1 REGISTER(UART + 0x0cu)
#define CR1_ON (1u << 13 | 1u << 3 | 1u << 2)
#else
#define STATUS REGISTER(UART + 0x1cu)
#define RECEIVED REGISTER(UART + 0x24u)
#define SENT REGISTER(UART + 0x28u)
#define BRR REGISTER(UART + 0x0cu)
#define CR1 REGISTER(UART)
#define CR1_ON (1u << 3 | 1u << 2 | 1u)
#define ICR REGISTER(UART + 0x20u)
#endif
#define RX_NOT_EMPTY (1u << 5)
#define TX_EMPTY (1u << 7)
#define OVERRUN (1u << 3)

#ifndef BOARD_CLOCK_HZ
#define BOARD_CLOCK_HZ DEFAULT_HZ
#endif
#ifndef BOARD_UART_HZ
#define BOARD_UART_HZ DEFAULT_HZ
#endif
#ifndef BOARD_BAUD
#define BOARD_BAUD 115200u
#endif

const board_facts board = {CHIP, BOARD_CLOCK_HZ, BOARD_CLOCK_HZ, 0, NULL};

static void set_pin(uint32_t pin) {
    MODER = (MODER & ~(3u << 2u * pin)) | 2u << 2u * pin;
    AFR = (AFR & ~(15u << 4u * (pin % 8u))) | ALTERNATE_7(pin);
}

void board_start(void) {
    ENABLE_GPIO |= 1u << GPIO_BIT;
    ENABLE_UART |= 1u << UART_BIT;
    (void)ENABLE_UART; /* the clock runs two cycles later */
    set_pin(TX_PIN);
    set_pin(RX_PIN);
    BRR = (BOARD_UART_HZ + BOARD_BAUD / 2u) / BOARD_BAUD;
    CR1 = CR1_ON;
    start_cycle_counter();
}

void board_put(uint8_t byte) {
    while ((STATUS & TX_EMPTY) == 0) {
    }
    SENT = byte;
}

int32_t board_get(void) {
    const uint32_t status = STATUS;
#ifdef ICR
    if ((status & OVERRUN) != 0) {
        ICR = OVERRUN;
    }
#endif
    return (status & RX_NOT_EMPTY) != 0 ? (int32_t)(RECEIVED & 0xffu) : -1;
}

uint32_t board_ticks(void) {
    return DWT_CYCCNT;
}
