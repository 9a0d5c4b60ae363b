# SPDX-License-Identifier: Apache-2.0
"""One folder per processor: supported ops, rules and cost estimates. `device.py` defines the interface to an
NPU; `targets.py` lists which chip has which processor."""
