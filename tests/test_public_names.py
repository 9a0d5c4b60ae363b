# SPDX-License-Identifier: Apache-2.0
"""Names that others write in their programs: what is renamed keeps its old name beside the new one."""

from __future__ import annotations

from importlib import import_module

import pytest

from pillion import zoo
from pillion.errors import PillionError
from pillion.targets import CORE_OF_CHIPS, find_target

API = {
    "pillion": "PillionError PlacementOptions Program compile prepare_qat",
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


@pytest.mark.parametrize(
    ("name", "help"),
    [
        ("stm32h7", "--target cortex-m7, the core of stm32h7 chips"),
        ("STM32H743ZI", "--target cortex-m7,"),
        ("stm32wba55", "--target cortex-m33,"),
        ("nrf52840", "--target cortex-m4,"),
        ("rp2040", "--target cortex-m0plus,"),
        ("imxrt1062", "--target cortex-m7,"),
        ("imxrt7000", "did you mean `imxrt700`?"),
        ("ethos-u55-128", "--target cortex-m55+ethos-u55-128,"),
        ("neutron-n3-64", "--target imxrt700,"),
        ("esp32", "`pillion targets` lists all targets"),
    ],
)
def test_a_target_that_is_none_gets_a_suggestion_instead_of_a_list(name: str, help: str) -> None:
    with pytest.raises(PillionError) as caught:
        find_target(name)
    assert caught.value.help.startswith(help)
    assert len(caught.value.rule) < 120


def test_every_suggested_core_is_a_target() -> None:
    assert all(find_target(core) for core in CORE_OF_CHIPS.values())


def test_names_of_models_and_targets_stay() -> None:
    assert [name for name in MODELS.split() if zoo.find(name) is None] == []
    assert all(find_target(name) for name in TARGETS.split())
