# SPDX-License-Identifier: Apache-2.0
"""Accuracy of a compiled program on data, and the layers that lose precision."""
