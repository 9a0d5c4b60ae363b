/* SPDX-License-Identifier: Apache-2.0
 * The walk of strips.h over images and channels. */
#include "strips.h"

#if defined(__ARM_FEATURE_MVE)
#include "bytes.h"

void pillion_mve_strips(const pillion_depthwise_3x3_s8_mve_params *p, const void *x, void *y, void *scratch,
                        const pillion_mve_strip_kind *kind) {
    const pillion_mve_strip_build *const build = (const pillion_mve_strip_build *)(const void *)p->build;
    const pillion_mve_strip_pass *const passes = (const pillion_mve_strip_pass *)(const void *)p->passes;
    const int32_t x_bytes = kind->x_bytes, y_bytes = kind->y_bytes;
    const int8_t *image = x;
    int8_t *out = y;
    pillion_mve_fill(scratch, p->in_zp, p->strip_bytes);
    for (int32_t n = 0; n < p->images; n++, image += p->image_bytes, out += p->output_bytes) {
        pillion_mve_strip_channel c = {scratch, out, p->kernels + 1, y_bytes == 1 ? p->out_zp : p->low, p->numbers};
        const int8_t *in = image;
        for (int32_t left = p->channels; left > 0; left--, in += x_bytes) {
            kind->build(build, in, scratch);
            for (int32_t filters = p->filters; filters > 0; filters--, c.y += y_bytes, c.kernel += 12) {
                kind->outputs(&c, passes);
            }
            __asm__ volatile("" : : : "q4", "q5", "q6", "q7"); /* neither saves them: this function does, once */
        }
    }
}

#endif
