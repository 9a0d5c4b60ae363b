/* SPDX-License-Identifier: Apache-2.0
 * Products of matrices, for each batch: the vectors of one operand are held in scratch, two by two, those of the other move
 * along them, four at a time.
 *
 * Held vectors have zeros up to a multiple of 16, so that the others may be read where they lie; they are copied only where
 * their elements lie apart. A piece of 16 elements of four moving vectors meets two held ones: 14 instructions for 128
 * products. Zero points come afterwards: of sum((h - zh) (m - zm)), what depends on h alone is where its sums begin, what
 * depends on m alone is in a lane. Eight results are requantized together, and stored in two scattered fours. Vectors of one
 * piece stay in registers. The last held vector of an odd number stands twice, and writes one place twice.
 * Registers: r0 r2 r4 r6 sums of the first held vector, r8 r10 r12 lr of the second, r1 pairs of held vectors, r3 r5 r7 r9
 * moving ones, r11 pieces left; q0-q3 pieces of the moving vectors, q4 their offsets, q5 q6 held vectors, then results, q7
 * places of four results. Of the results: r0 y, r2 from result to result, r4 multiplier, r6 shift, r8 zero point, r10 the
 * number of the sign fix, 0 where there is no right shift, r12 end of the pairs; of vectors of one piece: r3 y, r5 from result to result, r7 multiplier,
 * r9 shift, r11 zero point. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "bytes.h"
#include "pillion/assembly.h"

enum { TOGETHER = 4, PAIR = 2, PIECE = 16, BIAS_BYTES = 4 * TOGETHER * PAIR };

/* Pairs of held vectors and four that move. */
typedef struct {
    const int8_t *held;             /*  0: r1 */
    const int8_t *moving[TOGETHER]; /*  4: r3 r5 r7 r9 */
    int32_t pieces;                 /* 20: r11, of 16 elements */
    int8_t *y;                      /* 24: r0 */
    int32_t y_step;                 /* 28: r2, from result to result of a moving vector */
    int32_t multiplier, shift, out_zp, one; /* 32: r4 r6 r8 r10 */
    const int8_t *end;              /* 48: r12, of the pairs */
    int32_t offsets[TOGETHER];      /* 52: of the moving vectors */
    int32_t places[TOGETHER];       /* 68: of their results */
} moving_vectors;
PILLION_FIELDS_AT(moving_vectors, 0, held, moving);
PILLION_FIELDS_AT(moving_vectors, 20, pieces, y, y_step, multiplier, shift, out_zp, one, end, offsets);
PILLION_AT(moving_vectors, places, 68);

/* All of the state but the held vectors goes to the stack. */
#define ENTER                                                     \
    "push {r4, r5, r6, r7, r8, r9, r10, r11, r12, lr}\n"          \
    "vpush {d8, d9, d10, d11, d12, d13, d14, d15}\n"              \
    "vldrw.u32 q4, [r0, #52]\n"                                   \
    "vldrw.u32 q7, [r0, #68]\n"                                   \
    "ldm r0, {r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, lr}\n" \
    "push {r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, lr}\n"
#define LEAVE                                            \
    "add sp, #48\n"                                      \
    "vpop {d8, d9, d10, d11, d12, d13, d14, d15}\n"      \
    "pop {r4, r5, r6, r7, r8, r9, r10, r11, r12, pc}\n"

#define LOAD_BIAS "ldm r1!, {r0, r2, r4, r6, r8, r10, r12, lr}\n"

#define MULTIPLY                     \
    "vldrb.u8 q5, [r1], #16\n"       \
    "vmladava.s8 r0, q0, q5\n"       \
    "vldrb.u8 q6, [r1], #16\n"       \
    "vmladava.s8 r2, q1, q5\n"       \
    "vmladava.s8 r8, q0, q6\n"       \
    "vmladava.s8 r4, q2, q5\n"       \
    "vmladava.s8 r10, q1, q6\n"      \
    "vmladava.s8 r6, q3, q5\n"       \
    "vmladava.s8 r12, q2, q6\n"      \
    "vmladava.s8 lr, q3, q6\n"

#define MOVE_SUMS                              \
    "vmov q5[2], q5[0], r0, r4\n"              \
    "vmov q5[3], q5[1], r2, r6\n"              \
    "vmov q6[2], q6[0], r8, r12\n"             \
    "vmov q6[3], q6[1], r10, lr\n"

