/* SPDX-License-Identifier: Apache-2.0
 * Products of matrices of 16 bits, for each batch, in sums of 64 bits: three vectors of one operand are held in scratch, word by word side
 * by side, with zeros up to a multiple of 4 elements, those of the other move along them, one at a time, from where they lie. A round is four fours of
 * elements; the first round is entered where it must.
 * Registers: r0 held vectors, r1 the moving one, r2-r5 sums of two held vectors, r6 and r7 of the third, r8-r10 held words, r11 a
 * moving word, r12 rounds left, lr the state. Of the results: r8 multiplier, r9 half, r10 right, r11 y. */
#include "dot16.h"

#if PILLION_HAS_DSP

typedef pillion_batch_matmul_s16_dsp_params params;

enum { HELD = 3 };
#define FOURS_OF_ROUND 4
#define FOUR_BYTES 40 /* of code */

/* Three held vectors, and all vectors that move along them. */
typedef struct {
    const int16_t *held;     /*  0: r0 */
    int32_t zeros[2 * HELD]; /*  4: r2-r7 */
    int32_t rounds;          /* 28: r12 */
    int32_t multiplier, half, right;
    int16_t *y;              /* 44 */
    int32_t third, second;   /* 48 52: bytes from a result to those of the other held vectors; 0 where there is none */
    int32_t y_step, x_skip;  /* 56 60: bytes to the results of the next vector, and from the end of a vector to the next one */
    const int16_t *y_end;    /* 64 */
    uint32_t entry;          /* 68: where a vector enters its first round */
} products;
PILLION_FIELDS_AT(products, 0, held, zeros);
PILLION_FIELDS_AT(products, 28, rounds, multiplier, half, right, y, third, second, y_step, x_skip, y_end, entry);

#define WORD                         \
    "ldmia.w r0!, {r8, r9, r10}\n"   \
    "ldr.w r11, [r1], #4\n"            \
    "smlald r2, r3, r8, r11\n"       \
    "smlald r4, r5, r9, r11\n"       \
    "smlald r6, r7, r10, r11\n"
/* (sum * M + 2^(R - 1)) >> R from the upper word of the product. */
#define RESULT(low, high)                        \
    "umull r12, r0, " low ", r8\n"               \
    "mla " low ", " high ", r8, r0\n"            \
    "add " low ", r9\n"                          \
    "asr " low ", " low ", r10\n"                \
    "ssat " low ", #16, " low "\n"
PILLION_NAKED static void multiply(PILLION_UNUSED products *s, PILLION_UNUSED const int16_t *moving) {
    __asm volatile("push {r4-r11, lr}\n"
                   "mov lr, r0\n"
                   "1:\n"
                   "ldmia.w lr, {r0, r2-r7, r12}\n"
                   "ldr pc, [lr, #68]\n"
                   ".global pillion_dsp_products_16\n"
                   "pillion_dsp_products_16:\n"
                   "2:\n" PILLION_REPEAT("2b", FOURS_OF_ROUND, FOUR_BYTES, WORD WORD)
                   "subs r12, r12, #1\n"
                   "bne.w 2b\n"
                   "add r0, lr, #32\n"
                   "ldmia.w r0, {r8-r11}\n" RESULT("r2", "r3") RESULT("r4", "r5") RESULT("r6", "r7")
                   "add r0, lr, #48\n"
                   "ldmia.w r0, {r8-r10, r12}\n"
                   "strh r6, [r11, r8]\n"
                   "strh r4, [r11, r9]\n"
                   "strh r2, [r11]\n"
                   "add r11, r11, r10\n"
                   "ldr r10, [lr, #64]\n"
                   "str r11, [lr, #44]\n"
                   "add r1, r1, r12\n"
                   "cmp r11, r10\n"
                   "bne 1b\n"
                   "pop {r4-r11, pc}\n");
}

extern const uint8_t pillion_dsp_products_16[];

/* The words of a vector, in fours of elements; the last ones may be zeros. */
static void hold(const int16_t *x, int32_t step, int32_t count, int16_t *to) {
    for (; count > 3; count -= 4, x += 4 * step, to += 4 * HELD) {
        to[0] = x[0], to[1] = x[step], to[2 * HELD] = x[2 * step], to[2 * HELD + 1] = x[3 * step];
    }
    if (count > 0) {
        to[0] = x[0], to[1] = count > 1 ? x[step] : 0, to[2 * HELD] = count > 2 ? x[2 * step] : 0, to[2 * HELD + 1] = 0;
    }
}

void pillion_batch_matmul_s16_dsp(const params *p, const int16_t *held, const int16_t *moving, int16_t *y, void *scratch) {
    const int32_t places = p->right < 33 ? 33 - p->right : 0, right = p->right + places - 32, fours = (p->depth + 3) / 4;
    int16_t *const words = scratch;
    products s = {words, {0}, (fours + FOURS_OF_ROUND - 1) / FOURS_OF_ROUND, p->multiplier << places, 1 << (right - 1), right, y, 0, 0, 2 * p->y_moving_step, 2 * p->moving_step - 8 * fours, y, 0};
    s.entry = pillion_thumb(pillion_dsp_products_16) + (uint32_t)((-fours & (FOURS_OF_ROUND - 1)) * FOUR_BYTES);
    for (int32_t n = 0; n < p->batch; n++, held += p->held * p->depth, moving += p->moving * p->depth, y += p->held * p->moving) {
        for (int32_t h = 0; h < p->held; h += HELD) {
            const int32_t count = p->held - h < HELD ? p->held - h : HELD;
            for (int32_t i = 0; i < count; i++) {
                hold(held + (h + i) * p->held_step, p->held_element_step, p->depth, words + 2 * i);
            }
            s.y = y + h * p->y_held_step, s.y_end = s.y + p->moving * p->y_moving_step;
            s.second = count > 1 ? 2 * p->y_held_step : 0, s.third = count > 2 ? 4 * p->y_held_step : 0;
            multiply(&s, moving);
        }
    }
    const int32_t count = p->batch * p->held * p->moving;
    pillion_dsp_clamp_16(y - count, count, p->low, p->high);
}
#endif
