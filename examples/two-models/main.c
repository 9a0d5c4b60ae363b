#include "guard/model/model.h"
#include "images.h"
#include "reader/model/model.h"
#include "semihosting.h"

#include <stddef.h>
#include <string.h>

/* The networks take turns, so one arena does for both. */
enum { ARENA_BYTES = GUARD_ARENA_BYTES > READER_ARENA_BYTES ? GUARD_ARENA_BYTES : READER_ARENA_BYTES };
static _Alignas(16) uint8_t arena[ARENA_BYTES];

static int32_t largest(const int8_t *scores, int32_t count) {
    int32_t best = 0;
    for (int32_t i = 1; i < count; i++) {
        best = scores[i] > scores[best] ? i : best;
    }
    return best;
}

static int32_t is_digit(const int8_t *image) {
    memcpy(GUARD_INPUT_0(arena), image, 64);
    guard_run(arena, NULL);
    return largest(GUARD_OUTPUT_0(arena), 2);
}

static int32_t which_digit(const int8_t *image) {
    memcpy(READER_INPUT_0(arena), image, 64);
    reader_run(arena, NULL);
    return largest(READER_OUTPUT_0(arena), 10);
}

int main(void) {
    for (int32_t i = 0; i < IMAGES; i++) {
        if (is_digit(images[i])) {
            const char text[] = {(char)('0' + which_digit(images[i])), '\n', '\0'};
            semihost_print("digit ");
            semihost_print(text);
        } else {
            semihost_print("nothing\n");
        }
    }
    return 0;
}
