/* SPDX-License-Identifier: Apache-2.0
 * Logarithms of mel spectra, four numbers at a time. Twiddles are 2^15 times as large as elsewhere: VQDMULH is then their
 * product / 2^16.
 * Registers of a stage: r0 its state, r1 r2 r3 r4 the four numbers of a butterfly, r5 r6 r8 r9 its results, lr rounds. Of the first
 * stage: r5 all results, r10 twiddles, r12 distances of results. Of a middle one: r7 twiddles, r10 r11 one of them, r12 groups. Of the
 * last one: r12 from real parts to imaginary ones, r10 the latter. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

#define PILLION_LOW(x, w) ((int32_t)(((int64_t)(x) * (int16_t)(w)) >> 16))
#define PILLION_HIGH(x, w) ((int32_t)(((int64_t)(x) * ((w) >> 16)) >> 16))
#define PILLION_ADD_HIGH(sum, x, w) ((sum) + PILLION_HIGH(x, w))
#define PILLION_SQUARES(re, im) ((uint32_t)((((int64_t)(re) * (re)) + INT64_C(0x80000000)) >> 32))
#include "pillion/log_mel.h"

typedef struct {
    int32x4_t re, im;
} pair;

/* Of a spectrum, real parts and imaginary parts are rows of their own, `row` words apart. Before the last stage of the FFT, four real
 * parts lie in front of their imaginary parts. */
static inline pair load_pair(const int32_t *x, int32_t row) {
    const pair made = {vld1q_s32(x), vld1q_s32(x + row)};
    return made;
}

static inline void store_pair(int32_t *y, int32_t row, pair x) {
    vst1q_s32(y, x.re);
    vst1q_s32(y + row, x.im);
}

static inline uint32_t any_of(uint32x4_t x) {
    return vgetq_lane_u32(x, 0) | vgetq_lane_u32(x, 1) | vgetq_lane_u32(x, 2) | vgetq_lane_u32(x, 3);
}

static inline uint32x4_t see(uint32x4_t seen, int32x4_t x) {
    const uint32x4_t bits = vreinterpretq_u32_s32(x);
    return vorrq_u32(seen, veorq_u32(bits, vshlq_n_u32(bits, 1)));
}

static int32_t frame_headroom(const int16_t *x, int32_t count) {
    uint32x4_t seen = vdupq_n_u32(0);
    __asm__ volatile(
        "wlstp.16 lr, %[count], 2f\n"
        "1: vldrh.u16 q0, [%[x]], #16\n"
        "vshl.i16 q1, q0, #1\n"
        "veor q0, q0, q1\n"
        "vorr %q[seen], %q[seen], q0\n"
        "letp lr, 1b\n"
        "2:\n"
        : [x] "+&r"(x), [seen] "+&w"(seen)
        : [count] "r"(count)
        : "lr", "q0", "q1", "cc", "memory");
    return pillion_headroom_of_pairs(any_of(seen) & 0xFFFEFFFE);
}

/* Even samples are real parts, odd ones imaginary parts. */
static inline void window_eight(int16x8_t samples, int16x8_t weights, int32_t up, int32_t *y) {
    vst1q_s32(y, vshlq_r_s32(vmullbq_int_s16(samples, weights), up));
    vst1q_s32(y + 4, vshlq_r_s32(vmulltq_int_s16(samples, weights), up));
}

static void window(const int16_t *w, int32_t count, int32_t points, const int16_t *x, int32_t up, int32_t *y) {
    const int32_t rest = count % 8;
    int32_t *const behind = y + points;
    for (int32_t left = count / 8; left > 0; left--, x += 8, w += 8, y += 8) {
        window_eight(vld1q_s16(x), vld1q_s16(w), up, y);
    }
    if (rest) {
        const mve_pred16_t inside = vctp16q((uint32_t)rest);
        window_eight(vldrhq_z_s16(x, inside), vldrhq_z_s16(w, inside), up, y);
        y += 8;
    }
    for (; y < behind; y += 4) {
        vst1q_s32(y, vdupq_n_s32(0));
    }
}

