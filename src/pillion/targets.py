# SPDX-License-Identifier: Apache-2.0
"""The targets: chips, each a Cortex-M core with memories and perhaps an NPU."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pillion.chip_memory import LINE_BYTES, OF_THE_CHIP, ChipMemory, check_together, with_cache
from pillion.compile_options import NpuOptions
from pillion.devices import ethos_u, neutron
from pillion.devices.cortex_m import CORES, Core, Isa, missing_core_reason
from pillion.devices.cortex_m.memories import NANOSECOND, WITH_CACHES, default_memories, find_memories
from pillion.devices.device import Device
from pillion.devices.payloads import Executable, PayloadMemory
from pillion.errors import PillionError
from pillion.ir.constraints import QuantizationConstraints
from pillion.registry import REGISTRY

LARGEST_FLASH = 64 << 20
"""The size of serial flash outside the chip, if a chip has none inside."""
NUMBER_FORMAT = "+int8"
"""Optional suffix of a target's name; int8 is the only number format."""


@dataclass(frozen=True)
class Target:
    """A chip to compile for: a core, memories and perhaps an NPU."""

    name: str
    summary: str
    core: Core
    npu: Device | None = None
    sram_bytes: int | None = None
    """On-chip RAM, if it is known and limits programs."""
    flash_bytes: int | None = None
    """On-chip flash or MRAM, if it is known and limits programs."""
    aliases: tuple[str, ...] = ()
    converter_name: str = ""
    """The chip's name in the NPU vendor's converter."""
    memories: str = ""
    """Where constants and arena are, by name in `devices.cortex_m.memories`; empty for the core's default."""
    tcm_bytes: int | None = None
    """The core's tightly coupled memory for data, which the NPU does not reach."""
    clock_hz: int | None = None
    """The core's highest clock."""
    npu_defaults: NpuOptions = field(default_factory=NpuOptions)
    """The options of the NPU's compiler that suit the chip, unless the user's say otherwise."""

    @property
    def quantization(self) -> QuantizationConstraints:
        """The constraints that the chip's processors put on the quantizer."""
        of_core = QuantizationConstraints(image_bits=self.core.image_bits, target=self.name)
        return self.npu.constraints | of_core if self.npu else of_core

    def with_npu_options(self, options: NpuOptions) -> Target:
        """Returns the target with its NPU's compiler set up by options, and by the chip's defaults where they say nothing.
        Raises if that compiler does not have one."""
        npu = self.npu
        if npu is None:
            return self
        foreign = next((name for name in options.flags if name not in npu.options), None)
        if foreign is not None:
            flag = options.flags[foreign].split()[0]
            having = [target.name for target in npu_targets() if target.npu and foreign in target.npu.options]
            raise PillionError(
                f"the compiler of `{npu.name}` has no option {flag}",
                rule=f"{flag} goes with {', '.join(having) or 'no target'}",
                here=f"--target {self.name} {' '.join(options.flags.values())}",
                help=f"leave {flag} out" + (f", or --target {having[0]}" if having else ""),
            )
        if npu.configure is None:
            return self
        configured = npu.configure(options.with_defaults(self.npu_defaults))
        return self if configured is None else replace(self, npu=configured)

    @property
    def chip_memories(self) -> tuple[ChipMemory, ...]:
        """The memories of the chip, as far as they are known. Their waits are the middle of those that estimates of time assume,
        at the highest clock; they serve to compare memories."""
        if self.sram_bytes is None or self.clock_hz is None:
            return ()
        assumed = find_memories(self.memories) if self.memories else default_memories(self.core.name)
        line = self.clock_hz * NANOSECOND
        sram = math.sqrt(assumed.arena_line.low * assumed.arena_line.high) * line
        flash = (
            math.sqrt(assumed.constants_line.low * assumed.constants_line.high)
            * line
            * LINE_BYTES
            / assumed.fetch_bytes
        )
        tcm = (ChipMemory("dtcm", self.tcm_bytes, npu=False),) if self.tcm_bytes else ()
        constants = self.flash_bytes or LARGEST_FLASH
        return (
            *tcm,
            ChipMemory("sram", self.sram_bytes, round(sram, 1), round(sram, 1)),
            ChipMemory("flash", constants, round(flash, 1), is_constant=True),
        )

    def named_memories(self, memories: Sequence[ChipMemory]) -> list[ChipMemory]:
        """Returns the memories that a user named. `chip` stands for the chip's own. Slow memories get the core's
        cache, unless they name their own. Raises if the chip's are requested and not known."""
        own = self.chip_memories
        if OF_THE_CHIP in memories and not own:
            known = ", ".join(target.name for target in TARGETS.values() if target.chip_memories)
            raise PillionError(
                f"the memories of `{self.name}` are not known",
                rule=f"--memory chip is for {known}",
                here=f"--memory chip --target {self.name}",
                help="name them: --memory sram=512K --memory psram=8M,slow=20",
            )
        memories = [one for memory in memories for one in (own if memory is OF_THE_CHIP else (memory,))]
        check_together(memories)
        cache = find_memories("cached").cache_bytes if self.core.plain in WITH_CACHES else 0
        return [with_cache(memory, cache) if memory.read else memory for memory in memories]

    @property
    def delegate(self) -> str:
        """The NPU's delegate name in ExecuTorch; empty without an NPU."""
        return (self.npu.delegate or self.npu.name) if self.npu else ""

    @property
    def isa(self) -> Isa:
        """The instruction set of the chip's core."""
        return self.core.isa

    @property
    def board(self) -> str | None:
        """The emulated board with this chip's core, if there is one."""
        return self.core.board


