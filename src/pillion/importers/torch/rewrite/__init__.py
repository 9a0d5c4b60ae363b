# SPDX-License-Identifier: Apache-2.0
"""Rewrites of captured PyTorch graphs before quantization: each computation gets one canonical form."""
