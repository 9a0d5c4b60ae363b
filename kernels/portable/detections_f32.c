/* SPDX-License-Identifier: Apache-2.0
 * The detections from a detector's boxes and scores. Definition: pillion/ops/detections.py. */
#include "pillion/kernels.h"

#include <string.h>

/* e to the power of x, by operations that are the same on every machine. */
static double exponential(double x) {
    static const double terms[14] = {
        1.6059043836821613e-10,
        2.08767569878681e-09,
        2.505210838544172e-08,
        2.755731922398589e-07,
        2.7557319223985893e-06,
        2.48015873015873e-05,
        0.0001984126984126984,
        0.001388888888888889,
        0.008333333333333333,
        0.041666666666666664,
        0.16666666666666666,
        0.5,
        1.0,
        1.0,
    };
    const double raised = x > -700.0 ? x : -700.0;
    const double inside = raised < 700.0 ? raised : 700.0;
    const double powers = inside * 1.4426950408889634;
    const int32_t power = (int32_t)(powers + (inside < 0 ? -0.5 : 0.5));
    const double high = power * 0.6931471803691238, low = power * 1.9082149292705877e-10;
    const double beyond = inside - high;
    const double rest = beyond - low;
    double made = terms[0];
    for (int32_t i = 1; i < 14; i++) {
        const double product = made * rest;
        made = product + terms[i];
    }
    const uint64_t bits = (uint64_t)(power + 1023) << 52;
    double two;
    memcpy(&two, &bits, 8);
    return made * two;
}

static float larger(float a, float b) {
    return a > b ? a : b;
}

static float smaller(float a, float b) {
    return a < b ? a : b;
}

/* Top, left, bottom and right of a box. */
static void corners_of(const double *scales, const float *codes, const float *anchor, float *corners) {
    for (int32_t i = 0; i < 2; i++) {
        const double moved = (double)codes[i] / scales[i] * (double)anchor[i + 2];
        const float center = (float)(moved + (double)anchor[i]);
        const double size = 0.5 * exponential((double)codes[i + 2] / scales[i + 2]);
        const float half = (float)(size * (double)anchor[i + 2]);
        corners[i] = center - half;
        corners[i + 2] = center + half;
    }
}

/* Whether a score of the box counts: the places of others are not asked for. */
static int32_t counts(const pillion_detections_f32_params *p, const float *of_classes) {
    for (int32_t kind = 0; kind < p->classes; kind++) {
        if (of_classes[kind] >= p->score_threshold) {
            return 1;
        }
    }
    return 0;
}

/* The intersection over union of two boxes. */
static float overlap(const float *a, const float *b) {
    const float area = (a[2] - a[0]) * (a[3] - a[1]), other = (b[2] - b[0]) * (b[3] - b[1]);
    if (area <= 0.0f || other <= 0.0f) {
        return 0.0f;
    }
    const float height = larger(smaller(a[2], b[2]) - larger(a[0], b[0]), 0.0f);
    const float width = larger(smaller(a[3], b[3]) - larger(a[1], b[1]), 0.0f);
    const float common = height * width;
    const float both = area + other;
    return common / (both - common);
}

typedef struct {
    int32_t box, kind;
    float score;
} found_box;

typedef struct {
    float *corners;   /* [boxes][4] */
    float *scores;    /* [boxes] */
    int32_t *kinds;   /* [boxes] */
    found_box *found; /* [most] */
    uint8_t *is_left; /* [boxes] */
    int32_t count;    /* of the found ones */
} work;

/* Inserts behind equally good boxes; drops the worst if the list is full. */
static void put(const pillion_detections_f32_params *p, work *w, found_box one) {
    if (w->count == p->most && !(one.score > w->found[w->count - 1].score)) {
        return;
    }
    int32_t place = w->count < p->most ? w->count++ : w->count - 1;
    for (; place > 0 && w->found[place - 1].score < one.score; place--) {
        w->found[place] = w->found[place - 1];
    }
    w->found[place] = one;
}

/* The best of the boxes that are left; -1 if there is none. */
static int32_t best_of(const pillion_detections_f32_params *p, const work *w) {
    int32_t best = -1;
    for (int32_t i = 0; i < p->boxes; i++) {
        if (w->is_left[i] != 0 && (best < 0 || w->scores[i] > w->scores[best])) {
            best = i;
        }
    }
    return best;
}

/* Writes the boxes with the best scores; no box overlaps a better one too much. */
static void keep(const pillion_detections_f32_params *p, work *w, int32_t most) {
    for (int32_t i = 0; i < p->boxes; i++) {
        w->is_left[i] = w->scores[i] >= p->score_threshold;
    }
    for (int32_t kept = 0, best = best_of(p, w); kept < most && best >= 0; kept++, best = best_of(p, w)) {
        const found_box one = {best, w->kinds[best], w->scores[best]};
        put(p, w, one);
        w->is_left[best] = 0;
        for (int32_t i = 0; i < p->boxes && kept + 1 < most; i++) {
            if (w->is_left[i] != 0 && overlap(w->corners + 4 * best, w->corners + 4 * i) > p->iou_threshold) {
                w->is_left[i] = 0;
            }
        }
    }
}

static void keep_by_class(const pillion_detections_f32_params *p, work *w, const float *scores) {
    const int32_t most = p->by_class < p->most ? p->by_class : p->most;
    for (int32_t kind = 0; kind < p->classes; kind++) {
        for (int32_t i = 0; i < p->boxes; i++) {
            w->scores[i] = scores[i * p->scores_step + p->first_class + kind];
            w->kinds[i] = kind;
        }
        keep(p, w, most);
    }
}

static void keep_at_once(const pillion_detections_f32_params *p, work *w, const float *scores) {
    for (int32_t i = 0; i < p->boxes; i++) {
        const float *const of_classes = scores + i * p->scores_step + p->first_class;
        int32_t best = 0;
        for (int32_t kind = 1; kind < p->classes; kind++) {
            if (of_classes[kind] > of_classes[best] || of_classes[best] != of_classes[best]) {
                best = kind;
            }
        }
        w->scores[i] = of_classes[best];
        w->kinds[i] = best;
    }
    keep(p, w, p->most);
}

void pillion_detections_f32(const pillion_detections_f32_params *p, const float *boxes, const float *scores, float *y,
                            void *scratch) {
    work w;
    w.corners = scratch;
    w.scores = w.corners + 4 * p->boxes;
    w.kinds = (int32_t *)(void *)(w.scores + p->boxes);
    w.found = (found_box *)(void *)(w.kinds + p->boxes);
    w.is_left = (uint8_t *)(void *)(w.found + p->most);
    w.count = 0;
    for (int32_t i = 0; i < p->boxes; i++) {
        if (counts(p, scores + i * p->scores_step + p->first_class)) {
            corners_of(p->scales, boxes + i * p->boxes_step, p->anchors + 4 * i, w.corners + 4 * i);
        }
    }
    if (p->by_class > 0) {
        keep_by_class(p, &w, scores);
    } else {
        keep_at_once(p, &w, scores);
    }
    memset(y, 0, 4 * (6 * (size_t)p->most + 1));
    for (int32_t i = 0; i < w.count; i++) {
        memcpy(y + 4 * i, w.corners + 4 * w.found[i].box, 16);
        y[4 * p->most + i] = (float)w.found[i].kind;
        y[5 * p->most + i] = w.found[i].score;
    }
    y[6 * p->most] = (float)w.count;
}
