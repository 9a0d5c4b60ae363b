/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that a later step still needs go to the front of their buffer. */
#ifndef PILLION_ROWS_H
#define PILLION_ROWS_H

#include <stdint.h>
#include <string.h>

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>
#endif

/* Copies bytes towards lower addresses. The places may overlap and need no alignment: all of what is stored was loaded before it is
 * overwritten, because `to` lies before `from`. */
static inline void pillion_move_rows(void *to, const void *from, uint32_t bytes) {
    uint8_t *put = to;
    const uint8_t *take = from;
#if defined(__ARM_FEATURE_MVE)
    for (int32_t left = (int32_t)bytes; left > 0; left -= 16) {
        const mve_pred16_t some = vctp8q((uint32_t)left);
        vstrbq_p_u8(put, vldrbq_z_u8(take, some), some);
        put += 16;
        take += 16;
    }
#else
    while (bytes >= 8) {
        uint32_t first, second;
        memcpy(&first, take, 4);
        memcpy(&second, take + 4, 4);
        memcpy(put, &first, 4);
        memcpy(put + 4, &second, 4);
        put += 8;
        take += 8;
        bytes -= 8;
    }
    while (bytes > 0) {
        *put++ = *take++;
        bytes--;
    }
#endif
}

#endif
