/* SPDX-License-Identifier: Apache-2.0 */
/* A model that receives its input row by row: its progress, and how it takes rows. */
#ifndef PILLION_FEED_H
#define PILLION_FEED_H

#include "pillion/rows.h"

#include <stddef.h>
#include <stdint.h>

/* It lies in the arena. */
typedef struct {
    void (*after_op)(uint32_t op);
    uint32_t taken;   /* of the rows that it waits for */
    uint32_t missing; /* until all rows of the input were handed over */
    uint32_t at[];    /* where the model continues, and the counters of the loops around it; then the same for the code that it calls there */
} pillion_feed;

/* The remaining rows of one call. */
typedef struct {
    const uint8_t *at;
    uint32_t count;
} pillion_rows;

/* Copies rows to `to`, or skips them if it is NULL. Returns whether all wanted rows have arrived. */
static uint32_t pillion_take_rows(pillion_feed *feed, pillion_rows *rows, void *to, uint32_t wanted, uint32_t row_bytes) {
    const uint32_t rest = wanted - feed->taken;
    const uint32_t count = rows->count < rest ? rows->count : rest;
    if (to != NULL) {
        pillion_move_rows((uint8_t *)to + feed->taken * row_bytes, rows->at, count * row_bytes);
    }
    rows->at += count * row_bytes;
    rows->count -= count;
    feed->missing -= count;
    feed->taken = count < rest ? feed->taken + count : 0;
    return count == rest;
}

#endif