/* The fields that the assembly of a stage loads, in this order, and some of the words behind them. */
typedef struct {
    const int32_t *a, *b, *c, *d;
    int32_t *y0, *y1, *y2, *y3;
    const int32_t *twiddles;
    int32_t groups, rounds, skip;
} stage_state;

#define LOAD_STATE "ldm r0, {r1-r6, r8-r9}\n"
#define CLOBBERS \
    "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "cc", "memory"

/* Of a butterfly of a, b, c and d: q0, q2 = a - c, a + c; q1, q4 = b - d, b + d. Then the same of the imaginary parts, with d - b. */
#define REAL_PARTS              \
    "vldrw.u32 q0, [r1], #16\n" \
    "vldrw.u32 q1, [r3], #16\n" \
    "vadd.i32 q2, q0, q1\n"     \
    "vsub.i32 q0, q0, q1\n"     \
    "vldrw.u32 q1, [r2], #16\n" \
    "vldrw.u32 q3, [r4], #16\n" \
    "vadd.i32 q4, q1, q3\n"     \
    "vsub.i32 q1, q1, q3\n"     \
    "vadd.i32 q3, q2, q4\n"     \
    "vshr.s32 q3, q3, #2\n"     \
    "vsub.i32 q2, q2, q4\n"

#define IMAGINARY_PARTS         \
    "vldrw.u32 q3, [r1], #16\n" \
    "vldrw.u32 q4, [r3], #16\n" \
    "vadd.i32 q5, q3, q4\n"     \
    "vsub.i32 q3, q3, q4\n"     \
    "vldrw.u32 q4, [r2], #16\n" \
    "vldrw.u32 q6, [r4], #16\n" \
    "vadd.i32 q7, q4, q6\n"     \
    "vsub.i32 q4, q6, q4\n"     \
    "vadd.i32 q6, q5, q7\n"     \
    "vshr.s32 q6, q6, #2\n"     \
    "vsub.i32 q5, q5, q7\n"

/* The second result in q6 and q7, the fourth one in q0 and q3; the third one is in q2 and q5. */
#define SECOND_AND_FOURTH   \
    "vsub.i32 q6, q0, q4\n" \
    "vadd.i32 q0, q0, q4\n" \
    "vsub.i32 q7, q3, q1\n" \
    "vadd.i32 q3, q3, q1\n"

/* Four numbers times twiddles: with cosine and sine from `at` on, to q5 and q1. Needs q6. */
#define TURN_BY_FOUR(re, im, at)        \
    "vldrw.u32 q1, [r10, #" at "]\n"    \
    "vqdmulh.s32 q5, " re ", q1\n"      \
    "vqdmulh.s32 q1, " im ", q1\n"      \
    "vldrw.u32 q6, [r10, #" at "+16]\n" \
    "vqdmulh.s32 " re ", " re ", q6\n"  \
    "vqdmulh.s32 " im ", " im ", q6\n"  \
    "vadd.i32 q5, q5, " im "\n"         \
    "vsub.i32 q1, q1, " re "\n"

#define SCATTER(re, im)                    \
    "vstrw.32 " re ", [r5, q7, uxtw #2]\n" \
    "add r5, #16\n"                        \
    "vstrw.32 " im ", [r5, q7, uxtw #2]\n"

/* Each number of a vector has twiddles of its own, and its four results are adjacent: the results of one vector lie eight words apart.
 * There are too few registers, so one vector waits in memory: r12 points at the distances, and at its place behind them. */
