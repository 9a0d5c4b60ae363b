#include "semihosting.h"
#include "sound/model/model.h"

#include <stddef.h>

enum { NUMBERS = 49 * 10, WORDS = 12 };

static _Alignas(16) uint8_t arena[SOUND_ARENA_BYTES];

static void print_number(int32_t value) {
    char text[12];
    char *p = text + sizeof text - 1;
    uint32_t rest = value < 0 ? 0u - (uint32_t)value : (uint32_t)value;
    *p = '\0';
    do {
        *--p = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest != 0);
    if (value < 0) {
        *--p = '-';
    }
    semihost_print(p);
    semihost_print(" ");
}

int main(void) {
    for (int32_t i = 0; i < NUMBERS; i++) { /* in a product: what the microphone heard */
        SOUND_INPUT_0(arena)[i] = (int8_t)(i * 37 % 256 - 128);
    }
    sound_run(arena, NULL);
    for (int32_t i = 0; i < WORDS; i++) {
        print_number(SOUND_OUTPUT_0(arena)[i]);
    }
    semihost_print("\n");
    return 0;
}
