/* SPDX-License-Identifier: Apache-2.0
 * The walk of strips.h over images and channels. */
#include "strips.h"

#if defined(__ARM_FEATURE_MVE)
#include "bytes.h"

void pillion_mve_strips(const pillion_depthwise_3x3_s8_mve_params *p, const int8_t *x, void *y, void *scratch,
                        pillion_mve_strip_outputs outputs, int32_t y_bytes) {
    const pillion_mve_strip_build *const build = (const pillion_mve_strip_build *)(const void *)p->build;
    const pillion_mve_strip_pass *const passes = (const pillion_mve_strip_pass *)(const void *)p->passes;
    int8_t *out = y;
    pillion_mve_fill(scratch, p->in_zp, p->strip_bytes);
    for (int32_t n = 0; n < p->images; n++, x += p->image_bytes, out += p->output_bytes) {
        pillion_mve_strip_channel c = {scratch, out, p->kernels + 1, y_bytes == 1 ? p->out_zp : p->low, p->numbers};
        for (int32_t channel = 0; channel < p->channels; channel++) {
            pillion_mve_strips_of_bytes(build, x + channel, scratch);
            for (int32_t filters = p->filters; filters > 0; filters--, c.y += y_bytes, c.kernel += 12) {
                outputs(&c, passes);
            }
            __asm__ volatile("" : : : "q4", "q5", "q6", "q7"); /* neither saves them: this function does, once */
        }
    }
}

#endif
