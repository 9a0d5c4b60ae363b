# SPDX-License-Identifier: Apache-2.0
"""What hardware exists: a chip is a Cortex-M core, its memories and, on some, an NPU."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace

from pillion.devices import ethos_u, neutron
from pillion.devices.cortex_m import CORES, Core, Isa, why_not
from pillion.devices.device import Device
from pillion.devices.payloads import Executable
from pillion.errors import PillionError
from pillion.ir.wishes import Wishes

NUMBER_FORMAT = "+int8"
"""What may stand behind a target's name; int8 is the only number format there is."""


@dataclass(frozen=True)
class Target:
    """A chip that programs are compiled for: a core, memories and perhaps an NPU."""

    name: str
    summary: str
    core: Core
    npu: Device | None = None
    sram_bytes: int | None = None
    """On-chip RAM, where that is known to limit programs."""
    aliases: tuple[str, ...] = ()
    converter_name: str = ""
    """What the NPU vendor's converter calls the chip."""
    memories: str = ""
    """Where constants and arena lie, as `devices.cortex_m.memories` names it, if not as is usual for the core."""

    @property
    def quantization(self) -> Wishes:
        """The wishes that the chip's processors have for the quantizer."""
        return replace(self.npu.wishes if self.npu else Wishes(), target=self.name)

    @property
    def delegate(self) -> str:
        """The name that ExecuTorch's runtime on the chip has for the NPU, if there is one."""
        return (self.npu.delegate or self.npu.name) if self.npu else ""

    @property
    def isa(self) -> Isa:
        """The instruction set of the chip's core."""
        return self.core.isa

    @property
    def board(self) -> str | None:
        """The emulated board with this chip's core, where there is one."""
        return self.core.board


def _cpu(core: Core) -> Target:
    kernels = {Isa.MVE: "Helium", Isa.DSP: "DSP", Isa.SCALAR: "scalar"}[core.isa]
    return Target(f"{core.name}{NUMBER_FORMAT}", f"Arm {core.title}, {kernels} kernels", core)


_CHIPS = (
    Target(
        "imxrt700",
        "NXP i.MX RT700: Neutron N3-64 NPU beside a Cortex-M33",
        CORES["cortex-m33"],
        neutron.N3_64,
        sram_bytes=7_864_320,
        aliases=("imxrt700cm",),
        converter_name="imxrt700",
        memories="external",
    ),
    Target(
        "mcxn947",
        "NXP MCX N947: Neutron N1-16 NPU beside a Cortex-M33",
        CORES["cortex-m33"],
        neutron.N1_16,
        sram_bytes=524_288,
        aliases=("mcxn94x",),
        converter_name="mcxn94x",
    ),
    Target(
        "alif-e7",
        "Alif Ensemble E7: Ethos-U55-256 beside a Cortex-M55 (sizes from memory)",
        CORES["cortex-m55"],
        ethos_u.ETHOS_U["ethos-u55-256"],
    ),
    Target(
        "alif-e8",
        "Alif Ensemble E8: Ethos-U85-256 beside a Cortex-M55",
        CORES["cortex-m55"],
        ethos_u.ETHOS_U["ethos-u85-256"],
        sram_bytes=4_718_592,
    ),
    Target(
        "himax-we2",
        "Himax WE2: Ethos-U55-64 beside a Cortex-M55 (sizes from memory)",
        CORES["cortex-m55"],
        ethos_u.ETHOS_U["ethos-u55-64"],
        sram_bytes=2_457_600,
    ),
    Target(
        "psoc-edge-e84",
        "Infineon PSOC Edge E84: Ethos-U55-128 beside a Cortex-M55 (NPU from memory)",
        CORES["cortex-m55"],
        ethos_u.ETHOS_U["ethos-u55-128"],
        sram_bytes=5_242_880,
    ),
    Target(
        "ra8p1",
        "Renesas RA8P1: Ethos-U55-256 beside a Cortex-M85 (sizes from memory)",
        CORES["cortex-m85"],
        ethos_u.ETHOS_U["ethos-u55-256"],
        sram_bytes=2_097_152,
    ),
)
"""The chips. What stands in no public source that was read is said to be from memory."""