static __attribute__((noinline)) void first_stage(const stage_state *s, int32_t *apart_and_waiting) {
    register const stage_state *r0 __asm__("r0") = s;
    register int32_t *memory __asm__("r12") = apart_and_waiting;
    __asm__ volatile(
        LOAD_STATE
        "ldrd r10, lr, [r0, #32]\n"
        "dls lr, lr\n"
        "1:\n" REAL_PARTS
        "vldrw.u32 q4, [r1], #16\n"
        "vldrw.u32 q5, [r3], #16\n"
        "vadd.i32 q6, q4, q5\n"
        "vsub.i32 q4, q4, q5\n"
        "vldrw.u32 q5, [r2], #16\n"
        "vldrw.u32 q7, [r4], #16\n"
        "vsub.i32 q7, q7, q5\n"
        "vadd.i32 q5, q5, q5\n"
        "vadd.i32 q5, q5, q7\n"
        "vsub.i32 q6, q6, q5\n"
        "vadd.i32 q5, q5, q5\n"
        "vadd.i32 q5, q5, q6\n"
        "vshr.s32 q5, q5, #2\n"
        "vstrw.32 q7, [r12, #16]\n"
        "vldrw.u32 q7, [r12]\n" SCATTER("q3", "q5")
        "sub r5, #8\n"
        "vldrw.u32 q3, [r10, #32]\n"
        "vqdmulh.s32 q5, q2, q3\n"
        "vqdmulh.s32 q3, q6, q3\n"
        "vldrw.u32 q7, [r10, #48]\n"
        "vqdmulh.s32 q2, q2, q7\n"
        "vqdmulh.s32 q6, q6, q7\n"
        "vadd.i32 q5, q5, q6\n"
        "vsub.i32 q3, q3, q2\n"
        "vldrw.u32 q7, [r12]\n" SCATTER("q5", "q3")
        "sub r5, #20\n"
        "vldrw.u32 q7, [r12, #16]\n"
        "vsub.i32 q2, q0, q7\n"
        "vadd.i32 q0, q0, q7\n"
        "vsub.i32 q3, q4, q1\n"
        "vadd.i32 q4, q4, q1\n"
        "vldrw.u32 q7, [r12]\n" TURN_BY_FOUR("q2", "q3", "0") SCATTER("q5", "q1")
        "sub r5, #8\n" TURN_BY_FOUR("q0", "q4", "64") SCATTER("q5", "q1")
        "add r5, #100\n"
        "add r10, #96\n"
        "le lr, 1b\n"
        : "+r"(r0), "+r"(memory)
        :
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "cc", "memory");
}

/* A result times the twiddles of its group, stored. */
#define TURN_AND_STORE(re, im, at, y) \
    "ldrd r10, r11, [r7, #" at "]\n"  \
    "vqdmulh.s32 q1, " re ", r10\n"   \
    "vqdmulh.s32 q4, " im ", r11\n"   \
    "vadd.i32 q1, q1, q4\n"           \
    "vstrw.32 q1, [" y "], #16\n"     \
    "vqdmulh.s32 q1, " im ", r10\n"   \
    "vqdmulh.s32 q4, " re ", r11\n"   \
    "vsub.i32 q1, q1, q4\n"           \
    "vstrw.32 q1, [" y "], #16\n"

/* Groups of rounds with the same twiddles. */
static __attribute__((noinline)) void middle_stage(const stage_state *s) {
    register const stage_state *r0 __asm__("r0") = s;
    __asm__ volatile(
        "push {r7, r11}\n" LOAD_STATE
        "ldrd r7, r12, [r0, #32]\n"
        "0: ldr lr, [r0, #40]\n"
        "dls lr, lr\n"
        "1:\n" REAL_PARTS "vstrw.32 q3, [r5], #16\n" IMAGINARY_PARTS "vstrw.32 q6, [r5], #16\n" SECOND_AND_FOURTH
        TURN_AND_STORE("q6", "q7", "0", "r6") TURN_AND_STORE("q2", "q5", "8", "r8") TURN_AND_STORE("q0", "q3", "16", "r9")
        "le lr, 1b\n"
        "ldr r10, [r0, #44]\n"
        "add r5, r10\n"
        "add r6, r10\n"
        "add r8, r10\n"
        "add r9, r10\n"
        "add r7, #24\n"
        "subs r12, #1\n"
        "bne.w 0b\n"
        "pop {r7, r11}\n"
        : "+r"(r0)
        :
        : CLOBBERS);
}

