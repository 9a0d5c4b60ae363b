/* SPDX-License-Identifier: Apache-2.0 */
#include "dot.h"

#if PILLION_HAS_DSP
void pillion_conv2d_1x1_s4_dsp(const pillion_conv2d_1x1_s4_dsp_params *p, const int8_t *x, int8_t *y, void *scratch) {
    pillion_dsp_1x1(p, x, y, scratch, pillion_dsp_dot_4_begin, pillion_dsp_dot_4_one);
}
#endif
