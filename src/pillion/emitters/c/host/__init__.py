# SPDX-License-Identifier: Apache-2.0
"""The kernels for x86 processors with AVX2, on which `--native` runs programs faster. No product contains them."""