/* A result to both rows of the spectrum, `r12` bytes apart. */
#define STORE_BOTH(re, im, y)         \
    "add r10, " y ", r12\n"           \
    "vstrw.32 " re ", [" y "], #16\n" \
    "vstrw.32 " im ", [r10]\n"

#define SHIFT_AND_STORE(re, im, y)  \
    "vshr.s32 " re ", " re ", #2\n" \
    "vshr.s32 " im ", " im ", #2\n" \
    STORE_BOTH(re, im, y)

/* Twiddles are 1. */
static __attribute__((noinline)) void last_stage(const stage_state *s) {
    register const stage_state *r0 __asm__("r0") = s;
    __asm__ volatile(
        LOAD_STATE
        "ldrd lr, r12, [r0, #40]\n"
        "dls lr, lr\n"
        "1:\n" REAL_PARTS "vstrw.32 q3, [r5]\n" IMAGINARY_PARTS
        "add r10, r5, r12\n"
        "vstrw.32 q6, [r10]\n"
        "add r5, #16\n" SECOND_AND_FOURTH
        SHIFT_AND_STORE("q6", "q7", "r6") SHIFT_AND_STORE("q2", "q5", "r8") SHIFT_AND_STORE("q0", "q3", "r9")
        "le lr, 1b\n"
        : "+r"(r0)
        :
        : CLOBBERS);
}

static const int32_t *stage(const pillion_complex *from, pillion_complex *to, int32_t points, int32_t stride,
                            const int32_t *twiddles) {
    const int32_t *x = &from->re;
    int32_t *y = &to->re;
    const int32_t row = points * stride, quarter = row / 2; /* words of both parts of a quarter */
    const int32_t step = points == 4 ? row / 4 : 2 * stride;
    stage_state s = {x, x + quarter, x + 2 * quarter, x + 3 * quarter, y, y + step, y + 2 * step, y + 3 * step, twiddles, 0, 0, 0};
    if (stride == 1) {
        int32_t apart_and_waiting[8] = {0, 8, 16, 24};
        s.groups = points / 16;
        first_stage(&s, apart_and_waiting);
        return twiddles + 6 * (points / 4);
    }
    s.rounds = stride / 4;
    if (points == 4) {
        s.skip = 4 * row;
        last_stage(&s);
        return twiddles + 6;
    }
    s.groups = points / 4;
    s.skip = 3 * 4 * step;
    middle_stage(&s);
    return twiddles + 6 * s.groups;
}

static void radix2_stage(const pillion_complex *from, pillion_complex *to, int32_t stride) {
    const int32_t *x = &from->re;
    int32_t *y = &to->re;
    const int32_t row = 2 * stride;
    for (int32_t left = stride; left > 0; left -= 4, x += 8, y += 4) {
        const pair a = load_pair(x, 4), b = load_pair(x + 2 * stride, 4);
        const pair sum = {vhaddq_s32(a.re, b.re), vhaddq_s32(a.im, b.im)}, less = {vhsubq_s32(a.re, b.re), vhsubq_s32(a.im, b.im)};
        store_pair(y, row, sum);
        store_pair(y + stride, row, less);
    }
}

static inline void scatter_pair(int32_t *y, int32_t row, uint32x4_t apart, pair x) {
    vstrwq_scatter_shifted_offset_s32(y, apart, x.re);
    vstrwq_scatter_shifted_offset_s32(y + row, apart, x.im);
}

