# SPDX-License-Identifier: Apache-2.0
"""The parts of the project whose tests are judged, and which tests those are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

KERNELS = "kernels"


@dataclass(frozen=True)
class Part:
    """Files, and the tests that have to notice a fault in them."""

    name: str
    tests: tuple[str, ...]
    """Folders of `tests`, the part's own first."""
    folder: str = ""
    """Below `src/pillion`, where it is not called as the part is."""

    @property
    def judges(self) -> tuple[str, ...]:
        """The folders of tests that are asked, the part's own first."""
        return tuple(dict.fromkeys((*self.tests, *(OF_KERNELS if self.name == KERNELS else ALL))))

    def files(self, root: Path) -> list[Path]:
        if self.name == KERNELS:
            folders = ("portable", "dsp", "mve", "host", "include")
            return [p for f in folders for p in sorted((root / KERNELS / f).rglob("*.[ch]"))]
        folder = root / "src" / "pillion" / (self.folder or self.name)
        return sorted(
            p for p in folder.rglob("*.py") if p.stat().st_size and self.has(p.relative_to(root).as_posix())
        )

    def has(self, path: str) -> bool:
        """Whether a file is of this part: the importer of PyTorch is one of its own."""
        return self.name != "importers" or not path.startswith("src/pillion/importers/torch/")


PARTS = (
    Part("ir", ("ir", "ops", "passes")),
    Part("ops", ("ops", "ir", "emitters", "passes", "importers")),
    Part("memory", ("memory", "emitters")),
    Part("partition", ("partition", "devices", "passes")),
    Part("passes", ("passes", "partition")),
    Part("quantize", ("importers/pytorch", "capture"), "importers/torch"),
    Part("importers", ("importers",)),
    Part("executorch", ("importers",)),
    Part("emitters", ("emitters", "run", "importers")),
    Part("devices", ("devices", "partition")),
    Part("run", ("run", "boards")),
    Part("boards", ("boards", "run")),
    Part("tiling", ("tiling", "memory")),
    Part("streams", ("streams", "tiling")),
    Part("sweep", ("sweep",)),
    Part("evaluation", ("evaluation",)),
    Part("report", ("report",)),
    Part("cli", ("cli",)),
    Part("data", ("data",)),
    Part("modules", ("modules",)),
    Part("zoo", ("zoo",)),
    Part("codecs", ("importers", "emitters")),
    Part("schemas", ("schemas", "importers")),
    Part("host_io", ("files",)),
    Part("packages", ("packages",)),
    Part(KERNELS, ("kernels",)),
)

ALL = tuple(dict.fromkeys(folder for part in PARTS for folder in part.tests if folder != KERNELS))
"""All folders of tests but that of kernels, which calls C."""
OF_KERNELS = ("emitters", "ops")
"""Folders whose tests run kernels, too."""
PYTHON_PARTS = tuple(part.name for part in PARTS if part.name != KERNELS)


def kernel_order(path: str, test: str) -> tuple[int, int]:
    """How near a test of `tests/kernels` is to a kernel's file, smaller is nearer: by instruction set, then by shared words."""
    folder, stem = Path(path).parent.name, Path(path).stem
    kind = (
        folder
        if folder in ("portable", "dsp", "mve", "host")
        else stem
        if stem in ("dsp", "mve", "host")
        else "portable"
    )
    words = set(stem.replace("conv2d", "conv").split("_")) - {"s8", "dsp", "mve", "host"}
    return kind not in Path(test.split("::")[0]).name, -sum(word in test for word in words)
