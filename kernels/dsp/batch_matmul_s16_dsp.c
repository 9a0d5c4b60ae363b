/* SPDX-License-Identifier: Apache-2.0
 * Products of matrices of 16 bits, for each batch, in sums of 64 bits: three vectors of one operand are held in scratch, word by word side
 * by side, with zeros up to a multiple of 4 elements, those of the other move along them, one at a time, from where they lie.
 * Registers: r0 held vectors, r1 the moving one, r2-r5 sums of two held vectors, r6 and r7 of the third, r8-r10 held words, r11 a
 * moving word, r12 fours left. */
#include "pillion/assembly.h"
#include "pillion/dsp.h"
#include "pillion/requantize.h"

#if PILLION_HAS_DSP

typedef pillion_batch_matmul_s16_dsp_params params;

enum { HELD = 3 };

/* The words of a vector; the last one may be half of zeros. */
static void hold(const int16_t *x, int32_t step, int32_t count, int16_t *to) {
    for (int32_t words = (count + 3) / 4 * 2; words > 0; words--, count -= 2, x += 2 * step, to += 2 * HELD) {
        to[0] = count > 0 ? x[0] : 0;
        to[1] = count > 1 ? x[step] : 0;
    }
}

#define WORD                         \
    "ldmia r0!, {r8, r9, r10}\n"     \
    "ldr r11, [r1], #4\n"            \
    "smlald r2, r3, r8, r11\n"       \
    "smlald r4, r5, r9, r11\n"       \
    "smlald r6, r7, r10, r11\n"
PILLION_NAKED static void sums_of(PILLION_UNUSED const int16_t *held, PILLION_UNUSED const int16_t *moving, PILLION_UNUSED int32_t fours,
                                  PILLION_UNUSED int64_t sums[HELD]) {
    __asm volatile("push {r3-r11, lr}\n"
                   "mov r12, r2\n"
                   "movs r2, #0\n"
                   "movs r3, #0\n"
                   "movs r4, #0\n"
                   "movs r5, #0\n"
                   "movs r6, #0\n"
                   "movs r7, #0\n"
                   "1:\n" WORD WORD
                   "subs r12, r12, #1\n"
                   "bne 1b\n"
                   "ldr r0, [sp]\n"
                   "stmia r0, {r2-r7}\n"
                   "pop {r3-r11, pc}\n");
}

/* (sum * M + 2^(R - 1)) >> R from the upper word of a product: M is shifted left until R is 33 at least. Where that takes more than 3
 * places, sums beyond 32 bits have results beyond 16. */
typedef struct {
    uint32_t multiplier;
    int32_t is_narrow, half, right, low, high;
} scaling;

static inline scaling scaling_of(const params *p) {
    const int32_t places = p->right < 33 ? 33 - p->right : 0, right = p->right + places - 32;
    const scaling s = {(uint32_t)p->multiplier << places, places > 3, 1 << (right - 1), right, p->low, p->high};
    return s;
}

static inline int16_t rounded(const scaling *s, int64_t sum) {
    int32_t low = (int32_t)sum;
    const int32_t high = (int32_t)(sum >> 32);
    if (s->is_narrow) {
        low = high == low >> 31 ? low : (high >> 31) ^ INT32_MAX;
        sum = low;
    }
    const int32_t upper = (int32_t)((sum * (int64_t)s->multiplier) >> 32);
    return (int16_t)pillion_clamp((upper + s->half) >> s->right, s->low, s->high);
}

void pillion_batch_matmul_s16_dsp(const params *p, const int16_t *held, const int16_t *moving, int16_t *y, void *scratch) {
    const scaling scale = scaling_of(p);
    int16_t *const words = scratch;
    for (int32_t n = 0; n < p->batch; n++, held += p->held * p->depth, moving += p->moving * p->depth, y += p->held * p->moving) {
        for (int32_t h = 0; h < p->held; h += HELD) {
            const int32_t count = p->held - h < HELD ? p->held - h : HELD;
            for (int32_t i = 0; i < count; i++) {
                hold(held + (h + i) * p->held_step, p->held_element_step, p->depth, words + 2 * i);
            }
            const int16_t *x = moving;
            int16_t *row = y + h * p->y_held_step;
            for (int32_t m = p->moving; m > 0; m--, x += p->moving_step, row += p->y_moving_step) {
                int64_t sums[HELD];
                sums_of(words, x, (p->depth + 3) / 4, sums);
                for (int32_t i = 0; i < count; i++) {
                    row[i * p->y_held_step] = rounded(&scale, sums[i]);
                }
            }
        }
    }
}
#endif