/* A 32-bit lane has the result of the first held vector in its lowest byte, of the second one in its third. */
#define RESULTS(y, y_step, multiplier, shift, zp, one)  \
    "vadd.i32 q5, q5, q4\n"                             \
    "vadd.i32 q6, q6, q4\n"                             \
    "vqrdmulh.s32 q5, q5, " multiplier "\n"             \
    "vqrdmulh.s32 q6, q6, " multiplier "\n"             \
    "vqdmlah.s32 q5, q5, " one "\n"                     \
    "vqdmlah.s32 q6, q6, " one "\n"                     \
    "vrshl.s32 q5, " shift "\n"                         \
    "vrshl.s32 q6, " shift "\n"                         \
    "vqmovnb.s32 q5, q5\n"                              \
    "vqmovnt.s32 q5, q6\n"                              \
    "vqadd.s16 q5, q5, " zp "\n"                        \
    "vqmovnb.s16 q5, q5\n"                              \
    "vstrb.32 q5, [" y ", q7]\n"                        \
    "vshr.u32 q5, q5, #16\n"                            \
    "add " y ", " y_step "\n"                           \
    "vstrb.32 q5, [" y ", q7]\n"                        \
    "add " y ", " y_step "\n"

PILLION_NAKED static void results(PILLION_UNUSED const moving_vectors *v) {
    __asm__ volatile(ENTER
                     "1:\n"
                     "ldm sp, {r3, r5, r7, r9, r11}\n" LOAD_BIAS
                     "2:\n"
                     "vldrb.u8 q0, [r3], #16\n"
                     "vldrb.u8 q1, [r5], #16\n"
                     "vldrb.u8 q2, [r7], #16\n"
                     "vldrb.u8 q3, [r9], #16\n" MULTIPLY
                     "subs r11, #1\n"
                     "bne 2b\n" MOVE_SUMS
                     "add r11, sp, #20\n"
                     "ldm r11, {r0, r2, r4, r6, r8, r10, r12}\n" RESULTS("r0", "r2", "r4", "r6", "r8", "r10")
                     "str r0, [r11]\n"
                     "cmp r1, r12\n"
                     "bne 1b\n" LEAVE);
}

/* The same for vectors of one piece. */
PILLION_NAKED static void results_of_one_piece(PILLION_UNUSED const moving_vectors *v) {
    __asm__ volatile(ENTER
                     "ldm sp, {r3, r5, r7, r9}\n"
                     "vldrb.u8 q0, [r3]\n"
                     "vldrb.u8 q1, [r5]\n"
                     "vldrb.u8 q2, [r7]\n"
                     "vldrb.u8 q3, [r9]\n"
                     "add r11, sp, #20\n"
                     "ldm r11, {r3, r5, r7, r9, r11}\n"
                     "1:\n" LOAD_BIAS MULTIPLY MOVE_SUMS
                     "ldrd r10, r12, [sp, #40]\n" RESULTS("r3", "r5", "r7", "r9", "r11", "r10")
                     "cmp r1, r12\n"
                     "bne 1b\n" LEAVE);
}

/* A vector whose elements lie `step` bytes apart, eight to every other `to`: eight bytes further, then `pitch - 8`. Returns
 * the sum. */
static int32_t copy_vector(const int8_t *from, int32_t step, int32_t count, int8_t *to, int32_t pitch) {
    int32_t sum = 0, further = 8;
    __asm__ volatile(
        "vidup.u16 q1, %[sum], #1\n"
        "vmul.i16 q1, q1, %[step]\n"
        "movs %[sum], #0\n"
        "dlstp.16 lr, %[count]\n"
        "1: vldrb.s16 q0, [%[from], q1]\n"
        "add %[from], %[from], %[step], lsl #3\n"
        "vaddva.s16 %[sum], q0\n"
        "vstrb.16 q0, [%[to]]\n"
        "add %[to], %[further]\n"
        "sub %[further], %[pitch], %[further]\n"
        "letp lr, 1b\n"
        : [sum] "+&Te"(sum), [from] "+&r"(from), [to] "+&l"(to), [further] "+&r"(further)
        : [step] "r"(step), [count] "r"(count), [pitch] "r"(pitch)
        : "lr", "q0", "q1", "cc", "memory");
    return sum;
}

