# SPDX-License-Identifier: Apache-2.0
"""The ground floor: typed values, ops, graphs, their text form and the one arithmetic module. No torch, no flatbuffers."""
