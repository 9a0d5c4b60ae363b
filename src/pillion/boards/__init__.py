# SPDX-License-Identifier: Apache-2.0
"""Builds and runs the compiled C: on this computer, and on Cortex-M boards that QEMU emulates."""