_NPUS = (neutron.N3_64, neutron.N1_16, *ethos_u.ETHOS_U.values())
NPUS = {npu.name: npu for npu in _NPUS}
"""The NPUs by name: a target may name a core and one of these."""
TARGETS: dict[str, Target] = {target.name: target for target in (*map(_cpu, CORES.values()), *_CHIPS)}
WITH_NPU = tuple(target for target in TARGETS.values() if target.npu is not None)
"""The targets that have an NPU. The first one is the example in messages."""
_ALIASES = {alias: target.name for target in TARGETS.values() for alias in target.aliases}


def find_target(name: str) -> Target:
    """Gives the target of this name; `+int8` may be left out."""
    wanted = str(name).lower()
    for candidate in (wanted, wanted + NUMBER_FORMAT, wanted.removesuffix(NUMBER_FORMAT)):
        candidate = _ALIASES.get(candidate, candidate)
        if candidate in TARGETS:
            return TARGETS[candidate]
    if (made := _composed(wanted.replace(NUMBER_FORMAT, ""))) is not None:
        return made
    core, *extensions = wanted.replace(NUMBER_FORMAT, "").split("+")
    if core in CORES and extensions:
        raise _no_such_core(name, core, extensions[-1])
    close = difflib.get_close_matches(wanted, [*TARGETS, *CORES, *_ALIASES], n=1)
    raise PillionError(
        f"there is no target `{name}`",
        rule="known targets: " + ", ".join(TARGETS),
        here=f"--target {name}",
        help=f"did you mean `{close[0]}`?" if close else "`pillion targets` describes each",
    )


def _composed(wanted: str) -> Target | None:
    """The target of a core and an NPU beside it, `core+npu`, whatever chip has both."""
    for npu in NPUS.values():
        core = CORES.get(wanted.removesuffix(f"+{npu.name}"))
        if core is not None and core.name != wanted:
            return Target(f"{core.name}+{npu.name}", f"Arm {core.title} beside {npu.summary}", core, npu)
    return None


def _no_such_core(name: str, core: str, extension: str) -> PillionError:
    """The error for a core that is there, and not without this."""
    rule, instead = why_not(core, extension)
    return PillionError(
        f"there is no target `{name}`", rule=rule, here=f"--target {name}", help=f"--target {instead}"
    )


def executable(payload: bytes) -> Executable:
    """Gives what executes an NPU's own code on this computer, whichever NPU it is for; raises where nothing is known of it."""
    for npu in NPUS.values():
        if npu.execute is not None and (found := npu.execute(payload)) is not None:
            return found
    raise PillionError(
        "an NPU's code cannot be executed here",
        rule=f"code of {', '.join(npu.name for npu in NPUS.values() if npu.execute)}",
        here=f"{len(payload)} bytes that begin with {payload[:16]!r}",
        help="compile the model where that NPU's converter is not installed: segments are TFLite then",
    )


def compiled_operators() -> dict[str, str]:
    """Gives the custom operators that converters of NPUs put into .tflite files, and whose these are."""
    return {name: whose for npu in NPUS.values() for name, whose in npu.file_operators}


def example_with_npu() -> str:
    """Gives `--target` and a chip with an NPU, for messages that advise one."""
    return f"--target {WITH_NPU[0].name}" if WITH_NPU else "a target with an NPU"


def describe_targets() -> list[dict[str, str | None]]:
    """Gives every target as a row of a table."""
    return [
        {"name": t.name, "core": t.core.name, "kernels": t.isa.value, "board": t.board, "summary": t.summary}
        for t in TARGETS.values()
    ]
