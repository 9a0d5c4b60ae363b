/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_KERNELS_H
#define TEST_KERNELS_H

#include <stdint.h>

void test_add_constant(const int8_t *constant, const int8_t *x, int8_t *y, int32_t count);
void test_scale_float(const int8_t *x, int8_t *y, int32_t count);
void test_spin(uint32_t turns);
int32_t test_touch_stack(int32_t bytes);
void test_undefined_instruction(void);
int32_t test_read_nowhere(void);
void test_endless(void);
void test_write_at(int8_t *arena, int32_t offset);

#endif
