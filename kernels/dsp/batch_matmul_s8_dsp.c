/* SPDX-License-Identifier: Apache-2.0
 * Products of matrices, for each batch: the vectors of one operand are held in scratch, those of the other move along them.
 *
 * Both are widened to 16 bits less their zero points: of every four elements a word with the first and the third, then one
 * with the others. Held vectors lie in groups of four, four elements of each in turn: 11 instructions for 16 products.
 * A round is eight elements of four held vectors; after the last one four results are stored.
 * Registers: r0 moving vector, r12 held ones, lr rounds left, r11 the state; r1 r2 elements, r3-r6 held ones, r7-r10
 * sums. Of the results: r0 y, r1 its step, r3 multiplier, r4 round, r5 shift. On the stack: groups left, y. */
#include "pillion/assembly.h"
#include "dot.h"

#include <string.h>

#if PILLION_HAS_DSP

/* Groups of held vectors and one vector that moves. */
typedef struct {
    const int32_t *moving;  /*  0 */
    const int32_t *held;    /*  4: r12 */
    int32_t rounds, groups; /*  8: of eight elements */
    int8_t *y;              /* 16 */
    int32_t y_step;         /* 20: from result to result */
    int32_t multiplier, round, right; /* 24 */
} moving_vector;
PILLION_AT(moving_vector, moving, 0);
PILLION_AT(moving_vector, held, 4);
PILLION_AT(moving_vector, rounds, 8);
PILLION_AT(moving_vector, groups, 12);
PILLION_AT(moving_vector, y, 16);
PILLION_AT(moving_vector, y_step, 20);
PILLION_AT(moving_vector, multiplier, 24);
PILLION_AT(moving_vector, round, 28);
PILLION_AT(moving_vector, right, 32);

/* r0 moving, r12 held; r1 r2 elements, r3-r6 held ones, r7-r10 sums. */
#define FOUR                     \
    "ldrd r1, r2, [r0], #8\n"    \
    "ldmia.w r12!, {r3-r6}\n"    \
    "smlad r7, r1, r3, r7\n"     \
    "smlad r8, r1, r5, r8\n"     \
    "smlad r7, r2, r4, r7\n"     \
    "smlad r8, r2, r6, r8\n"     \
    "ldmia.w r12!, {r3-r6}\n"    \
    "smlad r9, r1, r3, r9\n"     \
    "smlad r10, r1, r5, r10\n"   \
    "smlad r9, r2, r4, r9\n"     \
    "smlad r10, r2, r6, r10\n"

/* r0 y, r1 its step, r3 multiplier, r4 round, r5 right; s twice a sum. */
#define RESULT(s)                         \
    "add " s ", " s ", " s "\n"           \
    "add r2, r4, " s ", asr #31\n"        \
    "smmlar " s ", " s ", r3, r2\n"       \
    "asr " s ", " s ", r5\n"              \
    "ssat " s ", #8, " s "\n"             \
    "strb " s ", [r0]\n"                  \
    "add r0, r0, r1\n"

PILLION_NAKED static void results(PILLION_UNUSED const moving_vector *v) {
    __asm volatile("push {r4-r11, lr}\n"
                   "mov r11, r0\n"
                   "ldrd r0, r12, [r11]\n"
                   "ldrd r1, r2, [r11, #12]\n"
                   "push {r1, r2}\n" /* groups left, y */
                   "1:\n"
                   "ldr r0, [r11]\n"
                   "ldr lr, [r11, #8]\n"
                   "movs r7, #0\n"
                   "mov r8, r7\n"
                   "mov r9, r7\n"
                   "mov r10, r7\n"
                   "2:\n" FOUR FOUR
                   "subs lr, lr, #1\n"
                   "bne 2b\n"
                   "ldr r0, [sp, #4]\n"
                   "add r1, r11, #20\n"
                   "ldmia r1, {r1, r3-r5}\n" RESULT("r7") RESULT("r8") RESULT("r9") RESULT("r10")
                   "ldr r1, [sp]\n"
                   "subs r1, r1, #1\n"
                   "strd r1, r0, [sp]\n"
                   "bne 1b\n"
                   "add sp, sp, #8\n"
                   "pop {r4-r11, pc}\n");
}

/* A vector whose elements lie `step` bytes apart, less its zero point, into pairs of words `pitch` words apart. */
static void widen(const int8_t *from, int32_t step, int32_t count, int32_t zp, int32_t *to, int32_t pitch) {
    const uint32_t nothing = (uint32_t)(uint8_t)zp * 0x01010101u, zps = (uint32_t)(uint16_t)zp * 0x00010001u;
    for (; count > 0; count -= 4, to += pitch) {
        uint32_t four = nothing;
        const int32_t left = count < 4 ? count : 4;
        if (step == 1 && left == 4) {
            memcpy(&four, from, 4);
            from += 4;
        } else {
            for (int32_t i = 0; i < 32; i += 8) {
                four = i < 8 * left ? (four & ~(0xffu << i)) | (uint32_t)(uint8_t)*from << i : four;
                from += i < 8 * left ? step : 0;
            }
        }
        int32_t odd;
        __asm("sxtb16 %0, %1, ror #8" : "=r"(odd) : "r"(four));
        __asm("sxtb16 %0, %0" : "+r"(four));
        __asm("ssub16 %0, %1, %2" : "=r"(to[0]) : "r"(four), "r"(zps));
        __asm("ssub16 %0, %1, %2" : "=r"(to[1]) : "r"(odd), "r"(zps));
    }
}

/* What one moving vector meets. The last group may have room for more vectors than there are. */
static void multiply(const pillion_batch_matmul_s8_dsp_params *p, moving_vector *v) {
    int8_t last[4];
    const int32_t whole = p->held >> 2, rest = p->held & 3;
    const moving_vector all = *v;
    if (whole > 0) {
        v->groups = whole;
        results(v);
    }
    if (rest > 0) {
        v->held += 16 * whole * v->rounds, v->groups = 1, v->y = last, v->y_step = 1;
        results(v);
        int8_t *y = all.y + 4 * whole * all.y_step;
        for (int32_t i = 0; i < rest; i++, y += all.y_step) {
            *y = last[i];
        }
        *v = all;
    }
}

void pillion_batch_matmul_s8_dsp(const pillion_batch_matmul_s8_dsp_params *p, const int8_t *held, const int8_t *moving,
                                 int8_t *y, void *scratch) {
    const int32_t rounds = (p->depth + 7) >> 3, groups = (p->held + 3) >> 2;
    int32_t *const vectors = scratch, *const vector = vectors + 16 * groups * rounds;
    memset(scratch, 0, (size_t)(4 * (16 * groups + 4) * rounds));
    moving_vector v = {vector, vectors, rounds, groups, y, p->y_held_step, p->multiplier, p->round, p->right};
    for (int32_t n = 0; n < p->batch; n++) {
        for (int32_t i = 0; i < p->held; i++) {
            int32_t *const to = vectors + 16 * rounds * (i >> 2) + 2 * (i & 3);
            widen(held + i * p->held_step, p->held_element_step, p->depth, p->held_zp, to, 8);
        }
        v.y = y;
        for (int32_t i = 0; i < p->moving; i++, v.y += p->y_moving_step) {
            widen(moving + i * p->moving_step, p->moving_element_step, p->depth, p->moving_zp, vector, 2);
            multiply(p, &v);
        }
        held += p->held * p->depth;
        moving += p->moving * p->depth;
        y += p->held * p->moving;
    }
    const int32_t count = p->batch * p->held * p->moving;
    pillion_dsp_clamp(y - count, count, p->low, p->high);
}
#endif