/* The twiddle of the middle, where both halves meet, is 0; its number stays. */
static uint32_t split(pillion_complex *z, int32_t row, const int32_t *twiddles) {
    int32_t *re = &z->re, *im = re + row, *left = re + 1, *right = re + row - 4;
    const int32_t first = *re, last = *im, middle = im[row / 2];
    const uint32x4_t down = vddupq_n_u32(3, 1);
    uint32x4_t seen = vdupq_n_u32(0);
    for (; left < right; left += 4, right -= 4, twiddles += 8) {
        const pair a = load_pair(left, row);
        const pair b = {vldrwq_gather_shifted_offset_s32(right, down), vldrwq_gather_shifted_offset_s32(right + row, down)};
        const int32x4_t c = vld1q_s32(twiddles), s = vld1q_s32(twiddles + 4);
        const int32x4_t odd_re = vsubq_s32(a.re, b.re), odd_im = vaddq_s32(a.im, b.im);
        const int32x4_t turned_re = vsubq_s32(vqdmulhq_s32(odd_im, c), vqdmulhq_s32(odd_re, s));
        const int32x4_t turned_im = vaddq_s32(vqdmulhq_s32(odd_re, c), vqdmulhq_s32(odd_im, s));
        const int32x4_t even_re = vhaddq_s32(a.re, b.re), even_im = vhsubq_s32(a.im, b.im);
        const pair lower = {vaddq_s32(even_re, turned_re), vsubq_s32(even_im, turned_im)};
        const pair upper = {vsubq_s32(even_re, turned_re), vaddq_s32(even_im, turned_im)};
        store_pair(left, row, lower);
        scatter_pair(right, row, down, upper);
        seen = see(see(see(see(seen, lower.re), lower.im), upper.re), upper.im);
    }
    *re = first + last;
    *im = first - last;
    im[row / 2] = middle;
    return pillion_see(pillion_see(pillion_see(any_of(seen), *re), *im), middle);
}

static void power(const pillion_complex *z, int32_t row, int32_t more, uint32_t *y) {
    const int32_t *x = &z->re;
    const int32_t first = (int32_t)((uint32_t)x[0] << more), last = (int32_t)((uint32_t)x[row] << more);
    uint32_t *at = y;
    for (int32_t left = row; left > 0; left -= 4, x += 4, at += 4) {
        const int32x4_t re = vshlq_r_s32(vld1q_s32(x), more), im = vshlq_r_s32(vld1q_s32(x + row), more);
        vst1q_u32(at, vreinterpretq_u32_s32(vaddq_s32(vrmulhq_s32(re, re), vrmulhq_s32(im, im))));
    }
    y[0] = PILLION_SQUARES(first, 0);
    y[row] = PILLION_SQUARES(last, 0);
}

/* pillion_roots of four numbers; lanes beyond the last number compute with arbitrary bytes behind it. */
static void roots(uint32_t *x, int32_t count, const int32_t *table) {
    const uint32x4_t one = vdupq_n_u32(1);
    for (; count > 0; count -= 4, x += 4) {
        const mve_pred16_t inside = vctp32q((uint32_t)count);
        const uint32x4_t least = vmaxq_u32(vldrwq_z_u32(x, inside), one);
        const uint32x4_t zeros = vbicq_u32(vclzq_u32(least), one);
        const uint32x4_t mantissa = vshlq_u32(least, vreinterpretq_s32_u32(zeros));
        const uint32x4_t entry = vsubq_n_u32(vshrq_n_u32(mantissa, 24), 64);
        const int32x4_t part = vreinterpretq_s32_u32(vandq_u32(vshrq_n_u32(mantissa, 8), vdupq_n_u32(0xFFFF)));
        const int32x4_t from = vldrwq_gather_shifted_offset_s32(table, entry), to = vldrwq_gather_shifted_offset_s32(table + 1, entry);
        const int32x4_t root = vaddq_s32(from, vshrq_n_s32(vmulq_s32(vsubq_s32(to, from), part), 16));
        const int32x4_t down = vnegq_s32(vreinterpretq_s32_u32(vshrq_n_u32(zeros, 1)));
        vst1q_p_s32((int32_t *)x, vshlq_s32(root, down), inside);
    }
}

