/* SPDX-License-Identifier: Apache-2.0
 * GCC without optimization keeps a register for itself, and everything else in memory; the loops in assembly need up to
 * twelve registers. So kernels with such loops are optimized in builds for debugging too. */
#ifndef PILLION_OPTIMIZED_H
#define PILLION_OPTIMIZED_H

#if defined(__GNUC__) && !defined(__clang__) && !defined(__OPTIMIZE__)
#pragma GCC optimize("O1")
#endif

#endif
