/* SPDX-License-Identifier: Apache-2.0
 * The chip as the serial harness needs it. A port to another chip is one file that defines these functions. */
#ifndef PILLION_BOARD_PORT_H
#define PILLION_BOARD_PORT_H

#include <stdint.h>

/* Called once, before the others: pins, baud rate, cycle counter. */
void board_start(void);

/* Sends a byte, and waits until there is room for it. */
void board_put(uint8_t byte);

/* The next received byte, or -1 if there is none yet. It does not wait. */
int32_t board_get(void);

/* A counter that goes up and wraps at 32 bits. */
uint32_t board_ticks(void);

typedef struct {
    const char *chip;
    uint32_t clock_hz;   /* of the core */
    uint32_t counter_hz; /* of board_ticks: cycles = ticks * clock_hz / counter_hz */
    uint32_t is_emulated; /* 1 if the counter counts instructions, not cycles */
    uint32_t *stack_bottom; /* the lowest word of the stack; NULL if it is not known: then no stack is measured */
} board_facts;

extern const board_facts board;

#endif