/* Four upper halves of products, shifted and rounded within the bounds of a result. */
static inline int32x4_t levels_of(const pillion_stft_params *p, int32x4_t scaled, int32_t right) {
    const int32x4_t moved = vqaddq_n_s32(vqrshlq_n_s32(scaled, -right), p->out_zp);
    return vminq_s32(vmaxq_s32(moved, vdupq_n_s32(p->low)), vdupq_n_s32(p->high));
}

static void levels(const pillion_stft_params *p, const uint32_t *x, int32_t count, int32_t right, void *y) {
    const uint32x4_t multiplier = vdupq_n_u32((uint32_t)p->multiplier);
    for (; count > 0; count -= 4, x += 4, y = (int8_t *)y + 4 * p->y_bytes) {
        const mve_pred16_t inside = vctp32q((uint32_t)count);
        const int32x4_t scaled = vreinterpretq_s32_u32(vrmulhq_u32(vldrwq_z_u32(x, inside), multiplier));
        const int32x4_t made = levels_of(p, scaled, right);
        if (p->y_bytes == 1) {
            vstrbq_p_s32(y, made, inside);
        } else {
            vstrhq_p_s32(y, made, inside);
        }
    }
}

/* Real parts lie in the lower halves of lanes, imaginary ones in the upper halves. */
static void pairs(const pillion_stft_params *p, const pillion_complex *z, int32_t row, int32_t more, int32_t right, void *y) {
    const int32_t *x = &z->re;
    const int32x4_t multiplier = vdupq_n_s32(p->multiplier);
    int32x4_t turned = multiplier;
    for (int32_t k = 0; k < row; k += 4) {
        turned = k == row / 2 ? vnegq_s32(multiplier) : turned;
        const int32x4_t re = levels_of(p, vrmulhq_s32(vshlq_r_s32(vld1q_s32(x + k), more), multiplier), right);
        const int32x4_t im = levels_of(p, vrmulhq_s32(vshlq_r_s32(vld1q_s32(x + row + k), more), turned), right);
        if (p->y_bytes == 1) {
            const int32x4_t bytes = vorrq_s32(vandq_s32(re, vdupq_n_s32(0xFF)), vshlq_n_s32(im, 8));
            vstrhq_s32((int16_t *)((int8_t *)y + 2 * k), bytes);
        } else {
            vst1q_s16((int16_t *)y + 2 * k, vmovntq_s32(vreinterpretq_s16_s32(re), im));
        }
    }
    pillion_put_ends(p, x[row], row, more, right, y);
}

/* sum + the products of powers and weights. */
static inline uint64_t weighted_sum(uint64_t sum, const uint32_t *x, const uint16_t *weights, int32_t count) {
    register uint32_t low __asm__("r2") = (uint32_t)sum;
    register uint32_t high __asm__("r3") = (uint32_t)(sum >> 32);
    __asm__ volatile(
        "wlstp.32 lr, %[count], 2f\n"
        "1: vldrw.u32 q0, [%[x]], #16\n"
        "vldrh.u32 q1, [%[weights]], #8\n"
        "vmlaldava.u32 %[low], %[high], q0, q1\n"
        "letp lr, 1b\n"
        "2:\n"
        : [x] "+&r"(x), [weights] "+&l"(weights), [low] "+&r"(low), [high] "+&r"(high)
        : [count] "r"(count)
        : "lr", "q0", "q1", "cc", "memory");
    return (uint64_t)high << 32 | low;
}

