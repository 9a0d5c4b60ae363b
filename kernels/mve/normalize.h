/* SPDX-License-Identifier: Apache-2.0
 * Normalizes adjacent elements, four at a time. The including kernel defines the types `element` and `result`, LOAD (four elements to q0)
 * and STORE (four results from q0). A multiplication and an addition modulo 2^32 normalize an element; VRMULH and an addition give it the
 * scale and the bias of its channel. */
#include "pillion/assembly.h"
#include "pillion/normalize.h"

PILLION_FIELDS_AT(pillion_normalize_s8_params, 12, inner, elements);
PILLION_FIELDS_AT(pillion_normalize_s8_params, 52, places, low, high);

/* Bounds in q5 and q6; a shift, as VSHL takes it, in the place of the params; the loop over as many elements as the number says that
 * lies so far behind their begin. */
#define BOUNDS                \
    "ldr %[t], [%[p], #56]\n" \
    "vdup.32 q5, %[t]\n"      \
    "ldr %[t], [%[p], #60]\n" \
    "vdup.32 q6, %[t]\n"
#define SHIFT                 \
    "ldr %[p], [%[p], #52]\n" \
    "rsb %[p], %[p], #0\n"
#define COUNT(at) "ldr %[t], [%[p], #" at "]\n" SHIFT "wlstp.32 lr, %[t], 2f\n"

#define TO_RESULTS           \
    "vadd.i32 q0, q0, q2\n" \
    "vshl.s32 q0, %[p]\n"   \
    "vmax.s32 q0, q0, q5\n" \
    "vmin.s32 q0, q0, q6\n" \
    STORE                    \
    "letp lr, 1b\n"         \
    "2:\n"

/* Elements side by side of one group, by factors and offsets of their own. */
static void each(const pillion_normalize_s8_params *p, pillion_standard by, const element *x, result *y) {
    const int32_t *f = p->factors, *o = p->offsets;
    uint32_t t = by.factor;
    __asm__ volatile(
        "vdup.32 q4, %[t]\n" BOUNDS COUNT("12")
        "1: " LOAD
        "vldrw.u32 q1, [%[f]], #16\n"
        "vmlas.s32 q0, q4, %[start]\n"
        "vldrw.u32 q2, [%[o]], #16\n"
        "vrmulh.s32 q0, q0, q1\n" TO_RESULTS
        : [x] "+&l"(x), [y] "+&l"(y), [f] "+&r"(f), [o] "+&r"(o), [t] "+&r"(t), [p] "+&r"(p)
        : [start] "r"(by.start)
        : "lr", "q0", "q1", "q2", "q4", "q5", "q6", "cc", "memory");
}

/* By one factor and one offset. */
static void alike(const pillion_normalize_s8_params *p, pillion_standard by, const element *x, result *y) {
    uint32_t t = by.factor;
    __asm__ volatile(
        "vdup.32 q4, %[t]\n"
        "vdup.32 q1, %[f]\n"
        "vdup.32 q2, %[o]\n" BOUNDS COUNT("16")
        "1: " LOAD
        "vmlas.s32 q0, q4, %[start]\n"
        "vrmulh.s32 q0, q0, q1\n" TO_RESULTS
        : [x] "+&l"(x), [y] "+&l"(y), [t] "+&r"(t), [p] "+&r"(p)
        : [start] "r"(by.start), [f] "r"(p->factors[0]), [o] "r"(p->offsets[0])
        : "lr", "q0", "q1", "q2", "q4", "q5", "q6", "cc", "memory");
}

/* A row of one group, by the factor and start from its sums. */
static void one_group(const pillion_normalize_s8_params *p, pillion_standard by, const element *x, result *y) {
    if (!p->each_channel) {
        alike(p, by, x, y);
        return;
    }
    for (int32_t n = 0; n < p->positions; n++, x += p->inner, y += p->inner) {
        each(p, by, x, y);
    }
}
