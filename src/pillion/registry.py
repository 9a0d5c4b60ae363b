# SPDX-License-Identifier: Apache-2.0
"""The registry: everything that the compiler finds by name, filled by this package and by installed plug-ins.

A plug-in is an entry point of the group `pillion.plugins`: a function that takes the registry."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from importlib import metadata
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, TypeVar

from pillion.errors import PillionError

GROUP = "pillion.plugins"
"""The group of entry points that are plug-ins."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Table(Mapping[K, V]):
    """Named entries in the order in which they were added. Plug-ins are loaded before the first one is read."""

    def __init__(self, what: str, load: Callable[[], None]) -> None:
        self.what, self.load = what, load
        self.entries: dict[K, V] = {}

    def __getitem__(self, key: K) -> V:
        self.load()
        return self.entries[key]

    def __iter__(self) -> Iterator[K]:
        self.load()
        return iter(self.entries)

    def __len__(self) -> int:
        self.load()
        return len(self.entries)


class Registry:
    """Ops, kernels, PyTorch rows, passes, targets, NPUs, importers and executors by name."""

    def __init__(self) -> None:
        self.is_loaded = False
        self.undo: list[Callable[[], object]] = []
        self.plugins: list[str] = []
        """The packages of the loaded plug-ins, with their versions."""
        self.ops: Table[str, Any] = Table("op", self.load)
        self.kernels: Table[Any, tuple[Any, ...]] = Table("list of kernels", self.load)
        self.kernel_folders: Table[Path, Path] = Table("folder of kernels", self.load)
        self.torch_rows: Table[str, str] = Table("module of PyTorch rows", self.load)
        self.passes: Table[str, Any] = Table("pass", self.load)
        self.targets: Table[str, Any] = Table("target", self.load)
        self.npus: Table[str, Any] = Table("NPU", self.load)
        self.importers: Table[str, Callable[[Path], Any]] = Table("importer", self.load)
        self.executors: Table[str, Any] = Table("executor", self.load)

    def add_op(self, op: Any) -> None:
        """Adds an op class: a `pillion.ir.op.Op` with its shape rule and reference."""
        self._register_entry(self.ops, op.kind, op)

    def add_kernels(self, isa: Any, *kernels: Any, folder: Path | None = None) -> None:
        """Adds kernels of an instruction set, which come before Pillion's own. `folder` holds their C like the folder `kernels` of Pillion:
        `include/pillion/*.h` and, for portable kernels, `portable/*.c`."""
        lists = self.kernels.entries
        lists[isa] = (*lists.get(isa, ()), *kernels)
        self.undo.append(lambda: lists.update({isa: tuple(k for k in lists[isa] if k not in kernels)}))
        if folder is not None:
            self._register_entry(self.kernel_folders, folder, folder)

    def add_torch_rows(self, module: str) -> None:
        """Adds a module whose functions lower PyTorch operators (`pillion.importers.torch.rows.table.lowers`). It
        is imported with PyTorch."""
        self._register_entry(self.torch_rows, module, module)

    def add_pass(self, step: Any) -> None:
        """Adds a `pillion.pass_pipeline.Step`, which runs behind the integer passes."""
        self._register_entry(self.passes, step.name, step)

    def add_target(self, target: Any) -> None:
        """Adds a `pillion.targets.Target`."""
        self._register_entry(self.targets, target.name, target)

    def add_npu(self, npu: Any) -> None:
        """Adds a `pillion.devices.device.Device`; `core+NAME` is a target with it."""
        self._register_entry(self.npus, npu.name, npu)

    def add_importer(self, suffix: str, read: Callable[[Path], Any]) -> None:
        """Adds the reader of int8 files with a suffix: path to `pillion.ir.graph.Graph`."""
        self._register_entry(self.importers, suffix, read)

    def add_executor(self, executor: Any) -> None:
        """Adds an executor (`pillion.run.executor.Executor`), which `on` names and `verify` asks."""
        self._register_entry(self.executors, executor.name, executor)

    def _register_entry(self, table: Table[K, V], key: K, value: V) -> None:
        """Adds an entry; raises if there is one of this name."""
        if key in table.entries:
            raise PillionError(
                f"there is a {table.what} `{key}` already",
                rule="names in the registry are unique",
                here=repr(value),
                help="another name, or uninstall one of the plug-ins",
            )
        table.entries[key] = value
        self.undo.append(lambda: table.entries.pop(key))

    def load(self) -> None:
        """Calls the plug-ins once. Raises if one fails; then none leaves entries."""
        if self.is_loaded:
            return
        self.is_loaded = True
        view = self._transactional_view()
        for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
            try:
                point.load()(view)
                self.plugins.append(_plugin_package(point))
            except Exception as error:
                view._undo_additions()
                self.plugins.clear()
                self.is_loaded = False
                raise _plugin_load_error(point, error) from error

    @contextmanager
    def changed(self) -> Iterator[Registry]:
        """Yields the registry for a block, and removes at its end everything that the block added."""
        self.load()
        view = self._transactional_view()
        try:
            yield view
        finally:
            view._undo_additions()

    def _transactional_view(self) -> Registry:
        """Returns the same tables with a list of additions of its own."""
        view = copy(self)
        view.undo = []
        return view

    def _undo_additions(self) -> None:
        for undo in reversed(self.undo):
            undo()


def installed_version(package: str) -> str | None:
    """Returns the version of an installed package, which is not imported."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def installed_plugins() -> list[str]:
    """Returns the packages of the installed plug-ins, with their versions, without loading any."""
    return sorted({_plugin_package(point) for point in entry_points(group=GROUP)})


def _plugin_package(point: EntryPoint) -> str:
    """Returns the package of a plug-in, with its version."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.name


def _plugin_load_error(point: EntryPoint, error: Exception) -> PillionError:
    """Returns the error for a plug-in that cannot be loaded."""
    message = error.what if isinstance(error, PillionError) else str(error)
    return PillionError(
        f"the plug-in `{point.name}` cannot be loaded",
        rule=f"an entry point of `{GROUP}` is a function that fills the registry",
        here=f"{point.value} of {_plugin_package(point)}: {type(error).__name__}: {message}",
        help=f"mend it, or pip uninstall {point.dist.name if point.dist else point.name}",
    )


REGISTRY = Registry()
"""The registry of this process."""
