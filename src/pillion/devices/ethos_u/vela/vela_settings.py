# SPDX-License-Identifier: Apache-2.0
"""Vela's settings for a chip: the NPU, the clocks and bandwidths around it, and the placement of weights and
activations."""

from __future__ import annotations

import configparser
import difflib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pillion.compile_options import NpuOptions
from pillion.devices.ethos_u.accelerators import Accelerator, Family
from pillion.errors import PillionError
from pillion.option_values import VelaOptimise

SHARED, SRAM, DEDICATED = "Shared_Sram", "Sram_Only", "Dedicated_Sram"
"""Memory modes: weights in flash and activations in SRAM; both in SRAM; both in DRAM, with SRAM as the NPU's buffer."""
AUTO = "auto"
OPTIONS = frozenset({"memory_mode", "system_config", "vela_config", "vela_optimise"})
"""The fields of `NpuOptions` that Vela has."""
SYSTEMS = {
    Family.U55: "Ethos_U55_High_End_Embedded",
    Family.U65: "Ethos_U65_Embedded",
    Family.U85: "Ethos_U85_SYS_Flash_High",
}
"""The default system of Vela's estimates, by family."""
DRAM_SYSTEMS = {Family.U65: "Ethos_U65_High_End", Family.U85: "Ethos_U85_SYS_DRAM_Mid"}
"""The default system if weights and activations lie in DRAM. U55 cannot write to the memory of its weights."""
OWN_FILE = "Arm/vela.ini"
"""Vela's name for the file that comes with it."""
MOST_BYTES = 1 << 20
"""The largest vela.ini that is read."""
_SYSTEM, _MODE = "System_Config.", "Memory_Mode."


@dataclass(frozen=True)
class VelaSettings:
    """Vela's options, all explicit: defaults of other versions never apply."""

    accelerator: Accelerator
    memory: str = SHARED
    system: str = ""
    config: str = OWN_FILE
    optimise: VelaOptimise = "Performance"

    @property
    def system_name(self) -> str:
        """Vela's name for the system."""
        family = self.accelerator.family
        by_memory = DRAM_SYSTEMS if self.memory.startswith(DEDICATED) and family in DRAM_SYSTEMS else SYSTEMS
        return self.system or by_memory[family]

    @property
    def arguments(self) -> list[str]:
        """The options for Vela's command line."""
        return [
            *("--accelerator-config", self.accelerator.name),
            *("--config", self.config),
            *("--system-config", self.system_name),
            *("--memory-mode", self.memory),
            *("--optimise", self.optimise),
        ]

    @cached_property
    def constants_in_sram(self) -> bool:
        """Whether the NPU reads weights from SRAM, to which they are copied at start."""
        own = _own_file() if self.config == OWN_FILE else None
        sections = config_sections(own or Path(self.config))
        mode, system = sections[_MODE + self.memory], sections[_SYSTEM + self.system_name]
        return system.get(f"{mode.get('const_mem_area', 'Axi1').lower()}_port", "") == "Sram"


def settings_of(accelerator: Accelerator, options: NpuOptions) -> VelaSettings:
    """Returns Vela's settings by the user's options. Raises on names that the configuration file does not have."""
    path = _own_file() if options.vela_config is None else Path(options.vela_config).resolve()
    config = OWN_FILE if options.vela_config is None else str(path)
    settings = VelaSettings(
        accelerator,
        options.memory_mode or SHARED,
        options.system_config or "",
        config,
        options.vela_optimise or "Performance",
    )
    if path is not None:
        sections = config_sections(path)
        _require_section(sections, _MODE, settings.memory, "--memory-mode", path)
        _require_section(sections, _SYSTEM, settings.system_name, "--system-config", path)
        _require_writable_arena(settings, sections[_MODE + settings.memory])
    return settings


def _require_writable_arena(settings: VelaSettings, mode: Mapping[str, str]) -> None:
    """Raises if a mode has activations on the second port of a U55, which only reads."""
    if settings.accelerator.family is Family.U55 and mode.get("arena_mem_area", "Axi0") != "Axi0":
        raise PillionError(
            f"{settings.accelerator.name} cannot write to the memory of the activations",
            rule="U55 writes through its first port alone: arena_mem_area is Axi0",
            here=f"--memory-mode {settings.memory}, arena_mem_area={mode['arena_mem_area']}",
            help=f"--memory-mode {SHARED} or {SRAM}, or an NPU with two such ports: --target cortex-m55+ethos-u65-256",
        )


def alternatives(accelerator: Accelerator, options: NpuOptions) -> tuple[NpuOptions, ...]:
    """Returns the options with each memory mode of the family if the mode is `auto`."""
    if options.memory_mode != AUTO:
        return ()
    modes = (SHARED, SRAM, *[DEDICATED] * (accelerator.family in DRAM_SYSTEMS))
    return tuple(replace(options, memory_mode=mode) for mode in modes)


def config_sections(path: Path) -> Mapping[str, Mapping[str, str]]:
    """Returns the sections of a configuration file, including inherited options. Raises if it cannot be read."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"{path.stat().st_size} bytes")
        parser.read_string(path.read_text("utf-8"))
        return {name: _inherited(parser, name) for name in parser.sections()}
    except (OSError, ValueError, KeyError, configparser.Error) as error:
        raise PillionError(
            "Vela's configuration cannot be read",
            rule=f"an .ini file of at most {MOST_BYTES} bytes with sections System_Config.NAME and Memory_Mode.NAME",
            here=f"{path}: {' '.join(str(error).split()) or type(error).__name__}",
            help="leave --vela-config out for the file that comes with Vela, or copy and change that",
        ) from None


def _inherited(parser: configparser.ConfigParser, name: str) -> dict[str, str]:
    """Returns the options of a section and of the sections that it inherits from."""
    found: dict[str, str] = {}
    seen: list[str] = []
    while name:
        if name in seen:
            raise ValueError(f"{name} inherits from itself")
        seen.append(name)
        found = {**dict(parser[name]), **found}
        name = parser[name].get("inherit", "")
    return found


def _own_file() -> Path | None:
    """Returns the configuration file that comes with Vela; None if Vela is not installed."""
    try:
        found = importlib.util.find_spec("ethosu.vela")
    except ModuleNotFoundError:
        return None
    return Path(str(found.origin)).parents[1] / "config_files" / OWN_FILE if found else None


def _require_section(sections: Mapping[str, object], kind: str, name: str, option: str, path: Path) -> None:
    known = [section.removeprefix(kind) for section in sections if section.startswith(kind)]
    if name in known:
        return
    also = [AUTO, *known] if kind == _MODE else known
    begun = [known_name for known_name in also if known_name.lower().startswith(name.lower())]
    close = begun or difflib.get_close_matches(name, also, n=1, cutoff=0.4)
    raise PillionError(
        f"Vela's configuration has no `{name}`",
        rule=f"{option} is one of {', '.join(also)}",
        here=f"{option} {name}, {path.name}",
        help=f"{option} {close[0] if close else also[0] if also else 'NAME'}",
    )
