/* SPDX-License-Identifier: Apache-2.0
 * The functions of Arm's driver that the C of segments calls, for this computer. */
#ifndef ETHOSU_DRIVER_H
#define ETHOSU_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ethosu_driver;

struct ethosu_driver *ethosu_reserve_driver(void);
void ethosu_release_driver(struct ethosu_driver *drv);
int ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                     uint64_t *const base_addr, const size_t *base_addr_size, const int num_base_addr, void *user_arg);
int ethosu_invoke_async(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                        uint64_t *const base_addr, const size_t *base_addr_size, const int num_base_addr, void *user_arg);
int ethosu_wait(struct ethosu_driver *drv, bool block);

#endif
