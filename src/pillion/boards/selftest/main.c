/* SPDX-License-Identifier: Apache-2.0
 * Runs the self-test of the model on a board of the emulator or on a computer, and says what came of it in one line of JSON.
 * It ends with 0 if all is as it should be, with 1 if something differs. A product calls @model@_selftest itself. */
#include "selftest.h"

#include "../harness/harness.h"
#include "../harness/semihosting.h"

/* What the arena holds before the first run: a kernel that counts on zeros shall be seen. */
#define JUNK 0xa5

PILLION_DEFINE_ARENA
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
    const pillion_model *const model = &PILLION_MODEL;
    for (uint32_t i = 0; i == 0 || i < model->memory_count; i++) {
        uint8_t *const bytes = pillion_memory_at(model, PILLION_ARENA, i);
        for (uint32_t j = 0; j < (model->memory_count == 0 ? model->arena_bytes : model->memories[i].bytes); j++) {
            bytes[j] = JUNK;
        }
    }
    const uint32_t wrong = @model@_selftest(PILLION_ARENA, STATE &difference);
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