def _core_target(core: Core) -> Target:
    kernels = {Isa.MVE: "Helium", Isa.DSP: "DSP", Isa.SCALAR: "scalar"}[core.isa]
    return Target(f"{core.name}{NUMBER_FORMAT}", f"Arm {core.title}, {kernels} kernels", core)


_WEIGHTS_IN_MRAM = NpuOptions("Shared_Sram")
"""Alif's documents compile with Shared_Sram (RTSS_HP_SRAM_MRAM, Ethos_U85_SRAM_MRAM), Himax's with the same two memories and slow flash,
Infineon's tools with Sram_Only."""
_CHIPS = (
    Target(
        "imxrt700",
        "NXP i.MX RT700: Neutron N3-64 NPU beside a Cortex-M33",
        CORES["cortex-m33"],
        neutron.N3_64,
        sram_bytes=7_864_320,
        clock_hz=325_000_000,
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
        clock_hz=150_000_000,
        flash_bytes=2_097_152,
        aliases=("mcxn94x",),
        converter_name="mcxn94x",
    ),
    Target(
        "alif-e7",
        "Alif Ensemble E7: Ethos-U55-256 beside a Cortex-M55 (sizes from memory)",
        CORES["cortex-m55"],
        ethos_u.ETHOS_U["ethos-u55-256"],
        flash_bytes=5_767_168,
        npu_defaults=_WEIGHTS_IN_MRAM,
    ),
    Target(
        "alif-e8",
        "Alif Ensemble E8: Ethos-U85-256 beside a Cortex-M55",
        CORES["cortex-m55"],
        ethos_u.ETHOS_U["ethos-u85-256"],
        sram_bytes=4_718_592,
        tcm_bytes=1_048_576,
        clock_hz=400_000_000,
        flash_bytes=5_767_168,
        npu_defaults=_WEIGHTS_IN_MRAM,
    ),
    Target(
        "himax-we2",
        "Himax WE2: Ethos-U55-64 beside a Cortex-M55 (sizes from memory)",
        CORES["cortex-m55"],
        ethos_u.ETHOS_U["ethos-u55-64"],
        sram_bytes=2_457_600,
        clock_hz=400_000_000,
        npu_defaults=NpuOptions("Shared_Sram", "Ethos_U55_Deep_Embedded"),
    ),
    Target(
        "psoc-edge-e84",
        "Infineon PSOC Edge E84: Ethos-U55-128 beside a Cortex-M55 (NPU from memory)",
        CORES["cortex-m55"],
        ethos_u.ETHOS_U["ethos-u55-128"],
        sram_bytes=5_242_880,
        clock_hz=400_000_000,
        npu_defaults=NpuOptions("Sram_Only"),
    ),
    Target(
        "ra8p1",
        "Renesas RA8P1: Ethos-U55-256 beside a Cortex-M85 (sizes and memory mode from memory)",
        CORES["cortex-m85"],
        ethos_u.ETHOS_U["ethos-u55-256"],
        sram_bytes=2_097_152,
        clock_hz=1_000_000_000,
        npu_defaults=_WEIGHTS_IN_MRAM,
    ),
)
"""The chips. Facts without a public source are marked as from memory."""

