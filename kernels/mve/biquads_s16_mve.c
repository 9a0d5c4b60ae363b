/* SPDX-License-Identifier: Apache-2.0
 * Cascades of biquads: a sum of 64 bits is of the last three samples, which lie side by side, and of the last two results with their
 * remainders, which move up in a vector. Results are written two places in front of their samples, which the next one still reads.
 * Registers: r2 and r3 the sum, q0 samples, q1 results and remainders, lr samples that are left. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

#define MOST_SAMPLES 96
#define MOVED 2
#include "pillion/biquads.h"

#define SAMPLE                                   \
    "vldrw.u32 q0, [%[x]], #4\n"                 \
    "vmlaldav.s32 %[low], %[high], q0, %q[b]\n"  \
    "vmlaldava.s32 %[low], %[high], q1, %q[a]\n" \
    "bic %[rest], %[low], #0xf0000000\n"         \
    "asrl %[low], %[high], #28\n"                \
    "str %[low], [%[x], #-4]\n"                 \
    "vshlc q1, %[rest], #32\n"                   \
    "vshlc q1, %[low], #32\n"

static pair section(const int32_t *c, int32_t *samples, int32_t count, pair *xs, pair ys, pair *remainders) {
    const int32_t bs[4] = {c[2], c[1], c[0], 0}, as[4] = {c[3], c[5], c[4], c[6]};
    int32_t held[4] = {ys.last, remainders->last, ys.before, remainders->before};
    const int32x4_t b = vldrwq_s32(bs), a = vldrwq_s32(as);
    int32_t *x = samples - 2, rest;
    register int32_t low __asm__("r2");
    register int32_t high __asm__("r3");
    x[0] = xs->before;
    x[1] = xs->last;
    __asm__ volatile(
        "vldrw.u32 q1, [%[held]]\n"
        "wls lr, %[fours], 2f\n"
        "1:\n" SAMPLE SAMPLE SAMPLE SAMPLE
        "le lr, 1b\n"
        "2: wls lr, %[others], 4f\n"
        "3:\n" SAMPLE
        "le lr, 3b\n"
        "4: vstrw.32 q1, [%[held]]\n"
        : [x] "+&r"(x), [low] "=&r"(low), [high] "=&r"(high), [rest] "=&r"(rest)
        : [held] "r"(held), [fours] "r"(count / 4), [others] "r"(count % 4), [b] "w"(b), [a] "w"(a)
        : "lr", "q0", "q1", "cc", "memory");
    *xs = (pair){x[1], x[0]};
    *remainders = (pair){held[1], held[3]};
    return (pair){held[0], held[2]};
}

static void widen(const int16_t *x, int32_t count, int32_t fraction, int32_t *samples) {
    __asm__ volatile(
        "dlstp.32 lr, %[count]\n"
        "1: vldrh.s32 q0, [%[x]], #8\n"
        "vshl.s32 q0, %[fraction]\n"
        "vstrw.32 q0, [%[to]], #16\n"
        "letp lr, 1b\n"
        : [x] "+&l"(x), [to] "+&r"(samples)
        : [count] "r"(count), [fraction] "r"(fraction)
        : "lr", "q0", "cc", "memory");
}

static void narrow(const int32_t *samples, int32_t count, int32_t fraction, int16_t *y) {
    __asm__ volatile(
        "dlstp.32 lr, %[count]\n"
        "1: vldrw.u32 q0, [%[x]], #16\n"
        "vrshl.s32 q0, %[right]\n"
        "vqmovnb.s32 q0, q0\n"
        "vstrh.32 q0, [%[to]], #8\n"
        "letp lr, 1b\n"
        : [x] "+&r"(samples), [to] "+&l"(y)
        : [count] "r"(count), [right] "r"(-fraction)
        : "lr", "q0", "cc", "memory");
}

void pillion_biquads_s16_mve(const pillion_biquads_s16_mve_params *p, const int16_t *x, const int16_t *past, int16_t *y, void *scratch) {
    (void)scratch;
    all_signals(p, x, past, y);
}
#endif
