# SPDX-License-Identifier: Apache-2.0
"""A program as it is named on the command line of `eval` and `compare`: one that was written, or a model that is compiled for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pillion.cli.groups import Source
from pillion.cli.request import Request, build, hush, refuse_how
from pillion.compiler import load, opened_tflite
from pillion.data.given import open_data
from pillion.data.options import AS_IT_IS, Reading
from pillion.errors import PillionError
from pillion.named import is_int8_file
from pillion.outside.files import suffix_of
from pillion.outside.user_code import split_spec
from pillion.program import Program

if TYPE_CHECKING:
    from pillion.importers.torch.float_model import TorchModel
    from pillion.importers.torch.quantize.ptq import Progress


@dataclass(frozen=True)
class Named:
    """What was named, how it is to be compiled if it is a model, and the float model beside it."""

    request: Request
    float_model: str | None = None
    reading: Reading = AS_IT_IS
    """How calibration data is read: as the data that the program is run on, but for its labels."""

    @property
    def spec(self) -> str:
        """What stands on the command line."""
        return self.request.model

    @property
    def is_written(self) -> bool:
        """Whether this is a program already: a .pte, or the folder of a C project."""
        return suffix_of(self.spec) == ".pte" or Path(self.spec).is_dir()

    def program(self, progress: Progress | None = None) -> Program | Path:
        """Gives the program, compiled where it has to be; a C project stays in its folder."""
        if not self.is_written:
            self._want_target()
            return build(self._calibrated(), progress)
        self._refuse_options()
        if suffix_of(self.spec) == ".pte":
            return load(self.spec, self.request.target or None)
        return Path(self.spec)

    def floats(self, *, beside: bool = True) -> TorchModel | None:
        """Gives the float model: the one that was named, or the model itself where it is in float and that is wished for."""
        spec = self.float_model
        if spec is None and (not beside or self.is_written):
            return None
        named = spec or self.spec
        if suffix_of(named) == ".tflite" and (found := _float_file(named)):
            return found
        if spec is None:
            if is_int8_file(self.spec):
                return None
            spec = self.spec
        elif is_int8_file(spec) or Path(spec).is_dir():
            raise PillionError(
                f"{spec} is no model in float",
                rule="--float names a model of PyTorch",
                here=f"suffix {suffix_of(spec)}" if suffix_of(spec) else "a folder",
                help="--float file.py:Net, a name that `pillion models` lists, or a .pt2",
            )
        return self._load(spec)

    def _calibrated(self) -> Request:
        """The request with calibration data that is opened: what normalizes the one data normalizes the other."""
        path = self.request.how.quantizing.calibrate
        if path is None or self.is_written:
            return self.request
        reading = replace(self.reading, labels=None, label_column=None, classes=())
        return replace(self.request, samples=open_data(path, reading))

    def _load(self, spec: str) -> TorchModel:

        from pillion.importers.torch.float_model import float_model

        hush()
        source = self.request.how.source
        more: dict[str, Any] = {"trust_pickle": source.trust_pickle}
        if suffix_of(spec) != ".pt2":
            more["weights"] = source.weights
            if not split_spec(spec)[1]:
                more["input_size"] = source.size
        return float_model(spec, **more)

    def _want_target(self) -> None:
        if not self.request.target:
            raise PillionError(
                f"`{self.spec}` is compiled for nothing",
                rule="a program that `pillion compile` wrote (.pte, C project), or a model with --target",
                here="no --target",
                help="--target cortex-m55 (`pillion targets` lists all)",
            )

    def _refuse_options(self) -> None:
        how = self.request.how
        if self.float_model is not None:
            how = replace(how, source=Source())
        target = self.request.target if Path(self.spec).is_dir() else ""
        refuse_how(self.spec, how, target)


def _float_file(spec: str) -> TorchModel | None:
    """A .tflite file that computes in float, as the model that it is; nothing where it is int8."""
    opened = opened_tflite(spec)
    if opened is None or not opened.computes_in_float:
        return None
    from pillion.importers.tflite_float import float_module
    from pillion.importers.torch.float_model import float_model

    hush()
    return replace(float_model(*float_module(opened)), name=opened.name)
