# SPDX-License-Identifier: Apache-2.0
"""Programs in the real ExecuTorch runtime of the installed wheel, with Pillion's operators and an interpreter of NPU
segments put into it. The runtime lives in a child process: a file that crashes it is an error."""

from __future__ import annotations

from pillion.executorch_host.remote import run_executorch

__all__ = ["run_executorch"]
