# SPDX-License-Identifier: Apache-2.0
"""The kernels for the computer that Pillion runs on, if it has an x86 processor with AVX2. No product gets them: they are for running
programs here, sooner (`--native`)."""

from __future__ import annotations

from pillion.emitters.c.host import conv, elementwise
from pillion.emitters.c.kernel import Kernel

FAMILIES = (conv, elementwise)

KERNELS: tuple[Kernel, ...] = tuple(kernel for family in FAMILIES for kernel in family.KERNELS)
