# SPDX-License-Identifier: Apache-2.0
"""The kernels for cores without SIMD (Cortex-M0, -M0+, -M1, -M3, -M23)."""
