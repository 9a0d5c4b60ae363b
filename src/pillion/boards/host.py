# SPDX-License-Identifier: Apache-2.0
"""Runs a firmware's C on this computer: the same model.c, weights.c and kernels, linked with a runner in a
child process. A crash or an endless loop becomes an error that names the op."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from pillion.boards.build import Compiler, compile_objects, link_objects
from pillion.boards.firmware import C_FLAGS, read_firmware
from pillion.boards.toolchain import Processor, compiler_view_of_processor, host_compiler
from pillion.errors import PillionError
from pillion.host_io.atomic_files import read_text
from pillion.host_io.child_process import Child, ChildEnded, ChildTimeoutError

TIMEOUT_SECONDS = 60.0
RUNNER = Path(__file__).parent / "runner" / "runner.c"
_NAME = "pillion_model_runner"
_NOT_RUNNING = 0xFFFF_FFFF
NOWHERE = 0xFFFF_FFFF
"""The offset of a buffer outside the arena."""
_WORD = struct.Struct("=I")
_CHANGES = struct.Struct("=4I")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class HostPlace:
    """The place of an input or output in the arena; an input that is passed row by row has the offset
    `NOWHERE`."""

    name: str
    offset: int
    bytes: int


@dataclass(frozen=True)
class ModelDescription:
    """A compiled model's own description: its inputs, outputs and arena."""

    name: str
    arena_bytes: int
    state_bytes: int
    inputs: tuple[HostPlace, ...]
    outputs: tuple[HostPlace, ...]
    op_names: tuple[str, ...]


class HostModel:
    """A compiled model in a child process that ends with this object. `native` allows the compiler all
    instructions of this processor; `timeout` is the limit of a run in seconds. If the firmware's `files` are
    given, others in the folder are ignored. `channels` maps environment variables to file descriptors for the
    C."""

    def __init__(
        self,
        firmware: Path,
        *,
        native: bool = False,
        timeout: float = TIMEOUT_SECONDS,
        files: Collection[str] | None = None,
        channels: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        image = build_host_program(firmware, native=native, files=files)
        self._timeout, self._firmware = timeout, firmware
        self._described: ModelDescription | None = None
        with tempfile.TemporaryFile() as file:
            # The word in it is the current op, even after a crash; standard streams would be closed.
            self._progress = os.fdopen(fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 3), "r+b", buffering=0)
            self._progress.write(_WORD.pack(_NOT_RUNNING))
            shared = self._progress.fileno()
            env = {**os.environ, **{name: str(number) for name, number in channels.items()}}
            passed = (shared, *channels.values())
            self._child = Child([str(image), str(shared), str(os.getpid())], pass_fds=passed, env=env)
        self._described = self._run_with_crash_report(lambda: self._read_description(image.stat().st_size))
        self.name, self.arena_bytes = self._described.name, self._described.arena_bytes
        self.state_bytes = self._described.state_bytes
        self.inputs, self.outputs = list(self._described.inputs), list(self._described.outputs)
        self.op_names = list(self._described.op_names)

    def run(self, inputs: Sequence[bytes]) -> list[bytes]:
        """Runs one sample from the current states, and returns its outputs."""
        return self.run_many([inputs], stream=True)[0]

    def reset(self) -> None:
        """Resets the states to their initial values."""
        self._run_with_crash_report(lambda: self._child.send(b"s", self._timeout))

    def run_many(self, samples: Sequence[Sequence[bytes]], *, stream: bool = False) -> list[list[bytes]]:
        """Returns the outputs of several samples, which are sent without waiting for answers. With `stream`,
        states continue; otherwise they are reset before each sample."""
        for inputs in samples:
            self._check_inputs(inputs)
        return self._run_with_crash_report(lambda: self._run_many(samples, b"r" if stream else b"sr"))

    def nanoseconds(self, repeat: int) -> list[int]:
        """Returns the times of consecutive runs in nanoseconds, on arbitrary data: the work does not depend on the values."""
        return self._run_with_crash_report(lambda: self._measure_run_times(repeat))

    def close(self) -> None:
        """Ends the process, which otherwise ends with this object."""
        self._child.close()
        self._progress.close()

    def __enter__(self) -> HostModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_description(self, most: int) -> ModelDescription:
        (count,) = _WORD.unpack(self._child.receive(_WORD.size, self._timeout))
        # The linked file contains every name in it.
        if count > most:
            raise _foreign_firmware_error(self._firmware, f"it describes itself in {count} bytes")
        try:
            return _parse_description(self._child.receive(count, self._timeout))
        except (ValueError, struct.error) as error:
            raise _foreign_firmware_error(self._firmware, str(error)) from None

    def _run_many(self, samples: Sequence[Sequence[bytes]], what: bytes) -> list[list[bytes]]:
        size = _CHANGES.size + sum(output.bytes for output in self.outputs)
        message = b"".join(part for inputs in samples for part in (what, *inputs))
        answers = self._child.exchange(message, size * len(samples), self._timeout)
        return [self._unpack_outputs(answers[at : at + size]) for at in range(0, len(answers), size)]

    def _unpack_outputs(self, answer: bytes) -> list[bytes]:
        """Returns the outputs in an answer; raises if bytes outside the arena changed."""
        self._check_guards(*_CHANGES.unpack_from(answer))
        sizes = [output.bytes for output in self.outputs]
        ends = [_CHANGES.size + sum(sizes[: i + 1]) for i in range(len(sizes))]
        return [answer[end - size : end] for size, end in zip(sizes, ends, strict=True)]

    def _measure_run_times(self, repeat: int) -> list[int]:
        self._child.send(b"t" + _WORD.pack(repeat), self._timeout)
        return [struct.unpack("=q", self._child.receive(8, self._timeout))[0] for _ in range(repeat)]

    def _run_with_crash_report(self, action: Callable[[], _Result]) -> _Result:
        """Returns the result of an exchange with the process; raises with the current op if the process ends
        or does not answer."""
        try:
            return action()
        except ChildTimeoutError:
            raise PillionError(
                f"{self._error_subject} did not finish on this computer",
                rule=f"a run ends within {self._timeout:g} s",
                here=self._current_op(),
                help="give more time; a small model that takes this long does not end at all",
            ) from None
        except ChildEnded as ended:
            raise PillionError(
                f"{self._error_subject} crashed on this computer",
                rule="the C of a model runs to its end",
                here=f"{ended}, {self._current_op()}",
                help="was its C changed? `pillion compile` into another folder; if that crashes too, please report it",
            ) from None
        except PillionError:
            raise
        except BaseException:  # the rest of an incomplete message would be read as the next one
            self._child.close()
            raise

    @property
    def _state_phrase(self) -> str:
        return " and its state" if self.state_bytes else ""

    @property
    def _error_subject(self) -> str:
        return self._described.name if self._described else f"the C of {self._firmware}"

    def _current_op(self) -> str:
        """Returns the op that the model executes, as far as it is known."""
        word = b"" if self._progress.closed else os.pread(self._progress.fileno(), _WORD.size, 0)
        done = _WORD.unpack(word)[0] if len(word) == _WORD.size else _NOT_RUNNING
        names = self._described.op_names if self._described else ()
        if done < len(names):
            return f"in op {done} of {len(names)}, `{names[done]}`"
        return "before or after the model's ops"

    def _check_inputs(self, inputs: Sequence[bytes]) -> None:
        expected = [tensor.bytes for tensor in self.inputs]
        got = [len(data) for data in inputs]
        if expected != got:
            raise PillionError(
                f"the inputs do not fit {self.name}",
                rule=f"bytes of {', '.join(tensor.name for tensor in self.inputs)}: {expected}",
                here=f"bytes given: {got}",
                help="pass one bytes object for each input, in the order of the model",
            )

    def _check_guards(self, before: int, nearest_before: int, after: int, nearest_after: int) -> None:
        for side, changed, nearest in (("before", before, nearest_before), ("after", after, nearest_after)):
            if changed:
                raise PillionError(
                    f"{self.name} wrote outside its arena{self._state_phrase}",
                    rule=f"the arena has {self.arena_bytes} bytes{self._state_phrase and f', the state {self.state_bytes}'}",
                    here=f"{changed} bytes {side} the arena{self._state_phrase} were changed, the nearest {nearest} from it",
                    help="this is a defect of a kernel or of the memory plan: please report it",
                )


