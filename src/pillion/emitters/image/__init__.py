# SPDX-License-Identifier: Apache-2.0
"""Program images: a compiled model as data for a firmware that holds the run-time and a set of kernels."""
