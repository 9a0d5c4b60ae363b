/* SPDX-License-Identifier: Apache-2.0
 * Planes of an image side by side: y[column][row] = x[row][column] for two to four rows. */
#include "pillion/host.h"

#include "vector.h"

void pillion_interleave_s8_host(const pillion_interleave_s8_host_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    const int32_t rows = p->rows, columns = p->columns;
    for (int32_t n = 0; n < p->batch; n++, x += rows * columns) {
        for (int32_t at = 0; at < columns; at += PILLION_VECTOR) {
            const int32_t count = pillion_left(at, columns);
            pillion_vector planes[4], zipped[PILLION_REGISTERS];
            for (int32_t row = 0; row < 4; row++) {
                planes[row] = row < rows ? pillion_load_some(x + row * columns + at, count) : pillion_bytes(0);
            }
            pillion_zip(planes, zipped);
            for (int32_t r = 0; r < PILLION_REGISTERS; r++) {
                const int32_t left = pillion_clamp(count - r * PILLION_LANES, 0, PILLION_LANES);
                pillion_store_some(y, pillion_first_of_four(zipped[r], rows), left * rows);
                y += left * rows;
            }
        }
    }
}