for _npu in (neutron.N3_64, neutron.N1_16, *ethos_u.ETHOS_U.values()):
    REGISTRY.add_npu(_npu)
for _target in (*map(_core_target, CORES.values()), *_CHIPS):
    REGISTRY.add_target(_target)
NPUS: Mapping[str, Device] = REGISTRY.npus
"""NPUs by name; a target may be named as core plus NPU."""
TARGETS: Mapping[str, Target] = REGISTRY.targets
"""Targets by name, including those of plug-ins."""


def _targets_by_alias() -> dict[str, str]:
    """Returns the name of the target of each alias."""
    return {alias: target.name for target in TARGETS.values() for alias in target.aliases}


def find_target(name: str) -> Target:
    """Returns the target of this name; `+int8` is optional."""
    key = str(name).lower()
    for candidate in (key, key + NUMBER_FORMAT, key.removesuffix(NUMBER_FORMAT)):
        candidate = _targets_by_alias().get(candidate, candidate)
        if candidate in TARGETS:
            return TARGETS[candidate]
    if (target := _core_plus_npu_target(key.replace(NUMBER_FORMAT, ""))) is not None:
        return target
    core, *extensions = key.replace(NUMBER_FORMAT, "").split("+")
    if core in CORES and extensions:
        raise _no_such_core_error(name, core, extensions[-1])
    raise PillionError(
        f"there is no target `{name}`",
        rule="a target is a core (cortex-m33), a core and an NPU (cortex-m55+ethos-u55-128), or a chip with an NPU (imxrt700)",
        here=f"--target {name}",
        help=_suggest_target(key),
    )


CORE_OF_CHIPS = {
    **{f"stm32{line}": "cortex-m0plus" for line in ("c0", "g0", "l0", "u0")},
    **{f"stm32{line}": "cortex-m3" for line in ("f1", "f2", "l1")},
    **{f"stm32{line}": "cortex-m4" for line in ("f3", "f4", "g4", "l4", "wb", "wl")},
    **{f"stm32{line}": "cortex-m7" for line in ("f7", "h7")},
    **{f"stm32{line}": "cortex-m33" for line in ("h5", "l5", "u5", "wba")},
    **{"stm32n6": "cortex-m55", "nrf51": "cortex-m0plus", "nrf52": "cortex-m4", "nrf53": "cortex-m33"},
    **{"nrf54": "cortex-m33", "nrf91": "cortex-m33", "rp2040": "cortex-m0plus", "rp2350": "cortex-m33"},
    **{"samd21": "cortex-m0plus", "samd51": "cortex-m4", "same70": "cortex-m7", "imxrt10": "cortex-m7"},
    **{"imxrt11": "cortex-m7", "imxrt5": "cortex-m33", "imxrt6": "cortex-m33", "lpc55": "cortex-m33"},
    **{"ra4": "cortex-m33", "ra6m4": "cortex-m33", "ra6m5": "cortex-m33", "ra8": "cortex-m85"},
    **{"efr32mg2": "cortex-m33", "apollo3": "cortex-m4", "apollo4": "cortex-m4", "apollo5": "cortex-m55"},
}
"""Core by chip name prefix; a program for the core runs on the chip. The M0 runs programs for the M0+."""


