# SPDX-License-Identifier: Apache-2.0
"""File formats that are read and written by the same rows."""
