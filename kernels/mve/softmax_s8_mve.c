/* SPDX-License-Identifier: Apache-2.0
 * Softmax in the fixed point of portable/softmax_s8.c, four elements at a time, without a table: the exponentials of a
 * row are computed into scratch and added up, then divided. VQRDMULH is that arithmetic's product of two fractions, rounded
 * half up; numbers that are rounded after a shift are never negative. y may be x. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)

/* In Q0.31, in the order of use: 1/3, exp(-1/8), exp(-2^k) for k = -2 ... 4. */
static const int32_t numbers[9] = {715827883, 1895147668, 1672461947, 1302514674, 790015084,
                                   290630308, 39332535,   720401,     242};

static int32_t largest_of(const int8_t *x, int32_t count) {
    int32_t largest = -128;
    __asm__ volatile(
        "wlstp.8 lr, %2, 2f\n"
        "1: vldrb.u8 q0, [%1], #16\n"
        "vmaxv.s8 %0, q0\n"
        "letp lr, 1b\n"
        "2:\n"
        : "+&r"(largest), "+&r"(x)
        : "r"(count)
        : "lr", "q0", "cc", "memory");
    return largest;
}

/* e = exp(x - largest) in Q0.31, in whole vectors; returns their sum in Q12.
 *
 * q2 is the difference a in Q5.26, q1 at first b = a mod 1/4 - 1/4. A Taylor polynomial gives exp(b), from q1 = b + 1/8,
 * and one factor for each bit of q3 = b - a, a multiple of 1/4, the rest. The factors have to come in this order, lowest bit
 * first: the word is reversed (by a number of bits that is 32 or more: any such register will do). Differences that are out of
 * range saturate; their exponential is 0, as is that of all below -23. */
static uint32_t exponentials(const pillion_softmax_s8_mve_params *p, const int8_t *x, int32_t largest, int32_t *e) {
    const int32_t *next = numbers;
    int32_t left = p->count, number;
    uint32_t sum = 0;
    __asm__ volatile(
        "vdup.32 q6, %[largest]\n"
        "vdup.32 q7, %[multiplier]\n"
        "1:\n"
        "vldrb.s32 q0, [%[x]], #4\n"
        "ldr %[number], [%[next]], #4\n"
        "vsub.i32 q0, q0, q6\n"
        "vqshl.s32 q0, %[shift]\n"
        "vqrdmulh.s32 q2, q0, q7\n"
        "vmov q1, q2\n"
        "vorr.i32 q1, #0xff000000\n"
        "vsub.i32 q3, q1, q2\n"
        "vshl.i32 q1, q1, #5\n"
        "vmov.i32 q5, #0x10000000\n"
        "vadd.i32 q1, q1, q5\n"
        "vqrdmulh.s32 q4, q1, q1\n" /* x^2 */
        "vqrdmulh.s32 q5, q4, q1\n" /* x^3 */
        "vqrdmulh.s32 q0, q4, q4\n" /* x^4 */
        "vrshr.s32 q0, q0, #2\n"
        "vadd.i32 q0, q0, q5\n"
        "vqrdmulh.s32 q0, q0, %[number]\n"
        "ldr %[number], [%[next]], #4\n"
        "vadd.i32 q0, q0, q4\n"
        "vrshr.s32 q0, q0, #1\n"
        "vadd.i32 q1, q1, q0\n"
        "vqrdmulh.s32 q1, q1, %[number]\n"
        "vadd.i32 q1, q1, %[number]\n"
        "vbrsr.32 q3, q3, %[number]\n"
        "vshl.i32 q3, q3, #24\n"
        "mov %[number], #7\n"
        "dls lr, %[number]\n"
        "2:\n"
        "ldr %[number], [%[next]], #4\n"
        "vpt.s32 lt, q3, zr\n"
        "vqrdmulht.s32 q1, q1, %[number]\n"
        "vshl.i32 q3, q3, #1\n"
        "le lr, 2b\n"
        "sub %[next], #36\n"
        "vpt.i32 eq, q2, zr\n"
        "vmvnt.i32 q1, #0x80000000\n"
        "vstrw.32 q1, [%[e]], #16\n"
        "vrshr.s32 q1, q1, #12\n"
        "vctp.32 %[left]\n"
        "vpst\n"
        "vaddvat.u32 %[sum], q1\n"
        "subs %[left], #4\n"
        "bgt 1b\n"
        : [x] "+&l"(x), [e] "+&r"(e), [left] "+&r"(left), [sum] "+&Te"(sum), [next] "+&r"(next),
          [number] "=&r"(number)
        : [largest] "r"(largest), [multiplier] "r"(p->multiplier), [shift] "r"(p->shift)
        : "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "cc", "memory");
    return sum;
}

/* y = e / sum in steps of 2^(places - 43), or of that over the factor in Q0.31 if it is not 0, less 128. q1 becomes 1 / (1 + a) in Q0.31, 1 + a being the sum without its exponent:
 * Newton's method, from 48/17 - 32/17 * half the denominator. */
static void divide(const pillion_softmax_s8_mve_params *p, const int32_t *e, uint32_t sum, int8_t *y) {
    const int32_t zeros = __builtin_clz(sum);
    __asm__ volatile(
        "vdup.32 q0, %[half_denominator]\n"
        "vmov.i32 q3, #0x20000000\n"
        "vqrdmulh.s32 q1, q0, %[minus_32_17]\n"
        "vadd.i32 q1, q1, %[plus_48_17]\n"
        "mov lr, #3\n"
        "dls lr, lr\n"
        "1:\n"
        "vqrdmulh.s32 q2, q1, q0\n"
        "vsub.i32 q2, q3, q2\n"
        "vqrdmulh.s32 q2, q2, q1\n"
        "vshl.i32 q2, q2, #2\n"
        "vadd.i32 q1, q1, q2\n"
        "le lr, 1b\n"
        "vqshl.s32 q1, q1, #1\n"
        "cbz %[factor], 2f\n"
        "vqrdmulh.s32 q1, q1, %[factor]\n"
        "2:\n"
        "vmov.i32 q3, #128\n"
        "dlstp.32 lr, %[count]\n"
        "3:\n"
        "vldrw.u32 q0, [%[e]], #16\n"
        "vqrdmulh.s32 q0, q0, q1\n"
        "vrshl.s32 q0, %[shift]\n"
        "vsub.i32 q0, q0, q3\n"
        "vqmovnb.s32 q0, q0\n"
        "vqmovnb.s16 q0, q0\n"
        "vstrb.32 q0, [%[y]], #4\n"
        "letp lr, 3b\n"
        : [e] "+&r"(e), [y] "+&l"(y)
        : [half_denominator] "r"(sum << zeros >> 1), [minus_32_17] "r"(-1010580540), [plus_48_17] "r"(1515870810),
          [count] "r"(p->count), [shift] "r"(zeros - p->places), [factor] "l"(p->factor)
        : "lr", "q0", "q1", "q2", "q3", "cc", "memory");
}

void pillion_softmax_s8_mve(const pillion_softmax_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    int32_t *const e = scratch;
    for (int32_t n = 0; n < p->rows; n++, x += p->count, y += p->count) {
        const uint32_t sum = exponentials(p, x, largest_of(x, p->count), e);
        divide(p, e, sum, y);
    }
}

#endif