/* pillion_log2 of four numbers, none 0. Shifts beyond 31 bits leave nothing. */
static inline int32x4_t logarithms_of(uint32x4_t high, uint32x4_t low, const int32_t *table) {
    const int32x4_t zeros_high = vreinterpretq_s32_u32(vclzq_u32(high)), zeros_low = vreinterpretq_s32_u32(vclzq_u32(low));
    const int32x4_t zeros = vaddq_s32(zeros_high, vmulq_s32(vshrq_n_s32(zeros_high, 5), zeros_low));
    const uint32x4_t mantissa = vorrq_u32(vshlq_u32(high, zeros), vshlq_u32(low, vsubq_n_s32(zeros, 32)));
    const uint32x4_t entry = vandq_u32(vshrq_n_u32(mantissa, 26), vdupq_n_u32(31));
    const int32x4_t part = vreinterpretq_s32_u32(vandq_u32(vshrq_n_u32(mantissa, 10), vdupq_n_u32(0xFFFF)));
    const int32x4_t from = vldrwq_gather_shifted_offset_s32(table, entry), to = vldrwq_gather_shifted_offset_s32(table + 1, entry);
    const int32x4_t between = vshrq_n_s32(vmulq_s32(vsubq_s32(to, from), part), 16);
    return vaddq_s32(vaddq_s32(vshlq_n_s32(vsubq_s32(vdupq_n_s32(63), zeros), 16), from), between);
}

/* The upper halves of factor * x + constant: one less where the lower halves have no carry. */
static inline int32x4_t on_line(int32x4_t x, int32_t factor, int64_t constant) {
    const uint32_t low = (uint32_t)constant;
    const uint32x4_t lows = vaddq_n_u32(vreinterpretq_u32_s32(vmulq_n_s32(x, factor)), low);
    const int32x4_t carried = vaddq_n_s32(vmulhq_s32(x, vdupq_n_s32(factor)), (int32_t)(constant >> 32) + 1);
    return vsubq_m_n_s32(carried, carried, 1, vcmpcsq_n_u32(lows, low));
}

/* Four bands at a time. */
static void log_bands(const pillion_log_mel_params *p, const uint32_t *power, int32_t exponent, void *y) {
    const pillion_log_line line = pillion_log_line_of(p, exponent);
    const int32x4_t low = vdupq_n_s32(p->low), high = vdupq_n_s32(p->high);
    const uint16_t *weights = p->weights;
    const int16_t *span = p->spans;
    uint32_t highs[4] = {0}, lows[4] = {1, 1, 1, 1};
    for (int32_t left = p->bands; left > 0; left -= 4) {
        for (int32_t band = 0; band < pillion_less(left, 4); band++, span += 2) {
            const uint64_t sum = weighted_sum(line.offset, power + span[0], weights, span[1]);
            const uint64_t kept = sum < line.floor ? line.floor : sum;
            weights += span[1];
            highs[band] = (uint32_t)(kept >> 32);
            lows[band] = (uint32_t)kept;
        }
        const int32x4_t found = logarithms_of(vld1q_u32(highs), vld1q_u32(lows), p->logarithms);
        const int32x4_t made = vminq_s32(vmaxq_s32(on_line(found, line.factor, line.constant), low), high);
        const mve_pred16_t inside = vctp32q((uint32_t)left);
        if (p->y_bytes == 1) {
            vstrbq_p_s32(y, made, inside);
        } else {
            vstrhq_p_s32(y, made, inside);
        }
        y = (int8_t *)y + 4 * p->y_bytes;
    }
}

#define PILLION_FRAME_HEADROOM frame_headroom
#define PILLION_WINDOW window
#define PILLION_STAGE stage
#define PILLION_RADIX2_STAGE radix2_stage
#define PILLION_SPLIT split
#define PILLION_POWER power
#define PILLION_ROOTS roots
#define PILLION_LEVELS levels
#define PILLION_PAIRS pairs
#define PILLION_LOG_BANDS log_bands
#include "pillion/log_mel_frames.h"

void pillion_log_mel_mve(const pillion_log_mel_mve_params *p, const int16_t *x, void *y, void *scratch) {
    pillion_log_mel_frames(p, x, y, scratch);
}

void pillion_stft_mve(const pillion_stft_mve_params *p, const int16_t *x, void *y, void *scratch) {
    pillion_stft_frames(p, x, y, scratch);
}
#endif
