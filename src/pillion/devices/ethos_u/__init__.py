# SPDX-License-Identifier: Apache-2.0
"""Arm's Ethos-U."""