def build_host_program(firmware: Path, *, native: bool = False, files: Collection[str] | None = None) -> Path:
    """Returns the program that runs a firmware's model, built or cached."""
    parts = read_firmware(firmware, files)
    # -O3 takes a third less time than -O2 in portable kernels; size does not matter here.
    command = host_compiler()
    all_of_it = compiler_view_of_processor(command) if native else Processor((), "")
    compiler = Compiler(command, ("-O3", *all_of_it.flags, *C_FLAGS), all_of_it.macros)
    runner = replace(compiler, flags=(*compiler.flags, f"-DPILLION_MODEL={_descriptor_name(parts.header)}"))
    objects = [
        *compile_objects(runner, replace(parts.kernels, files=(str(RUNNER),))),
        *(object_file for sources in parts.inference for object_file in compile_objects(compiler, sources)),
    ]
    return link_objects(Compiler(compiler.command, ()), objects, parts.folder, (), _NAME)


def _descriptor_name(header: Path) -> str:
    """Returns the C name of the model's descriptor, which `model.h` declares."""
    match = re.search(r"^extern const pillion_model (\w+);", read_text(header, "C header"), re.MULTILINE)
    if match is None:
        raise PillionError(
            "the model's name is not known",
            rule="model.h says: extern const pillion_model pillion_model_NAME;",
            here=str(header),
            help="write the firmware folder again with: pillion compile",
        )
    return match[1]


def _parse_description(data: bytes) -> ModelDescription:
    """Returns the description in these bytes; raises ValueError or struct.error if they are not valid."""
    at = 0

    def number() -> int:
        nonlocal at
        at += _WORD.size
        return int(_WORD.unpack_from(data, at - _WORD.size)[0])

    def text() -> str:
        nonlocal at
        length = number()
        at += length
        return data[at - length : at].decode()

    arena_bytes, state_bytes, inputs, outputs, ops, memory_count = (number() for _ in range(6))
    name = text()
    tensors, lies_in = [], []
    for _ in range(inputs + outputs):
        offset, size, memory = number(), number(), number()
        tensors.append(HostPlace(text(), offset, size))
        lies_in.append(memory)
    memories = [number() for _ in range(memory_count)] or [arena_bytes]
    for place, memory in zip(tensors, lies_in, strict=True):
        is_fed = place.offset == NOWHERE and place in tensors[:inputs]
        if not is_fed and (memory >= len(memories) or place.offset + place.bytes > memories[memory]):
            raise ValueError(f"`{place.name}` does not lie in the arena of {arena_bytes} bytes")
    names = tuple(text() for _ in range(ops))
    return ModelDescription(
        name, arena_bytes, state_bytes, tuple(tensors[:inputs]), tuple(tensors[inputs:]), names
    )


def _foreign_firmware_error(firmware: Path, reason: str) -> PillionError:
    return PillionError(
        f"the C of {firmware} does not describe its model",
        rule="model.c gives the names, and the places of inputs and outputs in the arena",
        here=reason,
        help=f"write it again with: pillion compile MODEL -t TARGET --quantize -o {firmware}",
    )
