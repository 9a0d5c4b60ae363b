# SPDX-License-Identifier: Apache-2.0
"""PyTorch importer: captures modules (`capture`), rewrites them into canonical form (`rewrite`), quantizes them
(`quantize`, `train`), and imports the result as a graph (`to_graph`, `rows`). The entry point is `read`."""
