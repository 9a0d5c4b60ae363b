/* SPDX-License-Identifier: Apache-2.0
 * Makes the strips of channels of halfwords, and walks over images, channels and bands; see strips.h.
 *
 * Two gathers fetch eight columns of two rows; a four-way interleaving store merges the pair with the pair of rows above it. A row
 * outside the image is not read: it is zero. A round is two pairs of rows of eight columns; a pair that is odd comes first.
 * Registers: r1 x, r3 strips, r4 and r5 from pair to pair of them, r6 and r7 the block of columns, r8 and r9 to the
 * next block, r10 rounds, r11 the table, r12 blocks left; q0 q1 the pair above, q2 q3 this one, q4 q5 the next, q6 q7
 * offsets of the columns. */
#include "strips.h"

#if defined(__ARM_FEATURE_MVE)
#include "bytes.h"

/* A pair of rows at r1; r0 and r2 say whether they lie in the image. */
#define EDGE(upper, lower)                \
    "vmov.i32 " upper ", #0\n"            \
    "vmov.i32 " lower ", #0\n"            \
    "cbz r0, 8f\n"                        \
    "vldrh.u16 " upper ", [r1, q7]\n"     \
    "8:\n"                                \
    "cbz r2, 9f\n"                        \
    "vldrh.u16 " lower ", [r1, q6]\n"     \
    "9:\n"

#define STORE(rows)                       \
    "vst40.16 {" rows "}, [r3]\n"         \
    "vst41.16 {" rows "}, [r3]\n"         \
    "vst42.16 {" rows "}, [r3]\n"         \
    "vst43.16 {" rows "}, [r3]\n"

/* A pair of rows inside the image, stored below the pair above. */
#define NEXT_PAIR(upper, lower, rows)     \
    "add r1, r4\n"                        \
    "vldrh.u16 " upper ", [r1, q7]\n"     \
    "vldrh.u16 " lower ", [r1, q6]\n"     \
    STORE(rows)                           \
    "add r3, r5\n"

PILLION_NAKED static void strips_of(PILLION_UNUSED const pillion_mve_strip_build *b, PILLION_UNUSED const int16_t *x,
                                    PILLION_UNUSED void *strips) {
    __asm__ volatile(
        "push {r4, r5, r6, r7, r8, r9, r10, r11, r12, lr}\n"
        "mov r11, r0\n"
        "ldm r0, {r4, r5, r10, r12}\n" /* pair_step, strip_step, inner, blocks */
        "ldrd r8, r9, [r11, #16]\n"    /* second_x, second_strip */
        "ldrd r6, r7, [r11, #48]\n"
        "adds r6, r1\n" /* the block: in x and in the strips */
        "adds r7, r2\n"
        "vldrh.u16 q7, [r11, #64]\n"
        "vldrh.u16 q6, [r11, #80]\n"
        "1:\n"
        "mov r1, r6\n"
        "mov r3, r7\n"
        "ldrd r0, r2, [r11, #32]\n" EDGE("q0", "q1")
        "lsrs r0, r10, #1\n"
        "bcc 3f\n"
        NEXT_PAIR("q2", "q3", "q0, q1, q2, q3")
        "vmov q0, q2\n"
        "vmov q1, q3\n"
        "3:\n"
        "wls lr, r0, 5f\n"
        "4:\n"
        NEXT_PAIR("q2", "q3", "q0, q1, q2, q3") NEXT_PAIR("q4", "q5", "q2, q3, q4, q5")
        "vmov q0, q4\n"
        "vmov q1, q5\n"
        "le lr, 4b\n"
        "5:\n"
        "add r1, r4\n"
        "ldrd r0, r2, [r11, #40]\n" EDGE("q2", "q3") STORE("q0, q1, q2, q3")
        "add r6, r8\n"
        "add r7, r9\n"
        "ldrd r8, r9, [r11, #24]\n"
        "subs r12, #1\n"
        "bne 1b\n"
        "pop {r4, r5, r6, r7, r8, r9, r10, r11, r12, pc}\n");
}

void pillion_mve_strips_of_halfwords(const pillion_depthwise_3x3_s8_mve_params *p, const int16_t *x, int16_t *y, void *scratch,
                                     pillion_mve_strip_outputs outputs) {
    const pillion_mve_strip_band *const bands = (const pillion_mve_strip_band *)(const void *)p->build;
    const pillion_mve_strip_pass *const passes = (const pillion_mve_strip_pass *)(const void *)p->passes;
    int8_t *const strips = scratch;
    pillion_mve_fill(strips, 0, p->strip_bytes);
    for (int32_t n = 0; n < p->images; n++, x += p->image_bytes >> 1, y += p->output_bytes >> 1) {
        pillion_mve_strip_channel c = {strips, (int8_t *)y, p->kernels + 1, p->low, p->numbers};
        for (int32_t channel = 0; channel < p->channels; channel++) {
            const pillion_mve_strip_pass *pass = passes;
            for (const pillion_mve_strip_band *band = bands;; band++) {
                strips_of(&band->build, x + channel, strips);
                for (int32_t filters = p->filters; filters > 0; filters--, c.y += 2, c.kernel += 12) {
                    outputs(&c, pass);
                }
                if (band->passes == 0) {
                    break;
                }
                pass += band->passes;
                c.y -= 2 * p->filters;
                c.kernel -= 12 * p->filters;
                c.numbers -= 2 * p->filters;
            }
            __asm__ volatile("" : : : "q4", "q5", "q6", "q7"); /* neither saves them: this function does, once */
        }
    }
}

#endif
