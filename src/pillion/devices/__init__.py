# SPDX-License-Identifier: Apache-2.0
"""One folder per processor: what it takes, by which rules, and what that costs. `device.py` says what the rest knows of an
NPU; `targets.py` says which chip has which."""
