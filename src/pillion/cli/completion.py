# SPDX-License-Identifier: Apache-2.0
"""Shell completion. Each function returns the option values that begin with the typed text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from pillion import zoo
from pillion.boards.board import BOARDS
from pillion.option_values import EXECUTORS
from pillion.registry import REGISTRY

Complete = Callable[[str], list[str]]
"""Maps the typed text to the values that begin with it."""

MODEL_SUFFIXES = (".py", ".pt2", ".onnx", ".tflite", ".lite", ".pte")


def _values_with_prefix(typed: str, values: Iterable[str]) -> list[str]:
    return [value for value in values if value.startswith(typed)]


def complete_words(*values: str) -> Complete:
    """Returns a completer for a fixed list of words."""
    return lambda incomplete: _values_with_prefix(incomplete, values)


def complete_models(incomplete: str) -> list[str]:
    """Completes zoo names, model files, and folders."""
    names = [name for model in zoo.MODELS.values() for name in (model.name, *model.aliases)]
    return [*_values_with_prefix(incomplete, names), *_complete_paths(incomplete, MODEL_SUFFIXES)]


def complete_targets(incomplete: str) -> list[str]:
    """Completes targets, their aliases, and targets without a number format."""
    from pillion.targets import NUMBER_FORMAT, TARGETS

    names = [n for t in TARGETS.values() for n in (t.name.removesuffix(NUMBER_FORMAT), t.name, *t.aliases)]
    return _values_with_prefix(incomplete, dict.fromkeys(names))


def complete_executors(incomplete: str) -> list[str]:
    """Completes executors and boards, for `--on`."""
    return _values_with_prefix(incomplete, dict.fromkeys((*EXECUTORS, *REGISTRY.executors, *BOARDS)))


def complete_serial_chips(incomplete: str) -> list[str]:
    """Completes chips with a port of the serial harness."""
    from pillion.emitters.c.serial_harness import PORTS

    return _values_with_prefix(incomplete, PORTS)


def complete_devices(incomplete: str) -> list[str]:
    """Completes NPUs, cores and targets, for `--device`."""
    from pillion.cli.catalog import known_devices

    return _values_with_prefix(incomplete, known_devices())


def complete_programs(incomplete: str) -> list[str]:
    """Completes .pte files and folders."""
    return _complete_paths(incomplete, (".pte",))


def _complete_paths(incomplete: str, suffixes: tuple[str, ...]) -> list[str]:
    """Returns files with the given suffixes and folders with a trailing slash; hidden ones only after a typed dot."""
    folder, _, start = incomplete.rpartition("/")
    prefix = f"{folder}/" if "/" in incomplete else ""
    try:
        entries = sorted(Path(prefix or ".").iterdir())
    except (OSError, ValueError):
        return []
    named = [
        entry
        for entry in entries
        if entry.name.startswith(start) and (start or not entry.name.startswith("."))
    ]
    return [
        f"{prefix}{entry.name}{'/' if entry.is_dir() else ''}"
        for entry in named
        if entry.is_dir() or entry.suffix.lower() in suffixes
    ]
