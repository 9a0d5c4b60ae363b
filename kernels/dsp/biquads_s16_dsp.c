/* SPDX-License-Identifier: Apache-2.0
 * Cascades of biquads in transposed form: two sums of 64 bits wait for what samples to come add to them, three change roles from
 * sample to sample. Registers: r0 samples, r2-r7 the sums, r1, r8-r12 and lr coefficients. */
#include "pillion/assembly.h"
#include "pillion/dsp.h"

#if PILLION_HAS_DSP
#define MOST_SAMPLES 48
#define MOVED 0
#include "pillion/biquads.h"

/* What earlier samples add to the next result and to the one behind it, then the remainders of the last two samples. */
typedef struct {
    int64_t next, second;
    int32_t last, before;
} waiting;
PILLION_AT(waiting, last, 16);

/* x comes into the lower half of the third sum; y and the remainder lie in the halves of the first one. */
#define SAMPLE(low, high, next_low, next_high, second_low, second_high) \
    "ldr " second_low ", [r0]\n"                                       \
    "smlal " low ", " high ", " second_low ", r1\n"                    \
    "smlal " next_low ", " next_high ", " second_low ", r8\n"          \
    "smull " second_low ", " second_high ", " second_low ", r9\n"      \
    "lsl " high ", " high ", #4\n"                                     \
    "orr " high ", " high ", " low ", lsr #28\n"                       \
    "bic " low ", " low ", #0xf0000000\n"                              \
    "str " high ", [r0], #4\n"                                         \
    "smlal " next_low ", " next_high ", " high ", r10\n"               \
    "smlal " next_low ", " next_high ", " low ", r12\n"                \
    "smlal " second_low ", " second_high ", " high ", r11\n"           \
    "smlal " second_low ", " second_high ", " low ", lr\n"

/* From samples to `end`, a multiple of three. */
PILLION_NAKED static void triples(PILLION_UNUSED int32_t *samples, PILLION_UNUSED const int32_t *end, PILLION_UNUSED const int32_t *c,
                                  PILLION_UNUSED waiting *sums) {
    __asm volatile("push {r1, r2, r3-r11, lr}\n" /* sp: the end, a remainder, the sums */
                   "mov r6, r2\n"
                   "ldm r3, {r2-r5}\n"
                   "ldm r6, {r1, r8-r12, lr}\n"
                   "1:\n" /* */
                   SAMPLE("r2", "r3", "r4", "r5", "r6", "r7")
                   SAMPLE("r4", "r5", "r6", "r7", "r2", "r3")
                   "str r4, [sp, #4]\n"
                   SAMPLE("r6", "r7", "r2", "r3", "r4", "r5")
                   "ldr r7, [sp]\n"
                   "cmp r0, r7\n"
                   "bne 1b\n"
                   "ldrd r7, r8, [sp, #4]\n"
                   "strd r6, r7, [r8, #16]\n"
                   "pop {r1, r2, r3-r11, pc}\n");
}

static pair section(const int32_t *c, int32_t *samples, int32_t count, pair *xs, pair ys, pair *remainders) {
    const int32_t whole = count / 3 * 3;
    if (whole) {
        const int32_t *const ends = samples + whole - 2;
        const pair inputs = {ends[1], ends[0]};
        const int64_t b1 = c[1], b2 = c[2], a1 = c[3], a2 = c[4], r1 = c[5], r2 = c[6];
        waiting sums = {b1 * xs->last + b2 * xs->before + a1 * ys.last + a2 * ys.before + r1 * remainders->last + r2 * remainders->before,
                        b2 * xs->last + a2 * ys.last + r2 * remainders->last, 0, 0};
        triples(samples, samples + whole, c, &sums);
        *xs = inputs;
        ys = (pair){ends[1], ends[0]};
        *remainders = (pair){sums.last, sums.before};
    }
    return plain_section(c, samples + whole, count - whole, xs, ys, remainders);
}

static void widen(const int16_t *x, int32_t count, int32_t fraction, int32_t *samples) {
    plain_widen(x, count, fraction, samples);
}

static void narrow(const int32_t *samples, int32_t count, int32_t fraction, int16_t *y) {
    plain_narrow(samples, count, fraction, y);
}

void pillion_biquads_s16_dsp(const pillion_biquads_s16_dsp_params *p, const int16_t *x, const int16_t *past, int16_t *y, void *scratch) {
    (void)scratch;
    all_signals(p, x, past, y);
}
#endif
