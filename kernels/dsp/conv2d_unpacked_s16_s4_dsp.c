/* SPDX-License-Identifier: Apache-2.0
 * Convolution of 16-bit inputs by weights of four bits that become 16 bits once for some fives of pixels, one output channel at a time. A step
 * is 13 instructions for 20 products, as with weights of 16 bits in flash, and 7.8 for each eight weights. Registers: as in five_windows.h. */
#include "five_windows.h"

#if PILLION_HAS_DSP
enum { ROOM_BYTES = 6144, MOST_FIVES = 3 }; /* of the windows that are laid out together, if these are not five */

/* What the loop keeps on its stack. */
typedef struct {
    int16_t *y;
    int32_t places[PIXELS];              /* 4: from there to the pixels, in bytes */
    const int32_t *weights, *weights_end; /* 24 28 */
    uint32_t entry;                      /* 32: steps that the first round skips, in bytes */
    int32_t bias, factor;                /* 36 40 */
    int32_t groups, y_step;              /* 44 48: left, and from the results of one to those of the next */
} loop;
PILLION_FIELDS_AT(loop, 0, y, places);
PILLION_FIELDS_AT(loop, 24, weights, weights_end, entry, bias, factor, groups, y_step);

#define STEP(half) "ldrd r11, lr, [r12], #8\n" half("r11") half("lr")
#define STEP_BYTES 48
#define FOUR_STEP_BYTES 40
/* As CHANNELS in fives.h; the weights end at r10. */
#define OF_CHANNEL(name, saturate, begin, steps, end, round, store)                                          \
    PILLION_NAKED static void name(PILLION_UNUSED const loop *s, PILLION_UNUSED const int32_t *blocks) {      \
        __asm volatile("push {r4-r11, lr}\n"                                                                 \
                       "sub sp, sp, #52\n"                                                                   \
                       "mov r12, sp\n"                                                                       \
                       "ldmia r0!, {r2-r8}\n"                                                                \
                       "stmia r12!, {r2-r8}\n"                                                               \
                       "ldmia r0, {r2-r7}\n"                                                                 \
                       "adr.w r11, 2f\n"                                                                     \
                       "add r3, r3, r11\n"                                                                   \
                       "adds r3, r3, #1\n"                                                                   \
                       "stmia r12, {r2-r7}\n"                                                                \
                       "mov r0, r1\n"                                                                        \
                       "ldr r10, [sp, #28]\n"                                                                \
                       "1:\n"                                                                                \
                       "ldr r6, [sp, #36]\n"                                                                 \
                       "ldr r12, [sp, #24]\n"                                                                \
                       "mov r7, r6\n"                                                                        \
                       "mov r8, r6\n"                                                                        \
                       "mov r9, r6\n" begin                                                                  \
                       "ldr pc, [sp, #32]\n"                                                                 \
                       ".balign 4\n"                                                                         \
                       "2:\n" steps end                                                                      \
                       "bne.w 2b\n"                                                                          \
                       "ldr r11, [sp, #40]\n"                                                                \
                       "ldmia.w sp, {r1, r2, r3, r4, r5, r12}\n" /* the first place is 0 */                  \
                       ROUND_16(saturate, "r6", "r11") ROUND_16(saturate, "r7", "r11")                       \
                       ROUND_16(saturate, "r8", "r11") ROUND_16(saturate, "r9", "r11") round                 \
                       "strh r7, [r1, r3]\n"                                                                 \
                       "strh r8, [r1, r4]\n"                                                                 \
                       "strh r9, [r1, r5]\n" store                                                           \
                       "strh r6, [r1]\n"                                                                     \
                       "ldrd r2, r3, [sp, #44]\n"                                                            \
                       "add r1, r1, r3\n"                                                                    \
                       "str r1, [sp]\n"                                                                      \
                       "subs r2, r2, #1\n"                                                                   \
                       "str r2, [sp, #44]\n"                                                                 \
                       "bne.w 1b\n"                                                                          \
                       "add sp, sp, #52\n"                                                                   \
                       "pop {r4-r11, pc}\n");                                                                \
    }

#define FIVES_OF_CHANNEL(name, saturate)                                                                  \
    OF_CHANNEL(name, saturate, "mov r10, r6\n", PILLION_REPEAT("2b", UNROLLED, STEP_BYTES, STEP(HALF_STEP)), \
               "ldr r1, [sp, #28]\n" "cmp r12, r1\n", ROUND_16(saturate, "r10", "r11"), "strh r10, [r1, r12]\n")
#define FOURS_OF_CHANNEL(name, saturate)                                                                     \
    OF_CHANNEL(name, saturate, "", PILLION_REPEAT("2b", UNROLLED, FOUR_STEP_BYTES, STEP(HALF_STEP_OF_FOUR)), \
               "cmp r12, r10\n", "", "")
