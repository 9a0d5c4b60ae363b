# SPDX-License-Identifier: Apache-2.0
"""The C emitter: selects kernels, plans memory, and writes a project."""
