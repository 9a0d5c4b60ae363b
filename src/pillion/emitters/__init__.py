# SPDX-License-Identifier: Apache-2.0
"""Writers of compiled programs: C projects, ExecuTorch programs and TFLite files."""
