# SPDX-License-Identifier: Apache-2.0
"""The program argument of `eval` and `compare`: a compiled program, or a model to compile."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pillion.cli.request import (
    Request,
    compile_request,
    refuse_build_options,
    require_target,
    silence_loggers,
)
from pillion.compile_options import Loading
from pillion.compiler import load
from pillion.data.python_data import open_data
from pillion.data.reading_options import AS_IT_IS, Reading
from pillion.errors import PillionError
from pillion.host_io.atomic_files import suffix_of
from pillion.host_io.user_code import split_spec
from pillion.model_names import is_int8_file
from pillion.program import Program
from pillion.read_model import opened_tflite

if TYPE_CHECKING:
    from pillion.importers.torch.float_model import TorchModel
    from pillion.ir.quantized_model import Progress


@dataclass(frozen=True)
class NamedProgramOptions:
    """A named program or model, its compile options, and its float model."""

    request: Request
    float_model: str | None = None
    reading: Reading = AS_IT_IS
    """How calibration data is read: like the evaluation data, without labels."""

    @property
    def spec(self) -> str:
        """The name on the command line."""
        return self.request.model

    @property
    def is_compiled(self) -> bool:
        """Whether the name is a compiled program: a .pte, or a C project folder."""
        return suffix_of(self.spec) == ".pte" or Path(self.spec).is_dir()

    def program(self, progress: Progress | None = None) -> Program | Path:
        """Returns the program, compiled if necessary, or the path of a C project."""
        if not self.is_compiled:
            require_target(self.spec, self.request.target)
            return compile_request(self._request_with_calibration(), progress)
        self._refuse_options()
        if suffix_of(self.spec) == ".pte":
            return load(self.spec, self.request.target or None)
        return Path(self.spec)

    def floats(self, *, beside: bool = True) -> TorchModel | None:
        """Returns the named float model, or, with `beside`, the model itself if it computes in float."""
        spec = self.float_model
        if spec is None and (not beside or self.is_compiled):
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
        return self._load_float_model(spec)

    def _request_with_calibration(self) -> Request:
        """Returns the request with its calibration data opened; data and calibration are normalized alike."""
        path = self.request.options.quantize.calibrate
        if path is None or self.is_compiled:
            return self.request
        reading = replace(self.reading, labels=None, label_column=None, classes=())
        return replace(self.request, samples=open_data(path, reading))

    def _load_float_model(self, spec: str) -> TorchModel:

        from pillion.importers.torch.float_model import float_model

        silence_loggers()
        source = self.request.options.loading
        more: dict[str, Any] = {"trust_pickle": source.trust_pickle, "preprocess": source.preprocess}
        if suffix_of(spec) not in (".pt2", ".onnx"):
            more["weights"] = source.weights
            if not split_spec(spec)[1]:
                more["input_size"] = source.size
        return float_model(spec, **more)

    def _refuse_options(self) -> None:
        options = self.request.options
        if self.float_model is not None:
            options = replace(options, loading=Loading())
        target = self.request.target if Path(self.spec).is_dir() else ""
        refuse_build_options(self.spec, options, target)


def _float_file(spec: str) -> TorchModel | None:
    """Returns a .tflite file that computes in float as a model; None if it is int8."""
    opened = opened_tflite(spec)
    if opened is None or not opened.computes_in_float:
        return None
    from pillion.importers.tflite_float import float_module
    from pillion.importers.torch.float_model import float_model

    silence_loggers()
    return replace(float_model(*float_module(opened)), name=opened.name)
