/* SPDX-License-Identifier: Apache-2.0
 * The depthwise convolutions of 8 bits, whose loops differ. */
#include "dot.h"

typedef int8_t element;
#define COPY_LOAD "ldrsb"
#define COPY_BITS 8
#include "depthwise_channels.h"

#if PILLION_HAS_DSP

void pillion_dsp_depthwise(const pillion_depthwise_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch,
                           const pillion_dsp_method *method) {
    convolve_channels(p, x, y, scratch, method);
    pillion_dsp_clamp(y, p->batch * p->out_h * p->out_w * p->out_c, p->low, p->high);
}
#endif
