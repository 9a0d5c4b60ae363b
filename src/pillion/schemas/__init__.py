# SPDX-License-Identifier: Apache-2.0
"""File formats made of tables with numbered fields (FlatBuffers): one generic packer and reader, and a declaration for
each format. They know no op and no graph."""
