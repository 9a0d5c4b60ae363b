# SPDX-License-Identifier: Apache-2.0
"""The kernels for cores with Helium (Cortex-M55, -M85)."""
