# SPDX-License-Identifier: Apache-2.0
"""The user's settings of NXP's converter."""

from __future__ import annotations

from dataclasses import dataclass

from pillion.compile_options import NpuOptions
from pillion.devices.neutron.converter.sdk_probe import installed_version
from pillion.devices.neutron.generations import NEWEST, Generation, find_generation, generation_of_version

OPTIONS = frozenset({"neutron_sdk", "neutron_prefetch", "neutron_profile"})
"""The fields of `NpuOptions` that NXP's converter has."""


@dataclass(frozen=True)
class NeutronSettings:
    """The rules and the form of the code."""

    generation: Generation = NEWEST
    prefetch: bool = False
    """Whether the code fetches weights from external memory to SRAM while it runs."""
    profile: bool = False
    """Whether the code records the time of each of its kernels."""


def settings_of(options: NpuOptions) -> NeutronSettings:
    """Returns the settings by the user's options. The default generation is the installed converter's, or the newest
    one if none is installed. Raises if the named generation is not known."""
    if options.neutron_sdk is not None:
        generation = find_generation(options.neutron_sdk)
    else:
        version = installed_version()
        generation = NEWEST if version is None else generation_of_version(version)
    return NeutronSettings(generation, options.neutron_prefetch, options.neutron_profile)
