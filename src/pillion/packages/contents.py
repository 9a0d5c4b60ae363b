# SPDX-License-Identifier: Apache-2.0
"""The contents of a package in every form: models with their kernels under `src/`, which is the include folder,
too."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timezone
from functools import cached_property
from pathlib import Path

from pillion.boards.project_layout import KERNEL_HEADERS, MODEL_FOLDER, NPU_FOLDER, STAND_IN_FOLDER
from pillion.devices.cortex_m import CORES, Core, Isa
from pillion.emitters.c.manifest import Manifest, read_manifest
from pillion.errors import PillionError
from pillion.host_io.atomic_files import read_text

SOURCES = "src"
"""The folder of all C files."""
SHARED = ("kernels", "pillion")
"""The folders in it that belong to all models."""
FLAGS = ("-O2", "-ffp-contract=off")
"""The compile flags of the C: a fused multiply-add would make floats differ between processors."""
OMITTED = {Isa.DSP: "nodsp", Isa.MVE: "nomve"}
"""The name of cores without the extension that an instruction set needs."""
MOST_BYTES = 1 << 30
FIRST_TIME, LAST_TIME = 315_532_800, 4_354_819_199
"""The years that archives know, 1980 to 2107, in seconds since 1970."""
_HOST_HEADER = re.compile(r"\A/\* With PILLION_HOST.*?\n#else\n\n?(.*)\n#endif\n\Z", re.DOTALL)
_FEATURES = {Isa.DSP: "defined(__ARM_FEATURE_DSP)", Isa.MVE: "defined(__ARM_FEATURE_MVE)"}
"""The macro that compilers define for processors with the kernels' instruction set; kernels without one run on
all."""


def _today() -> date:
    """Returns the date of a release: SOURCE_DATE_EPOCH's, which makes builds repeatable, or today."""
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    is_time = given.isdecimal() and FIRST_TIME <= int(given) <= LAST_TIME
    return datetime.fromtimestamp(int(given), timezone.utc).date() if is_time else date.today()


@dataclass(frozen=True)
class Identity:
    """The name, version, vendor and release date of a package."""

    name: str = ""
    version: str = "1.0.0"
    vendor: str = "Pillion"
    released: date = field(default_factory=_today)


@dataclass(frozen=True)
class PackagedModel:
    """A model of a package."""

    manifest: Manifest
    files: dict[str, str]

    @property
    def name(self) -> str:
        """The prefix of its functions, and the name of its header."""
        return self.manifest.model


@dataclass(frozen=True)
class Contents:
    """All models of a package; a kernel that several models use is there once."""

    identity: Identity
    models: tuple[PackagedModel, ...]

    @cached_property
    def isa(self) -> Isa:
        """The instruction set that all kernels together need."""
        order = (Isa.PORTABLE, Isa.SCALAR, Isa.DSP, Isa.MVE)
        return max((model.manifest.isa for model in self.models), key=order.index)

    @cached_property
    def cores(self) -> tuple[Core, ...]:
        """The cores that run the kernels."""
        return tuple(core for core in CORES.values() if core.runs(self.isa))

    @cached_property
    def may_lack(self) -> dict[str, bool]:
        """The core's name → whether chips with that core may lack the kernels' extension."""
        omitting = {core.plain for core in CORES.values() if OMITTED.get(self.isa) in core.left_out}
        return {core.plain: core.plain in omitting for core in self.cores}

    @cached_property
    def has_npu(self) -> bool:
        """Whether the driver of an NPU is called."""
        return any(path.startswith(f"{SOURCES}/{m.name}/npu_") for m in self.models for path in m.files)

    @cached_property
    def files(self) -> dict[str, str]:
        """The files under `src/`."""
        files = {path: text for model in self.models for path, text in model.files.items()}
        return files | {f"{SOURCES}/{model.name}.h": self._header(model) for model in self.models}

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The C files, sorted."""
        return tuple(sorted(path for path in self.files if path.endswith(".c")))

    def _header(self, model: PackagedModel) -> str:
        """Returns the header that applications include. It refuses processors that lack the kernels' instructions."""
        feature = _FEATURES.get(self.isa)
        cores = ", ".join(dict.fromkeys(core.title for core in self.cores))
        guard = f'#if !{feature}\n#error "{model.name} has kernels for {cores}"\n#endif\n' if feature else ""
        return f'/* {model.name}, compiled by Pillion for {model.manifest.target}. */\n{guard}#include "{model.name}/model.h"\n'


def read_projects(folders: Sequence[Path], identity: Identity) -> Contents:
    """Returns the contents of a package of C projects, which is called as its first model if `identity` has no name. Raises if
    they cannot be in one program."""
    models = tuple(_read_project(folder) for folder in folders)
    for position, model in enumerate(models):
        if model.name.casefold() in SHARED:
            raise PillionError(
                f"a model of a package is not called `{model.name}`",
                rule=f"{' and '.join(SHARED)} are the folders of the kernels",
                here=model.manifest.target,
                help="compile it with another name: --name OTHER",
            )
        for other in models[:position]:
            _refuse_conflict(model, other)
    return Contents(replace(identity, name=identity.name or models[0].name), models)


def _refuse_conflict(model: PackagedModel, other: PackagedModel) -> None:
    if model.name.casefold() == other.name.casefold():
        raise PillionError(
            f"two models of the package are called `{model.name}`",
            rule="functions and headers have the name of their model",
            here=f"{other.name} for {other.manifest.target} and {model.name} for {model.manifest.target}",
            help="compile one of them with another name: --name OTHER",
        )
    for path in model.files.keys() & other.files.keys():
        if model.files[path] != other.files[path]:
            raise PillionError(
                f"`{model.name}` and `{other.name}` cannot share their kernels",
                rule="projects of one package are compiled for the same kind of core, by the same version of Pillion",
                here=f"{path} differs ({other.manifest.target}, {model.manifest.target})",
                help="compile both again for one core",
            )


def _read_project(folder: Path) -> PackagedModel:
    manifest = read_manifest(folder)
    segments = any(path.startswith(f"{STAND_IN_FOLDER}/") for path in manifest.files)
    if segments and not any(path.startswith(f"{NPU_FOLDER}/") for path in manifest.files):
        raise PillionError(
            f"{folder} has nothing that calls the NPU",
            rule="a package is for the chip, where the NPU runs its segments by code of the NPU's compiler",
            here="its segments have the stand-in for emulated boards alone",
            help="install the NPU's compiler (`pillion doctor`), and compile the model again",
        )
    if not any(path.startswith(f"{MODEL_FOLDER}/") for path in manifest.files):
        raise PillionError(
            f"{folder} was written by an early version",
            rule=f"a project has the model in {MODEL_FOLDER}/",
            here="all files lie in one folder",
            help="compile the model again",
        )
    return PackagedModel(manifest, dict(_packaged_files(folder, manifest)))


def _packaged_files(folder: Path, manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Yields path in the package and text of the files that belong to a product."""
    places = (
        (f"{MODEL_FOLDER}/{KERNEL_HEADERS}/", ""),
        (f"{MODEL_FOLDER}/kernels/", "kernels/"),
        (f"{MODEL_FOLDER}/", f"{manifest.model}/"),
        (f"{NPU_FOLDER}/", f"{manifest.model}/"),
    )
    for path in sorted(manifest.files):
        for prefix, place in places:
            if path.startswith(prefix) and path.endswith((".c", ".h")):
                text = read_text(folder / path, "file of the project", MOST_BYTES)
                yield f"{SOURCES}/{place}{path.removeprefix(prefix)}", _HOST_HEADER.sub(r"\1", text)
                break
