/* SPDX-License-Identifier: Apache-2.0
 * The stack and the clock of a Cortex-M: painting, and SysTick widened to 64 bits. */
#include "board.h"

#include <stddef.h>

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define SYST_CSR REGISTER(0xe000e010u)
#define SYST_RVR REGISTER(0xe000e014u)
#define SYST_CVR REGISTER(0xe000e018u)
#define ICSR REGISTER(0xe000ed04u)

#define SYST_RUN_WITH_INTERRUPT_AT_CORE_CLOCK 7u
#define ICSR_PENDSTSET (1u << 26)
#define ICSR_PENDSTCLR (1u << 25)
#define CLOCK_MASK ((1u << PILLION_CLOCK_BITS) - 1u)

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
const char pillion_tick_ns[] = TEXT(PILLION_TICK_NS);

/* From the linker script. */
extern uint32_t pillion_stack_bottom[];

static inline uint32_t *stack_pointer(void) {
    uint32_t *sp;
    __asm volatile("mov %0, sp" : "=r"(sp));
    return sp;
}

/* An object on the stack that is never written shows no colour: the figure is what the code touched. */
__attribute__((noinline)) uint32_t pillion_run_on_painted_stack(const pillion_model *model, void *arena, void *state) {
    uint32_t *const top = stack_pointer();
    for (volatile uint32_t *p = pillion_stack_bottom; p < top; p++) {
        *p = PILLION_STACK_PAINT;
    }
    pillion_run(model, arena, state, NULL);
    const volatile uint32_t *lowest = pillion_stack_bottom;
    while (lowest < top && *lowest == PILLION_STACK_PAINT) {
        lowest++;
    }
    if (lowest == pillion_stack_bottom) {
        return PILLION_STACK_OVERFLOWN;
    }
    return (uint32_t)((uintptr_t)top - (uintptr_t)lowest);
}

static volatile uint32_t wraps;

/* Always the same few instructions and no stack, so that their number can be measured and taken off. */
__attribute__((naked)) void pillion_clock_wrapped(void);
void pillion_clock_wrapped(void) {
    __asm volatile(".syntax unified\n"
                   "ldr r0, =%c0\n"
                   "ldr r1, [r0]\n"
                   "adds r1, #1\n"
                   "str r1, [r0]\n"
                   "bx lr\n"
                   ".ltorg\n"
                   :
                   : "i"(&wraps));
}

void pillion_clock_start(void) {
    wraps = 0;
    SYST_RVR = CLOCK_MASK;
    SYST_CVR = 0; /* any write clears it; the first tick loads the reload value */
    SYST_CSR = SYST_RUN_WITH_INTERRUPT_AT_CORE_CLOCK;
    while (SYST_CVR == 0) {
    }
}

/* A wrap between the two looks at `wraps` shows as a difference; isb lets a pending interrupt in between. */
uint64_t pillion_clock_now(void) {
    uint32_t before, after, down;
    do {
        before = wraps;
        down = SYST_CVR;
        __asm volatile("isb" : : : "memory");
        after = wraps;
    } while (before != after);
    return ((uint64_t)after << PILLION_CLOCK_BITS) | (CLOCK_MASK - down);
}

__attribute__((noinline)) static uint64_t ticks_around(uint32_t icsr) {
    const uint64_t start = pillion_clock_now();
    ICSR = icsr;
    __asm volatile("dsb\n isb" : : : "memory");
    return pillion_clock_now() - start;
}

/* The same path twice, once with the interrupt taken; the wrap that it counts is false and is undone. */
uint64_t pillion_clock_wrap_ticks(void) {
    const uint64_t without = ticks_around(ICSR_PENDSTCLR);
    const uint64_t with = ticks_around(ICSR_PENDSTSET) - ((uint64_t)1 << PILLION_CLOCK_BITS);
    wraps--;
    return with - without;
}
