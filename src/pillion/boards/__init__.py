# SPDX-License-Identifier: Apache-2.0
"""Where compiled C runs: this computer, and the Cortex-M boards that QEMU emulates."""
