/* SPDX-License-Identifier: Apache-2.0 */
#include "dot.h"

#if PILLION_HAS_DSP
void pillion_conv2d_ring_s4_dsp(const pillion_conv2d_ring_s4_dsp_params *p, const int8_t *x, int8_t *y, void *scratch) {
    pillion_dsp_ring(p, x, y, scratch, pillion_dsp_dot_4_begin);
}
#endif
