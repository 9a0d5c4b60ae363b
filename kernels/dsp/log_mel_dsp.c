/* SPDX-License-Identifier: Apache-2.0
 * Spectra, and logarithms of mel spectra: twiddles multiply words by halfwords.
 *
 * Registers of a butterfly: r0 x, r1 y, r2 the bytes between operands, r3 those between results, r4 twiddles; operands a in r5 r6,
 * b in r7 r8, c in r9 r10, d in r11 r12. Of their sums and differences the first result lies in r8 r6; the others, before their
 * twiddles, in r6 r7, lr r5 and r9 r10, and after them in r11 r12. */
#include "dot.h"

#if PILLION_HAS_DSP

static inline int32_t low_product(int32_t x, int32_t w) {
    int32_t made;
    __asm("smulwb %0, %1, %2" : "=r"(made) : "r"(x), "r"(w));
    return made;
}

static inline int32_t high_product(int32_t x, int32_t w) {
    int32_t made;
    __asm("smulwt %0, %1, %2" : "=r"(made) : "r"(x), "r"(w));
    return made;
}

static inline int32_t add_high_product(int32_t sum, int32_t x, int32_t w) {
    int32_t made;
    __asm("smlawt %0, %1, %2, %3" : "=r"(made) : "r"(x), "r"(w), "r"(sum));
    return made;
}

static inline uint32_t squares(int32_t re, int32_t im) {
    uint32_t made;
    __asm("smmulr %0, %1, %1\n\tsmmlar %0, %2, %2, %0" : "=&r"(made) : "r"(re), "r"(im));
    return made;
}

#define PILLION_LOW low_product
#define PILLION_HIGH high_product
#define PILLION_ADD_HIGH add_high_product
#define PILLION_SQUARES squares
#include "pillion/log_mel.h"

static inline uint32_t next_pair(const int16_t **x) {
    uint32_t pair;
    __asm volatile("ldr %0, [%1], #4" : "=r"(pair), "+r"(*x) : : "memory");
    return pair;
}

static __attribute__((noinline)) int32_t frame_headroom(const int16_t *x, int32_t count) {
    uint32_t seen = 0;
    int32_t left = count;
    for (; left >= 8; left -= 8) {
        for (int32_t i = 0; i < 4; i++) {
            const uint32_t pair = next_pair(&x);
            seen |= (pair ^ pair << 1) & 0xFFFEFFFE;
        }
    }
    for (; left > 0; left--, x++) {
        seen |= ((uint32_t)*x ^ (uint32_t)*x << 1) & 0xFFFE;
    }
    return pillion_headroom_of_pairs(seen);
}

static __attribute__((noinline)) void window(const int16_t *w, int32_t count, int32_t points, const int16_t *x, int32_t up, int32_t *y) {
    int32_t *const behind = y + points;
    int32_t left = count;
    for (; left >= 4; left -= 4) {
        for (int32_t i = 0; i < 2; i++) {
            int32_t even, odd;
            __asm volatile(
                "ldr %[odd], [%[x]], #4\n\t"
                "ldr r12, [%[w]], #4\n\t"
                "smulbb %[even], %[odd], r12\n\t"
                "smultt %[odd], %[odd], r12\n\t"
                "lsl %[even], %[even], %[up]\n\t"
                "lsl %[odd], %[odd], %[up]\n\t"
                "strd %[even], %[odd], [%[y]], #8\n\t"
                : [x] "+&r"(x), [w] "+&r"(w), [y] "+&r"(y), [even] "=&r"(even), [odd] "=&r"(odd)
                : [up] "r"(up)
                : "r12", "memory");
        }
    }
    for (; left > 0; left--) {
        *y++ = (int32_t)((uint32_t)(*x++ * *w++) << up);
    }
    while (y < behind) {
        *y++ = 0;
    }
}

#define BUTTERFLY(store)                      \
    "ldrd r5, r6, [r0]\n\tadd r0, r0, r2\n\t" \
    "ldrd r7, r8, [r0]\n\tadd r0, r0, r2\n\t" \
    "ldrd r9, r10, [r0]\n\tadd r0, r0, r2\n\t" \
    "ldrd r11, r12, [r0], #8\n\t"             \
    "sub r0, r0, r2, lsl #2\n\t"              \
    "add r0, r0, r2\n\t"                      \
    "add lr, r5, r9\n\tsub r9, r5, r9\n\t"    \
    "add r5, r6, r10\n\tsub r10, r6, r10\n\t" \
    "add r6, r7, r11\n\tsub r11, r7, r11\n\t" \
    "add r7, r8, r12\n\tsub r12, r8, r12\n\t" \
    "add r8, lr, r6\n\tasr r8, r8, #2\n\tsub lr, lr, r6\n\t" \
    "add r6, r5, r7\n\tasr r6, r6, #2\n\tsub r5, r5, r7\n\t" \
    store                                     \
    "add r6, r9, r12\n\tsub r9, r9, r12\n\t"  \
    "sub r7, r10, r11\n\tadd r10, r10, r11\n\t"
#define TURN(w, re, im)               \
    w                                 \
    "smulwb r11, " re ", r8\n\t"      \
    "smlawt r11, " im ", r8, r11\n\t" \
    "smulwt r12, " re ", r8\n\t"      \
    "smulwb " re ", " im ", r8\n\t"   \
    "sub r12, " re ", r12\n\t"
