/* SPDX-License-Identifier: Apache-2.0
 * Softmax of 16 bits, four elements at a time: two gathers from a table, and between them a line. y may be x. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "pillion/softmax16.h"

static int32_t largest_of(const int16_t *x, int32_t count) {
    int32_t largest = INT16_MIN;
    __asm__ volatile(
        "wlstp.16 lr, %[count], 2f\n"
        "1: vldrh.u16 q0, [%[x]], #16\n"
        "vmaxv.s16 %[largest], q0\n"
        "letp lr, 1b\n"
        "2:\n"
        : [largest] "+&r"(largest), [x] "+&l"(x)
        : [count] "r"(count)
        : "lr", "q0", "cc", "memory");
    return largest;
}

/* y = exp(x - largest) in Q15; returns their sum. A right shift rounds half away from zero: negative numbers are one less before it. */
static int32_t exponentials(const pillion_softmax_s16_mve_params *p, const int16_t *x, int32_t largest, int16_t *y) {
    int32_t sum = 0;
    const int32_t left = p->shift > 0 ? p->shift : 0;
    __asm__ volatile(
        "vdup.32 q4, %[largest]\n"
        "vdup.32 q5, %[levels]\n"
        "vmov.i32 q6, #127\n"
        "vmov.i32 q7, #0\n"
        "wlstp.32 lr, %[count], 2f\n"
        "1: vldrh.s32 q0, [%[x]], #8\n"
        "vsub.i32 q0, q0, q4\n"
        "vshl.s32 q0, %[left]\n"
        "vqrdmulh.s32 q0, q0, %[multiplier]\n"
        "vqdmlah.s32 q0, q0, %[rounds]\n"
        "vrshl.s32 q0, %[right]\n"
        "vadd.i32 q0, q0, q5\n"
        "vmax.s32 q0, q0, q7\n"
        "vshr.u32 q1, q0, #7\n"
        "vand q0, q0, q6\n"
        "vldrh.s32 q2, [%[table], q1, uxtw #1]\n"
        "vldrh.s32 q3, [%[next], q1, uxtw #1]\n"
        "vsub.i32 q3, q3, q2\n"
        "vmul.i32 q3, q3, q0\n"
        "vrshr.s32 q3, q3, #7\n"
        "vadd.i32 q2, q2, q3\n"
        "vstrh.32 q2, [%[y]], #8\n"
        "vaddva.u32 %[sum], q2\n"
        "letp lr, 1b\n"
        "2:\n"
        : [x] "+&l"(x), [y] "+&l"(y), [sum] "+&Te"(sum)
        : [largest] "r"(largest), [levels] "r"(65535), [count] "r"(p->count), [left] "r"(left), [right] "r"(p->shift - left),
          [multiplier] "r"(p->multiplier), [rounds] "r"(p->shift < 0 ? 1 : 0), [table] "r"(p->exponentials),
          [next] "r"(p->exponentials + 1)
        : "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "cc", "memory");
    return sum;
}

static void shares(pillion_softmax_16_scale scale, int32_t count, int16_t *y) {
    __asm__ volatile(
        "wlstp.32 lr, %[count], 2f\n"
        "1: vldrh.u32 q0, [%[y]]\n"
        "vmul.i32 q0, q0, %[inverse]\n"
        "vrshl.s32 q0, %[right]\n"
        "vqmovnb.s32 q0, q0\n"
        "vstrh.32 q0, [%[y]], #8\n"
        "letp lr, 1b\n"
        "2:\n"
        : [y] "+&l"(y)
        : [inverse] "r"(scale.inverse), [right] "r"(-scale.right), [count] "r"(count)
        : "lr", "q0", "cc", "memory");
}

void pillion_softmax_s16_mve(const pillion_softmax_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    for (int32_t n = 0; n < p->rows; n++, x += p->count, y += p->count) {
        const int32_t sum = exponentials(p, x, largest_of(x, p->count), y);
        shares(pillion_softmax_16_scale_of(p, sum), p->count, y);
    }
}

#endif
