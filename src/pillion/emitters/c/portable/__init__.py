# SPDX-License-Identifier: Apache-2.0
"""The portable kernels: plain C99 for every processor and every op. All other instruction sets fall back on them."""
