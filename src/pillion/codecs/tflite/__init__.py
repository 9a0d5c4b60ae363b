# SPDX-License-Identifier: Apache-2.0
"""The operators of TensorFlow Lite that are ops of the graph one to one."""
