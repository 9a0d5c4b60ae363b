/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/walk.h"

enum {
    ADD, SUB, MUL, MINIMUM, MAXIMUM, FLOOR_DIV, FLOOR_MOD, TRUNC_DIV, TRUNC_MOD, AND, OR, XOR, SHIFT_LEFT, SHIFT_RIGHT
};

static int32_t signed_of(uint32_t bits) {
    return bits < 0x80000000u ? (int32_t)bits : -(int32_t)(0xFFFFFFFFu - bits) - 1;
}

/* Rounded towards zero, or down; the quotient of the least number and -1 keeps its lowest bits. */
static int32_t quotient(int32_t a, int32_t b, int32_t down) {
    if (b == 0) {
        return 0;
    }
    if (b == -1) {
        return signed_of(0u - (uint32_t)a);
    }
    return a / b - (down && a % b != 0 && (a < 0) != (b < 0));
}

static int32_t remaining(int32_t a, int32_t b, int32_t down) {
    return signed_of((uint32_t)a - (uint32_t)b * (uint32_t)quotient(a, b, down));
}

static int32_t shifted_right(int32_t a, int32_t b) {
    const uint32_t amount = b >= 0 && b < 32 ? (uint32_t)b : 31u;
    return a < 0 ? signed_of(~(~(uint32_t)a >> amount)) : (int32_t)((uint32_t)a >> amount);
}

static int32_t calculated(int32_t calculation, int32_t a, int32_t b) {
    const uint32_t left = (uint32_t)a, right = (uint32_t)b;
    switch (calculation) {
    case ADD:
        return signed_of(left + right);
    case SUB:
        return signed_of(left - right);
    case MUL:
        return signed_of(left * right);
    case MINIMUM:
        return a < b ? a : b;
    case MAXIMUM:
        return a > b ? a : b;
    case FLOOR_DIV:
    case TRUNC_DIV:
        return quotient(a, b, calculation == FLOOR_DIV);
    case FLOOR_MOD:
    case TRUNC_MOD:
        return remaining(a, b, calculation == FLOOR_MOD);
    case AND:
        return signed_of(left & right);
    case OR:
        return signed_of(left | right);
    case XOR:
        return signed_of(left ^ right);
    case SHIFT_LEFT:
        return right < 32u ? signed_of(left << right) : 0;
    default:
        return shifted_right(a, b);
    }
}

void pillion_integer_arithmetic_s32(const pillion_integer_arithmetic_s32_params *p, const int32_t *a, const int32_t *b, int32_t *y, void *scratch) {
    (void)scratch;
    int32_t a_at[PILLION_MAX_AXES] = {0}, b_at[PILLION_MAX_AXES] = {0};
    for (int32_t row = 0; row < p->rows; row++) {
        for (int32_t i = 0; i < p->count; i++) {
            *y++ = calculated(p->calculation, a[i * p->a_step], b[i * p->b_step]);
        }
        a += pillion_walk(p->axes, p->extent, p->a_row_step, a_at);
        b += pillion_walk(p->axes, p->extent, p->b_row_step, b_at);
    }
}