def _suggest_target(name: str) -> str:
    """Returns the target that a user may have meant: the chip's core, or a similar name."""
    chip = max((c for c in CORE_OF_CHIPS if name.replace("-", "").startswith(c)), key=len, default=None)
    if chip is not None:
        return (
            f"--target {CORE_OF_CHIPS[chip]}, the core of {chip} chips; `pillion targets` lists all targets"
        )
    if name in ethos_u.ETHOS_U:
        return f"--target cortex-m55+{name}, a core and this NPU; `pillion targets` lists all targets"
    with_this = [target.name for target in npu_targets() if target.npu is NPUS.get(name)]
    if with_this:
        return f"--target {with_this[0]}, which has this NPU; `pillion targets` lists all targets"
    close = difflib.get_close_matches(name, [*TARGETS, *CORES, *_targets_by_alias()], n=1)
    return f"did you mean `{close[0]}`?" if close else "`pillion targets` lists all targets"


def _core_plus_npu_target(name: str) -> Target | None:
    """Returns the target `core+npu`, independent of the chips that have both."""
    for npu in NPUS.values():
        core = CORES.get(name.removesuffix(f"+{npu.name}"))
        if core is not None and core.name != name:
            return Target(f"{core.name}+{npu.name}", f"Arm {core.title} beside {npu.summary}", core, npu)
    return None


def _no_such_core_error(name: str, core: str, extension: str) -> PillionError:
    """Returns the error for a core that exists only with the named extension."""
    rule, instead = missing_core_reason(core, extension)
    return PillionError(
        f"there is no target `{name}`", rule=rule, here=f"--target {name}", help=f"--target {instead}"
    )


def npu_interpreter(payload: bytes) -> Executable:
    """Returns the interpreter for an NPU's code on this computer. Raises if no NPU recognizes the code."""
    for npu in NPUS.values():
        if npu.execute is not None and (executable := npu.execute(payload)) is not None:
            return executable
    raise PillionError(
        "an NPU's code cannot be executed here",
        rule=f"code of {', '.join(npu.name for npu in NPUS.values() if npu.execute)}",
        here=f"{len(payload)} bytes that begin with {payload[:16]!r}",
        help="compile the model where that NPU's converter is not installed: segments are TFLite then",
    )


def npu_memory(payload: bytes) -> PayloadMemory:
    """Returns the RAM that an NPU's code asks for; none for code that no NPU recognizes."""
    return next((need for npu in NPUS.values() if (need := npu.memory_of(payload))), PayloadMemory())


def compiled_operators() -> dict[str, str]:
    """Returns the custom operators that NPU converters put into .tflite files, each with its NPU."""
    return {name: whose for npu in NPUS.values() for name, whose in npu.file_operators}


def npu_targets() -> tuple[Target, ...]:
    """Returns the targets with an NPU; messages use the first as their example."""
    return tuple(target for target in TARGETS.values() if target.npu is not None)


def npu_target_example(options: Collection[str] = ()) -> str:
    """Returns `--target` with a chip whose NPU's compiler has these options, for messages."""
    having = (target for target in npu_targets() if target.npu and set(options) <= set(target.npu.options))
    return next((f"--target {target.name}" for target in having), "a target with an NPU")


def describe_targets() -> list[dict[str, str | None]]:
    """Returns every target as a table row."""
    return [
        {"name": t.name, "core": t.core.name, "kernels": t.isa.value, "board": t.board, "summary": t.summary}
        for t in TARGETS.values()
    ]
