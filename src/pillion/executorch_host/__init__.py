# SPDX-License-Identifier: Apache-2.0
"""Programs in the ExecuTorch runtime of the installed wheel. Its `cortex_m` kernels are not in the wheel: Pillion's own,
under the same names and with the same limits, are put into it, and an interpreter of NPU segments. The runtime lives in a child
process: a file that crashes it is an error."""

from __future__ import annotations

from pillion.executorch_host.remote import run_executorch

__all__ = ["run_executorch"]
