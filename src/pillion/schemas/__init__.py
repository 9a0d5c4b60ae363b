# SPDX-License-Identifier: Apache-2.0
"""FlatBuffers file formats: a generic packer and reader, and a declaration of each format. They know no op
and no graph."""
