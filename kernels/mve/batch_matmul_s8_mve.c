/* SPDX-License-Identifier: Apache-2.0
 * Products of matrices, for each batch: the vectors of one operand are held in scratch, those of the other move along them.
 *
 * Both are copied into contiguous bytes with zeros up to a multiple of 16. A piece of 16 elements of the moving vector meets
 * four held ones: 10 instructions for 64 products. Zero points come afterwards: of sum((h - zh) (m - zm)), what depends on
 * h alone is the bias of a held vector, what depends on m alone is one number for all of them. A round of the inner
 * loop is one piece; after the last one four results are stored.
 * Registers: r1 r3 r5 r7 held vectors, r0 r2 r4 r6 their sums, r8 y, r9 moving vector, r10 bias, r11 vectors left, r12
 * pieces; q0 a piece of the moving vector, q1 q2 of held ones, q3 where four results go, q4 multiplier, q5 offset, q6
 * shift, q7 zero point. After the loop over the pieces lr is 1: the number of the sign fix. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "bytes.h"
#include "pillion/assembly.h"

/* All held vectors and one that moves. */
typedef struct {
    const int8_t *held;    /*  0: r1 */
    int8_t *y;             /*  4: r8 */
    const int8_t *moving;  /*  8: r9 */
    const int32_t *bias;   /* 12: r10 */
    int32_t count, chunks; /* 16: r11 held vectors, r12 pieces of 16 elements */
    int32_t offset, multiplier, shift, out_zp; /* 24: of the moving vector; then q4, q6, q7 */
    int32_t y_step;        /* 40: from result to result */
} moving_vector;
PILLION_AT(moving_vector, held, 0);
PILLION_AT(moving_vector, y, 4);
PILLION_AT(moving_vector, moving, 8);
PILLION_AT(moving_vector, bias, 12);
PILLION_AT(moving_vector, count, 16);
PILLION_AT(moving_vector, chunks, 20);
PILLION_AT(moving_vector, offset, 24);
PILLION_AT(moving_vector, multiplier, 28);
PILLION_AT(moving_vector, shift, 32);
PILLION_AT(moving_vector, out_zp, 36);
PILLION_AT(moving_vector, y_step, 40);

#define PIECE(x, q, sum)                \
    "vldrb.u8 " q ", [" x "], #16\n"    \
    "vmladava.s8 " sum ", q0, " q "\n"

PILLION_NAKED static void results(PILLION_UNUSED const moving_vector *v) {
    __asm__ volatile(
        "push {r4, r5, r6, r7, r8, r9, r10, r11, r12, lr}\n"
        "vpush {d8, d9, d10, d11, d12, d13, d14, d15}\n"
        "ldm r0, {r1, r8, r9, r10, r11, r12}\n"
        "ldrd r2, r3, [r0, #24]\n"
        "vdup.32 q5, r2\n"
        "vdup.32 q4, r3\n"
        "ldrd r2, r3, [r0, #32]\n"
        "vdup.32 q6, r2\n"
        "vdup.16 q7, r3\n"
        "ldr r3, [r0, #40]\n"
        "movs r2, #0\n"
        "vidup.u32 q3, r2, #1\n"
        "vmul.i32 q3, q3, r3\n"
        "lsls r3, r3, #2\n"
        "push {r2, r3}\n"
        "1:\n"
        "add r3, r1, r12, lsl #4\n"
        "add r5, r3, r12, lsl #4\n"
        "add r7, r5, r12, lsl #4\n"
        "movs r0, #0\n"
        "movs r2, #0\n"
        "movs r4, #0\n"
        "movs r6, #0\n"
        "dls lr, r12\n"
        "2:\n"
        "vldrb.u8 q0, [r9], #16\n" PIECE("r1", "q1", "r0") PIECE("r3", "q2", "r2") PIECE("r5", "q1", "r4")
            PIECE("r7", "q2", "r6")
        "le lr, 2b\n"
        "sub r9, r9, r12, lsl #4\n"
        "mov r1, r7\n"
        "vmov q0[2], q0[0], r0, r4\n"
        "vmov q0[3], q0[1], r2, r6\n"
        "vldrw.u32 q1, [r10], #16\n"
        "vadd.i32 q0, q0, q1\n"
        "vadd.i32 q0, q0, q5\n"
        "vqrdmulh.s32 q0, q0, q4\n"
        "vqdmlah.s32 q0, q0, lr\n"
        "vrshl.s32 q0, q0, q6\n"
        "vqmovnb.s32 q0, q0\n"
        "vqadd.s16 q0, q0, q7\n"
        "vqmovnb.s16 q0, q0\n"
        "vctp.32 r11\n"
        "vpst\n"
        "vstrbt.32 q0, [r8, q3]\n"
        "ldr r0, [sp, #4]\n"
        "add r8, r0\n"
        "subs r11, #4\n"
        "bgt 1b\n"
        "add sp, #8\n"
        "vpop {d8, d9, d10, d11, d12, d13, d14, d15}\n"
        "pop {r4, r5, r6, r7, r8, r9, r10, r11, r12, pc}\n");
}

/* A vector whose elements lie `step` bytes apart, into contiguous bytes; returns its sum. */
static int32_t copy_vector(const int8_t *from, int32_t step, int32_t count, int8_t *to) {
    int32_t sum = 0;
    __asm__ volatile(
        "vidup.u16 q1, %[sum], #1\n"
        "vmul.i16 q1, q1, %[step]\n"
        "movs %[sum], #0\n"
        "dlstp.16 lr, %[count]\n"
        "1: vldrb.s16 q0, [%[from], q1]\n"
        "add %[from], %[from], %[step], lsl #3\n"
        "vaddva.s16 %[sum], q0\n"
        "vstrb.16 q0, [%[to]], #8\n"
        "letp lr, 1b\n"
        : [sum] "+Te"(sum), [from] "+r"(from), [to] "+l"(to)
        : [step] "r"(step), [count] "r"(count)
        : "lr", "q0", "q1", "cc", "memory");
    return sum;
}

void pillion_batch_matmul_s8_mve(const pillion_batch_matmul_s8_mve_params *p, const int8_t *held, const int8_t *moving,
                                 int8_t *y, void *scratch) {
    const int32_t groups = (p->held + 3) >> 2, chunks = (p->depth + 15) >> 4;
    int32_t *const bias = scratch;
    int8_t *const vectors = (int8_t *)(bias + 4 * groups);
    int8_t *const vector = vectors + 64 * groups * chunks;
    pillion_mve_fill(scratch, 0, 16 * groups + 64 * groups * chunks + 16 * chunks);
    moving_vector v = {vectors, y, vector, bias, p->held, chunks, 0, p->multiplier, p->shift, p->out_zp, p->y_held_step};
    for (int32_t n = 0; n < p->batch; n++) {
        for (int32_t i = 0; i < p->held; i++) {
            const int32_t sum = copy_vector(held + i * p->held_step, p->held_element_step, p->depth,
                                            vectors + 16 * chunks * i);
            bias[i] = p->moving_zp * (p->depth * p->held_zp - sum);
        }
        v.y = y;
        for (int32_t i = 0; i < p->moving; i++, v.y += p->y_moving_step) {
            const int32_t sum = copy_vector(moving + i * p->moving_step, p->moving_element_step, p->depth, vector);
            v.offset = -p->held_zp * sum;
            results(&v);
        }
        held += p->held * p->depth;
        moving += p->moving * p->depth;
        y += p->held * p->moving;
    }
    const int32_t count = p->batch * p->held * p->moving;
    pillion_mve_clamp(y - count, count, p->low, p->high);
}

#endif
