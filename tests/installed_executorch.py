# SPDX-License-Identifier: Apache-2.0
"""The ExecuTorch of this environment: what a program is written for that runs in it."""

from __future__ import annotations

import importlib.util

from pillion.option_values import NEWEST_RUNTIME, Runtime
from pillion.run.executorch.wheel import find_wheel

IS_INSTALLED = importlib.util.find_spec("executorch") is not None
INSTALLED: Runtime = find_wheel().runtime if IS_INSTALLED else NEWEST_RUNTIME