FIVES_OF_CHANNEL(fives_of_channel, SIGNED)
FIVES_OF_CHANNEL(rectified_fives_of_channel, RECTIFIED)
FOURS_OF_CHANNEL(fours_of_channel, SIGNED)
FOURS_OF_CHANNEL(rectified_fours_of_channel, RECTIFIED)

/* Words of eight weights, each 8 more, become weights of 16 bits in order. Registers: r0 to, r1 from, r2 words left, r3 the mask, r12 -8 twice. */
#define EIGHT(word)                          \
    "and lr, r3, " word ", lsr #4\n"         \
    "sxtab16 r4, r12, lr\n"                  \
    "sxtab16 r5, r12, lr, ror #8\n"          \
    "and lr, r3, " word "\n"                 \
    "sxtab16 r6, r12, lr\n"                  \
    "sxtab16 r7, r12, lr, ror #8\n"          \
    "stmia r0!, {r4-r7}\n"
PILLION_NAKED static void unpack(PILLION_UNUSED int32_t *to, PILLION_UNUSED const int32_t *from, PILLION_UNUSED int32_t words) {
    __asm volatile("push {r4-r11, lr}\n"
                   "mov r3, #0x0f0f0f0f\n"
                   "mvn r12, #0x00070007\n"
                   "subs r2, r2, #4\n"
                   "blo 2f\n"
                   "1:\n"
                   "ldmia r1!, {r8-r11}\n" EIGHT("r8") EIGHT("r9") EIGHT("r10") EIGHT("r11")
                   "subs r2, r2, #4\n"
                   "bhs 1b\n"
                   "2:\n"
                   "adds r2, r2, #4\n"
                   "beq 4f\n"
                   "3:\n"
                   "ldr r8, [r1], #4\n" EIGHT("r8")
                   "subs r2, r2, #1\n"
                   "bne 3b\n"
                   "4:\n"
                   "pop {r4-r11, pc}\n");
}

void pillion_conv2d_unpacked_s16_s4_dsp(const pillion_conv2d_unpacked_s16_s4_dsp_params *p, const int16_t *x, int16_t *y, void *scratch) {
    const int32_t steps = 2 * p->steps, five_words = 2 * PIXELS * steps, fitting = ROOM_BYTES / (4 * five_words);
    const int32_t together = fitting > MOST_FIVES ? MOST_FIVES : fitting > 1 ? fitting : 1;
    const int32_t skipped = (UNROLLED - steps % UNROLLED) % UNROLLED, total = p->batch * p->out_h * p->out_w;
    const int32_t in_fours = pixels_in_fours(total), is_rectified = pillion_dsp_is_rectified(p->low, p->high);
    int32_t *const weights = scratch, *const blocks = weights + 2 * steps, *const copies = blocks + together * five_words;
    loop s = {y, {0}, weights, weights + 2 * steps, (uint32_t)(skipped * STEP_BYTES), 0, 0, 0, 2 * PIXELS * p->out_c};
    void (*of_channel)(const loop *, const int32_t *) = is_rectified ? rectified_fives_of_channel : fives_of_channel;
    window next = {x, -p->pad_top, -p->pad_left};
    int32_t pixels = PIXELS, later = in_fours;
    list_places(p, pixels, s.places);
    for (int32_t left = total; left > 0;) {
        if (left <= in_fours) {
            pixels = PIXELS - 1, later = 0;
            s.entry = (uint32_t)(skipped * FOUR_STEP_BYTES), s.y_step = 2 * pixels * p->out_c;
            of_channel = is_rectified ? rectified_fours_of_channel : fours_of_channel;
        }
        if (left < pixels) {
            pixels = left;
            list_places(p, pixels, s.places);
        }
        const int32_t whole = (left - later) / pixels, groups = whole == 0 ? 1 : whole < together ? whole : together;
        int16_t *const out = y + (total - left) * p->out_c;
        for (int32_t i = 0; i < groups; i++, left -= pixels) {
            next = lay_out(p, next, pixels, blocks + i * five_words, copies);
        }
        const int32_t *stream = p->stream;
        for (int32_t channel = 0; channel < p->out_c; channel++, stream += p->steps + 2) {
            unpack(weights, stream + 1, p->steps);
            s.y = out + channel, s.groups = groups;
            s.bias = stream[0], s.factor = stream[p->steps + 1];
            of_channel(&s, blocks);
        }
    }
    if (!is_rectified) {
        pillion_dsp_clamp_16(y, total * p->out_c, p->low, p->high);
    }
}
#endif
