/* SPDX-License-Identifier: Apache-2.0
 * What the loops of dot_dsp.c, dot_1_dsp.c and dot_4_dsp.c share: from the sums of a pair of channels to its results, and the pairs of
 * three pixels. Requantization (README.md) takes twice the sum; S_B comes doubled, by a shift of 7. */
#ifndef PILLION_DSP_DOT_ASM_H
#define PILLION_DSP_DOT_ASM_H

#include "dot.h"
#include "pillion/assembly.h"

/* r1 round_B, r2 multiplier_B, r3 round_A, r4 multiplier_A, r5 shift. REQUANTIZE takes twice a sum. */
#define REQUANTIZE(s, round, multiplier)             \
    "add r0, " round ", " s ", asr #31\n"            \
    "smmlar " s ", " s ", " multiplier ", r0\n"      \
    "asr " s ", " s ", r5\n"                         \
    "ssat " s ", #8, " s "\n"
#define CHANNEL_B(requantize, t, s)  \
    "sub " t ", " t ", " s "\n"      \
    "asr " t ", " t ", #7\n"         \
    requantize(t, "r1", "r2")
#define CHANNEL_A(requantize, s) "add " s ", " s ", " s "\n" requantize(s, "r3", "r4")

/* Pairs of channels up to the end of a run; returns where the stream goes on. */
typedef const int32_t *pillion_dsp_pairs(const pillion_dsp_pair_loop *loop, const int32_t *stream);

/* Two results of three pixels each, of which only the first has a place in y. */
static inline void pillion_dsp_lone_channel(pillion_dsp_pair_loop *loop, const int32_t *stream, pillion_dsp_pairs *pairs) {
    int8_t results[6];
    int8_t *const y[3] = {loop->y[0], loop->y[1], loop->y[2]};
    for (int32_t i = 0; i < 3; i++) {
        loop->y[i] = results + 2 * i;
    }
    pairs(loop, stream);
    for (int32_t i = 0; i < 3; i++) {
        *y[i] = results[2 * i];
    }
}

static inline void pillion_dsp_run_pairs(pillion_dsp_dot *dot, int8_t *y, pillion_dsp_pairs *pairs) {
    pillion_dsp_pair_loop *const loop = &dot->loop;
    const int32_t *stream = dot->stream;
    const uint16_t *run = dot->runs;
    for (int32_t runs = dot->run_count; runs > 0; runs--, run++) {
        loop->y[0] = y + *run, loop->y[1] = loop->y[0] + dot->second, loop->y[2] = loop->y[0] + dot->third;
        if (dot->lone != 0 && runs == 1) {
            pillion_dsp_lone_channel(loop, stream, pairs);
        } else {
            stream = pairs(loop, stream);
        }
    }
}

/* What a loop over pairs of one pixel is told. */
typedef struct {
    uint32_t entry; /* r7: of the first round */
    int8_t *y;      /* r8 */
    const int32_t *x;
    int32_t rounds;
    int32_t sum;    /* of dot_4_dsp.c */
} pillion_dsp_one_loop;
PILLION_FIELDS_AT(pillion_dsp_one_loop, 0, entry, y, x, rounds, sum);
typedef const int32_t *pillion_dsp_pairs_of_one(const pillion_dsp_one_loop *loop, const int32_t *stream);

static inline void pillion_dsp_run_one(const pillion_dsp_dot *dot, int8_t *y, pillion_dsp_one_loop *loop,
                                       pillion_dsp_pairs_of_one *pairs) {
    const int32_t *stream = dot->stream;
    for (int32_t run = 0; run < dot->run_count; run++) {
        int8_t results[2]; /* of a channel alone and of nothing */
        const int is_lone = dot->lone != 0 && run == dot->run_count - 1;
        loop->y = is_lone ? results : y + dot->runs[run];
        stream = pairs(loop, stream);
        if (is_lone) {
            y[dot->runs[run]] = results[0];
        }
    }
}

/* Divides scratch into blocks and jumps, which it returns. */
static inline uint32_t *pillion_dsp_place(pillion_dsp_dot *dot, int32_t pixels, void *scratch) {
    dot->second = pixels > 1 ? dot->out_c : 0;
    dot->third = dot->second + (pixels > 2 ? dot->out_c : 0);
    dot->blocks = scratch;
    uint32_t *const jumps = (uint32_t *)(dot->blocks + dot->steps * PILLION_DSP_BLOCK_WORDS);
    dot->loop.x = dot->blocks, dot->loop.jumps = jumps;
    return jumps;
}

#define PLACE(name) ".global pillion_dsp_dot_" name "\n" "pillion_dsp_dot_" name ":\n"

#endif
