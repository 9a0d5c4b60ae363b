# SPDX-License-Identifier: Apache-2.0
"""Runs programs and compares the results. `executor` defines the protocol, each executor has a file, and
`executor_list` lists them; `verify` compares their bytes, `first_difference` finds the first differing op."""
