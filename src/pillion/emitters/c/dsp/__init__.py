# SPDX-License-Identifier: Apache-2.0
"""The kernels for cores with the DSP extension (Cortex-M4, -M7, -M33)."""