static int32_t sum_of(const int8_t *from, int32_t count) {
    int32_t sum = 0;
    __asm__ volatile(
        "dlstp.8 lr, %[count]\n"
        "1: vldrb.u8 q0, [%[from]], #16\n"
        "vaddva.s8 %[sum], q0\n"
        "letp lr, 1b\n"
        : [sum] "+&Te"(sum), [from] "+&r"(from)
        : [count] "r"(count)
        : "lr", "q0", "memory");
    return sum;
}

/* All held vectors of a batch, in pairs: the bias of each four times, then the pieces of both in turn. */
static void hold(const pillion_batch_matmul_s8_mve_params *p, const int8_t *held, int32_t pair_bytes, int8_t *pairs) {
    for (int32_t i = 0; i < ((p->held + 1) & ~1); i++) {
        int8_t *const pair = pairs + (i >> 1) * pair_bytes;
        const int8_t *const from = held + (i < p->held ? i : p->held - 1) * p->held_step;
        const int32_t sum = copy_vector(from, p->held_element_step, p->depth, pair + BIAS_BYTES + PIECE * (i & 1), 2 * PIECE);
        int32_t *const bias = (int32_t *)(void *)pair + TOGETHER * (i & 1);
        bias[0] = bias[1] = bias[2] = bias[3] = p->moving_zp * (p->depth * p->held_zp - sum);
    }
}

/* Up to four moving vectors from one on; where fewer are left, the last one again. */
static void move(const pillion_batch_matmul_s8_mve_params *p, const int8_t *moving, int32_t left, int8_t *copies,
                 moving_vectors *v) {
    for (int32_t i = 0; i < TOGETHER; i++) {
        if (i >= left) {
            v->moving[i] = v->moving[i - 1], v->offsets[i] = v->offsets[i - 1], v->places[i] = v->places[i - 1];
            continue;
        }
        const int8_t *const from = moving + i * p->moving_step;
        v->moving[i] = from;
        v->places[i] = i * p->y_moving_step;
        if (p->moving_element_step == 1) {
            v->offsets[i] = p->held_zp == 0 ? 0 : -p->held_zp * sum_of(from, p->depth);
        } else {
            int8_t *const copy = copies + i * PIECE * v->pieces;
            v->moving[i] = copy;
            v->offsets[i] = -p->held_zp * copy_vector(from, p->moving_element_step, p->depth, copy, PIECE);
        }
    }
}

/* Four moving vectors along all held ones. */
static void multiply(const pillion_batch_matmul_s8_mve_params *p, const int8_t *pairs, int32_t pair_bytes, int8_t *y,
                     moving_vectors *v) {
    void (*const run)(const moving_vectors *) = v->pieces == 1 ? results_of_one_piece : results;
    const int32_t whole = p->held >> 1;
    v->held = pairs, v->end = pairs + whole * pair_bytes, v->y = y, v->y_step = p->y_held_step;
    if (whole > 0) {
        run(v);
    }
    if (p->held & 1) {
        v->held = v->end, v->end += pair_bytes, v->y += 2 * whole * p->y_held_step, v->y_step = 0;
        run(v);
    }
}

void pillion_batch_matmul_s8_mve(const pillion_batch_matmul_s8_mve_params *p, const int8_t *held, const int8_t *moving,
                                 int8_t *y, void *scratch) {
    const int32_t pieces = (p->depth + PIECE - 1) / PIECE, pair_bytes = BIAS_BYTES + 2 * PIECE * pieces;
    const int32_t held_bytes = ((p->held + 1) >> 1) * pair_bytes;
    int8_t *const pairs = scratch, *const copies = pairs + held_bytes;
    pillion_mve_fill(scratch, 0, held_bytes + (p->moving_element_step == 1 ? 0 : TOGETHER * PIECE * pieces));
    moving_vectors v = {.pieces = pieces, .multiplier = p->multiplier, .shift = p->shift, .out_zp = p->out_zp, .one = p->shift < 0};
    for (int32_t n = 0; n < p->batch; n++) {
        hold(p, held, pair_bytes, pairs);
        for (int32_t i = 0; i < p->moving; i += TOGETHER) {
            move(p, moving + i * p->moving_step, p->moving - i, copies, &v);
            multiply(p, pairs, pair_bytes, y + i * p->y_moving_step, &v);
        }
        held += p->held * p->depth;
        moving += p->moving * p->depth;
        y += p->held * p->moving;
    }
    const int32_t count = p->batch * p->held * p->moving;
    pillion_mve_clamp(y - count, count, p->low, p->high);
}

#endif
