# SPDX-License-Identifier: Apache-2.0
"""Names that others write in their programs: what is renamed keeps its old name beside the new one."""

from __future__ import annotations

from importlib import import_module

import pytest

from pillion import zoo
from pillion.targets import find_target

API = {
    "pillion": "PillionError Program compile prepare_qat",
    "pillion.boards.host": "HostModel",
    "pillion.executors": "RunResult host_folder run_project",
    "pillion.quantize": "QatModule QuantizedProgram Wishes finish_training load_calibration prepare_qat ptq",
    "pillion.targets": "TARGETS find_target",
    "pillion.zoo": "MODELS build find load_weights save_weights",
}
MODELS = (
    "ds_cnn resnet8 mobilenet_v1_025 deep_autoencoder mobilenet_v2 mv2 mobilenet_v3_small mv3 mobilenet_v3 unet yolo_two_heads "
    "yolo conv_bn_relu linear_bn separable_residual"
)
TARGETS = (
    "cortex-m0plus+int8 cortex-m3+int8 cortex-m4+int8 cortex-m7+int8 cortex-m23+int8 cortex-m33+int8 cortex-m35p+int8 "
    "cortex-m55+int8 cortex-m85+int8 cortex-m55 imxrt700 imxrt700cm imxrt700+int8 mcxn947 mcxn94x"
)


@pytest.mark.parametrize("module", API)
def test_names_of_the_api_stay(module: str) -> None:
    found = import_module(module)
    assert [name for name in API[module].split() if not hasattr(found, name)] == []


def test_names_of_models_and_targets_stay() -> None:
    assert [name for name in MODELS.split() if zoo.find(name) is None] == []
    assert all(find_target(name) for name in TARGETS.split())