#define QUARTERS(re, im) "asr r11, " re ", #2\n\tasr r12, " im ", #2\n\t"
#define FAR "[r1]\n\tadd r1, r1, r3\n\t"
#define BACK "[r1], #8\n\tsub r1, r1, r3, lsl #1\n\tsub r1, r1, r3\n\t"
/* Compilers may hold a frame pointer in r7 or r11, and then do not save them for the text. */
#define SAVE "push {r7, r11}\n\t"
#define RESTORE "pop {r7, r11}\n\t"
#define CLOBBERED "r5", "r6", "r8", "r9", "r10", "r12", "lr", "cc", "memory"

/* Results lie side by side; each round has twiddles of its own. */
static const int32_t *first_stage(const pillion_complex *from, pillion_complex *to, int32_t quarter,
                                  const int32_t *twiddles) {
    register const pillion_complex *x __asm__("r0") = from;
    register pillion_complex *y __asm__("r1") = to;
    register int32_t step __asm__("r2") = quarter * 8;
    register const pillion_complex *end __asm__("r3") = from + quarter;
    register const int32_t *w __asm__("r4") = twiddles;
    __asm volatile(
        SAVE "1:\n\t" BUTTERFLY("strd r8, r6, [r1], #8\n\t")
        TURN("ldr r8, [r4], #4\n\t", "r6", "r7") "strd r11, r12, [r1], #8\n\t"
        TURN("ldr r8, [r4], #4\n\t", "lr", "r5") "strd r11, r12, [r1], #8\n\t"
        TURN("ldr r8, [r4], #4\n\t", "r9", "r10") "strd r11, r12, [r1], #8\n\t"
        "cmp r0, r3\n\tbne 1b\n\t" RESTORE
        : "+&r"(x), "+&r"(y), "+&r"(w)
        : "r"(step), "r"(end)
        : CLOBBERED);
    return w;
}

/* Twiddles are 1. */
static void last_stage(const pillion_complex *from, pillion_complex *to, int32_t quarter) {
    register const pillion_complex *x __asm__("r0") = from;
    register pillion_complex *y __asm__("r1") = to;
    register int32_t step __asm__("r2") = quarter * 8;
    register int32_t apart __asm__("r3") = quarter * 8;
    register const pillion_complex *end __asm__("r4") = from + quarter;
    __asm volatile(
        SAVE "1:\n\t" BUTTERFLY("strd r8, r6, " FAR)
        QUARTERS("r6", "r7") "strd r11, r12, " FAR
        QUARTERS("lr", "r5") "strd r11, r12, " FAR
        QUARTERS("r9", "r10") "strd r11, r12, " BACK
        "cmp r0, r4\n\tbne 1b\n\t" RESTORE
        : "+&r"(x), "+&r"(y)
        : "r"(step), "r"(apart), "r"(end)
        : CLOBBERED);
}

/* `stride` rounds with the same twiddles. */
static void rounds(const pillion_complex *from, pillion_complex *to, int32_t quarter, int32_t stride,
                   const int32_t *twiddles) {
    const uintptr_t constants[4] = {(uint32_t)twiddles[0], (uint32_t)twiddles[1], (uint32_t)twiddles[2],
                                    (uintptr_t)(from + stride)};
    register const pillion_complex *x __asm__("r0") = from;
    register pillion_complex *y __asm__("r1") = to;
    register int32_t step __asm__("r2") = quarter * 8;
    register int32_t apart __asm__("r3") = stride * 8;
    register const uintptr_t *w __asm__("r4") = constants;
    __asm volatile(
        SAVE "1:\n\t" BUTTERFLY("strd r8, r6, " FAR)
        TURN("ldr r8, [r4]\n\t", "r6", "r7") "strd r11, r12, " FAR
        TURN("ldr r8, [r4, #4]\n\t", "lr", "r5") "strd r11, r12, " FAR
        TURN("ldr r8, [r4, #8]\n\t", "r9", "r10") "strd r11, r12, " BACK
        "ldr lr, [r4, #12]\n\tcmp r0, lr\n\tbne 1b\n\t" RESTORE
        : "+&r"(x), "+&r"(y)
        : "r"(step), "r"(apart), "r"(w)
        : CLOBBERED);
}

static const int32_t *stage(const pillion_complex *x, pillion_complex *y, int32_t points, int32_t stride,
                            const int32_t *twiddles) {
    const int32_t groups = points / 4, quarter = groups * stride;
    if (stride == 1) {
        return first_stage(x, y, quarter, twiddles);
    }
    if (groups == 1) {
        last_stage(x, y, quarter);
        return twiddles + 3;
    }
    for (int32_t p = 0; p < groups; p++, twiddles += 3, x += stride, y += 4 * stride) {
        rounds(x, y, quarter, stride, twiddles);
    }
    return twiddles;
}

#define PILLION_FRAME_HEADROOM frame_headroom
#define PILLION_WINDOW window
#define PILLION_STAGE stage
#include "pillion/log_mel_frames.h"

void pillion_log_mel_dsp(const pillion_log_mel_dsp_params *p, const int16_t *x, void *y, void *scratch) {
    pillion_log_mel_frames(p, x, y, scratch);
}

void pillion_stft_dsp(const pillion_stft_dsp_params *p, const int16_t *x, void *y, void *scratch) {
    pillion_stft_frames(p, x, y, scratch);
}
#endif
