/* SPDX-License-Identifier: Apache-2.0
 * Non-maximum suppression of boxes: left, top, right and bottom, in levels of one scale. */
#ifndef PILLION_SUPPRESSION_H
#define PILLION_SUPPRESSION_H

#include <stdint.h>

static inline uint32_t pillion_area(int32_t width, int32_t height) {
    return width > 0 && height > 0 ? (uint32_t)width * (uint32_t)height : 0u;
}

static inline uint32_t pillion_box_area(const element *box) {
    return pillion_area(box[2] - box[0], box[3] - box[1]);
}

/* Whether the intersection of two boxes exceeds `share`, in 2^-31, of the sum of their areas. */
static inline int32_t pillion_overlaps(const element *a, const element *b, uint32_t area, int32_t share) {
    const int32_t width = (a[2] < b[2] ? a[2] : b[2]) - (a[0] > b[0] ? a[0] : b[0]);
    const int32_t height = (a[3] < b[3] ? a[3] : b[3]) - (a[1] > b[1] ? a[1] : b[1]);
    const uint32_t common = pillion_area(width, height);
    return common > 0 && (uint64_t)common << 31 > ((uint64_t)area + pillion_box_area(b)) * (uint32_t)share;
}

static inline void pillion_suppress(const pillion_non_max_suppression_s8_params *p, const element *boxes, const element *scores,
                                    int32_t *y, uint8_t *is_left) {
    for (int32_t image = 0; image < p->images; image++, boxes += 4 * p->boxes, scores += p->boxes) {
        int32_t best = -1;
        for (int32_t i = 0; i < p->boxes; i++) {
            is_left[i] = scores[i] > p->threshold;
            if (is_left[i] && (best < 0 || scores[i] > scores[best])) {
                best = i;
            }
        }
        for (int32_t left = p->most; left > 0; left--) {
            const int32_t kept = best;
            *y++ = kept;
            if (kept < 0 || left == 1) {
                continue;
            }
            const uint32_t area = pillion_box_area(boxes + 4 * kept);
            is_left[kept] = 0;
            best = -1;
            for (int32_t i = 0; i < p->boxes; i++) {
                if (is_left[i] == 0) {
                    continue;
                }
                if (pillion_overlaps(boxes + 4 * kept, boxes + 4 * i, area, p->share)) {
                    is_left[i] = 0;
                } else if (best < 0 || scores[i] > scores[best]) {
                    best = i;
                }
            }
        }
    }
}

#endif
