# SPDX-License-Identifier: Apache-2.0
"""One file per processor: what it takes, by which rules, and what that costs."""
