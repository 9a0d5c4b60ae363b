# SPDX-License-Identifier: Apache-2.0
"""The generations of NXP's converter. Some rules hold only for some generations."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pillion.errors import PillionError


@dataclass(frozen=True)
class Generation:
    """Releases of the converter with the same rules."""

    name: str
    """The value of `--neutron-sdk`."""
    since: tuple[int, ...]
    """The version of the first release."""
    source: str
    """Known facts about the generation."""


GENERATIONS = (
    Generation("1", (1,), "eight results of converter 1.x in NXP's MCUXpresso examples"),
    Generation("2.2", (2, 2), "ExecuTorch before SDK 3.0 (MCUXpresso SDK 25.12)"),
    Generation("3.0", (3, 0), "ExecuTorch with SDK 3.0.0 to 3.1.1, whose default is the old flow"),
    Generation("3.1", (3, 1, 2), "ExecuTorch 1.4.1; the old flow ended with SDK 3.1.2"),
    Generation("3.2", (3, 2), "ExecuTorch 1.5.1"),
)
NAMES = tuple(generation.name for generation in GENERATIONS)
NEWEST = GENERATIONS[-1]
OLD_FLOW = NAMES[:3]
"""The generations before NXP's converter was rewritten."""


def find_generation(name: str) -> Generation:
    """Returns the generation of a release; the nearest one for releases before or after all known ones."""
    if name in NAMES:
        return GENERATIONS[NAMES.index(name)]
    raise PillionError(
        f"no generation `{name}` of NXP's converter is known",
        rule=f"--neutron-sdk is one of {', '.join(NAMES)}",
        here=f"--neutron-sdk {name}",
        help=f"--neutron-sdk {generation_of_version(name).name}, or leave it out for the installed converter's",
    )


def generation_of_version(version: str) -> Generation:
    """Returns the generation of a release; the nearest one for releases before or after all that are known."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    begun = [generation for generation in GENERATIONS if generation.since <= numbers]
    return begun[-1] if begun else GENERATIONS[0] if numbers else NEWEST
