/* SPDX-License-Identifier: Apache-2.0
 * Runs the self-test of the model on a board of the emulator or on a computer, and says what came of it in one line of JSON.
 * It ends with 0 if all is as it should be, with 1 if something differs. A product calls @model@_selftest itself. */
#include "selftest.h"

#include "../harness/harness.h"
#include "../harness/semihosting.h"

/* What the arena holds before the first run: a kernel that counts on zeros shall be seen. */
#define JUNK 0xa5

__attribute__((aligned(32), section(".pillion_arena"))) uint8_t pillion_arena[PILLION_ARENA_BYTES];
#if PILLION_STATE_BYTES > 0
__attribute__((aligned(16), section(".pillion_state"))) uint8_t pillion_state[PILLION_STATE_BYTES];
#define STATE pillion_state,
#else
#define STATE
#endif

static void print_number(const char *before, uint32_t value) {
    char text[11];
    char *p = text + sizeof text - 1;
    *p = '\0';
    do {
        *--p = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    semihost_print(before);
    semihost_print(p);
}

int main(void) {
    pillion_difference difference;
    for (uint32_t i = 0; i < PILLION_ARENA_BYTES; i++) {
        pillion_arena[i] = JUNK;
    }
    const uint32_t wrong = @model@_selftest(pillion_arena, STATE &difference);
    print_number("{\"selftest\": ", wrong);
    if (wrong != 0) {
        print_number(", \"sample\": ", difference.sample);
        print_number(", \"op\": ", difference.op);
        print_number(", \"result\": ", difference.result);
        print_number(", \"element\": ", difference.element);
    }
    semihost_print("}\n");
    return wrong == 0 ? 0 : 1;
}
