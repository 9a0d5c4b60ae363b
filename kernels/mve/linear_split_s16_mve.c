/* SPDX-License-Identifier: Apache-2.0
 * Fully connected in 16 bits by products of bytes: x = 256 * h + l + 128 with signed bytes h and l. The vector is split once, into 16 h and 16 l by
 * turns; then 14 instructions take 16 inputs of four outputs, where widened weights take 17 (linear_s16_mve.c). The sums of h and of l
 * begin with the same number n, so that 256 * (H + n) + L + n may wrap around; it is the bias and 128 times the weights for n = that / 257
 * modulo 2^32.
 *
 * Registers: r0 r2 r4 r6 sums of h, r8 r10 r12 lr of l, r1 x, r3 y, r5 constants, r7 rounds left, r9 where the first round begins, r11 the state;
 * q0 h, q1 l, q2 q3 weights, q4 q5 bounds. Of the results: r4 end of the constants; q0 sums, q1 factors. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "bytes.h"
#include "dot_asm.h"

#define PIECES 8 /* of a round */
#define JOIN(h, l) "add " h ", " l ", " h ", lsl #8\n"

typedef struct {
    const int8_t *x;      /* r1 */
    const int32_t *end;   /* r4 */
    int32_t loops, entry; /* r7 r9 */
    int32_t low, high;    /* 16 */
} state;
PILLION_FIELDS_AT(state, 0, x, end, loops, entry, low, high);

static __attribute__((noinline)) void fours(state *s, int16_t *y, const int32_t *constants) {
    register void *r0 __asm__("r0") = s;
    register void *r3 __asm__("r3") = y;
    register const int32_t *r5 __asm__("r5") = constants;
    __asm__ volatile(
        "push {r7, r11}\n"
        "mov r11, r0\n"
        "ldrd r2, r4, [r11, #16]\n"
        "vdup.32 q4, r2\n"
        "vdup.32 q5, r4\n"
        "ldr r2, [r11, #12]\n" /* bytes of code to skip */
        "adr.w r0, 2f\n"
        "add r0, r2\n"
        "adds r0, #1\n"
        "str r0, [r11, #12]\n"
        "ldm r11, {r1, r4, r7, r9}\n"
        "1:\n" LOAD_BIAS
        "bx r9\n"
        ".p2align 2\n"
        "2:\n" PILLION_REPEAT("2b", PIECES, PIECE_BYTES, "vldrb.u8 q0, [r1], #16\n" "vldrb.u8 q1, [r1], #16\n" MULTIPLY("q0", "q1"))
        "subs r7, #1\n"
        "bne 2b\n" JOIN("r0", "r8") JOIN("r2", "r10") JOIN("r4", "r12") JOIN("r6", "lr")
        "vmov q0[2], q0[0], r0, r4\n"
        "vmov q0[3], q0[1], r2, r6\n"
        "vldrw.u32 q1, [r5], #16\n"
        "vqrdmulh.s32 q0, q0, q1\n"
        "vmax.s32 q0, q0, q4\n"
        "vmin.s32 q0, q0, q5\n"
        "vstrh.32 q0, [r3], #8\n"
        "ldm r11, {r1, r4, r7, r9}\n"
        "cmp r5, r4\n"
        "bne 1b\n"
        "pop {r7, r11}\n"
        : "+r"(r0), "+r"(r3), "+r"(r5)
        :
        : "r1", "r2", "r4", "r6", "r8", "r9", "r10", "r12", "lr", "q0", "q1", "q2", "q3", "q4", "q5", "cc", "memory");
}

/* At least one piece of 16 inputs. */
static void split(int8_t *to, const int16_t *x, int32_t pieces) {
    __asm__ volatile(
        "vmov.i8 q2, #128\n"
        "dls lr, %[pieces]\n"
        "1: vld20.8 {q0, q1}, [%[x]]\n"
        "vld21.8 {q0, q1}, [%[x]]!\n"
        "veor q0, q0, q2\n"
        "vstrb.8 q1, [%[to]], #16\n"
        "vstrb.8 q0, [%[to]], #16\n"
        "le lr, 1b\n"
        : [to] "+&r"(to), [x] "+&r"(x)
        : [pieces] "r"(pieces)
        : "lr", "q0", "q1", "q2", "memory");
}

void pillion_linear_split_s16_mve(const pillion_linear_split_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    const int32_t whole = p->out_features >> 2, rest = p->out_features & 3, loops = (p->chunks + PIECES - 1) / PIECES;
    const int32_t entry = (loops * PIECES - p->chunks) * PIECE_BYTES, words = 8 + 16 * p->chunks;
    const int32_t *const end = p->constants + whole * words;
    for (int32_t row = 0; row < p->rows; row++, x += p->in_features, y += p->out_features) {
        split(scratch, x, p->chunks);
        if (whole > 0) {
            state s = {scratch, end, loops, entry, p->low, p->high};
            fours(&s, y, p->constants);
        }
        if (rest > 0) { /* four outputs; surplus ones are dropped */
            int16_t last[4];
            state s = {scratch, end + words, loops, entry, p->low, p->high};
            fours(&s, last, end);
            pillion_mve_copy((int8_t *)(y + 4 * whole), (const int8_t *)last, 2 * rest);
        }
    }
}

#endif
