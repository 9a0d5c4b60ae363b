# SPDX-License-Identifier: Apache-2.0
"""Access to the host: files, folders, child processes and the user's Python code."""
