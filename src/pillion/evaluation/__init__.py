# SPDX-License-Identifier: Apache-2.0
"""What a compiled program gets on data, and where precision is lost on the way from float to int8."""
