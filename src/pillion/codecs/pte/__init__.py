# SPDX-License-Identifier: Apache-2.0
"""The operators of ExecuTorch programs: calls are written and read by the same signatures."""
