# SPDX-License-Identifier: Apache-2.0
"""The doors in: each turns something from outside into a Graph."""
