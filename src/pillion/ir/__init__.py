# SPDX-License-Identifier: Apache-2.0
"""The intermediate representation: types, values, ops, graphs, their text form, and integer arithmetic. It imports
no framework."""
