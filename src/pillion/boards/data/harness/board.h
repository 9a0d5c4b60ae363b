/* SPDX-License-Identifier: Apache-2.0
 * What main.c asks of the machine it runs on: cortex_m.c answers on a board, host.c on a PC. */
#ifndef PILLION_BOARD_H
#define PILLION_BOARD_H

#include "pillion/model.h"

/* The colour of unused stack: a value that no code is likely to leave behind. */
#define PILLION_STACK_PAINT 0xa51c0de5u

#define PILLION_STACK_UNKNOWN UINT32_MAX
#define PILLION_STACK_OVERFLOWN (UINT32_MAX - 1u)

/* Runs the model once. Gives the bytes of stack that this took, or one of the values above. */
uint32_t pillion_run_on_painted_stack(const pillion_model *model, void *arena, void *state);

/* A clock that never wraps. Its hardware counter holds PILLION_CLOCK_BITS bits; each time that one wraps, the
 * processor spends some instructions on it, whose number pillion_clock_wrap_ticks() measures. */
#define PILLION_CLOCK_BITS 24u
void pillion_clock_start(void);
uint64_t pillion_clock_now(void);
uint64_t pillion_clock_wrap_ticks(void);

/* Length of a tick in nanoseconds, as text: "31.25". */
extern const char pillion_tick_ns[];

#endif
