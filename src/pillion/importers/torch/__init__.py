# SPDX-License-Identifier: Apache-2.0
"""The door for PyTorch: modules are captured as exported programs (`capture`), rewritten so that each thing is written in one way
(`rewrite`), quantized to int8 (`quantize`, `train`), and become a Graph (`to_graph`, `rows`). `read` is the way through."""
