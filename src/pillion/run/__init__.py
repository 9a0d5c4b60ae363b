# SPDX-License-Identifier: Apache-2.0
"""Everything that runs programs, and their comparison. One protocol (`executor`), one file for each executor, `places` with the list
of them; `verify` asks all of them and compares bytes, `difference` finds the op at which one leaves the reference."""
