/* SPDX-License-Identifier: Apache-2.0
 * The depthwise convolutions of 16 bits, whose loops differ. */
#define PILLION_DSP_RESULTS_16
#include <stdint.h>

typedef int16_t element;
#define COPY_LOAD "ldrsh"
#define COPY_BITS 16
#include "depthwise_channels.h"

#if PILLION_HAS_DSP

void pillion_dsp_depthwise_16(const pillion_depthwise_s16_dsp_params *p, const int16_t *x, int16_t *y, void *scratch,
                              const pillion_dsp_method *method) {
    convolve_channels(p, x, y, scratch, method);
    if (!p->rectified) {
        pillion_dsp_clamp_16(y, p->batch * p->out_h * p->out_w * p->out_c, p->low, p->high);
    }
}
#endif
