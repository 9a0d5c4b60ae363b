# SPDX-License-Identifier: Apache-2.0
"""Trained networks for benchmarks/quality.py: digits, trained here, and the four of MLPerf Tiny from a folder of float weights (`--trained FOLDER`).

The folder has, for each, a `.json` list of TFLite's layers beside an `.npz` of their constants. Images are cut out of the photos that scikit-learn and
matplotlib bring along; log-mel frames, and one recorded word, come from the folder."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

ROOT = Path(__file__).resolve().parents[1]
FILES = {
    "persons, trained": "vww",
    "objects, trained": "ic",
    "machines, trained": "ad",
    "words, trained": "kws",
}
DIGITS = {"digits small, trained": "Small", "digits stack, trained": "Stack"}
EXAMPLES = {
    f"{name}, trained": name
    for name in ("images", "keyword-spotting", "vibration", "doorbell", "transformer")
}
TRAINED = (*FILES, *DIGITS, *EXAMPLES)
EPOCHS = 8
FRAMES = 5
"""Log-mel frames in a row that the network for machines sees."""
WORD_SCALE, WORD_ZERO_POINT = 0.5847029, 83
"""Of the recorded word, whose numbers are int8."""


class Layers(nn.Module):
    """A network of TFLite's layers without the softmax at its end: channels first, float weights."""

    def __init__(self, folder: Path, stem: str) -> None:
        super().__init__()
        layers: list[dict[str, Any]] = json.loads((folder / f"{stem}_float.json").read_text("utf-8"))
        self.layers = [layer for layer in layers if layer["op"] != "SOFTMAX"]
        self.shape = tuple(layers[0]["inputs"][0]["shape"])
        orders = {"CONV_2D": (0, 3, 1, 2), "DEPTHWISE_CONV_2D": (3, 0, 1, 2)}
        for name, held in np.load(folder / f"{stem}_float.npz").items():
            order = orders.get(layers[int(name[:2])]["op"])
            weights = torch.from_numpy(held.copy())
            self.register_buffer(
                f"c{name}", weights.permute(order).contiguous() if held.ndim == 4 and order else weights
            )

    def forward(self, x: Tensor) -> Tensor:
        """Gives the scores before the softmax. Results have no names in the file: a new name is the first result that none has read."""
        known: dict[str, Tensor] = {}
        unread = [x]
        for layer in self.layers:
            named = [one["activation"] for one in layer["inputs"] if "activation" in one]
            for name in named:
                if name not in known:
                    known[name] = unread.pop(0)
            held = [getattr(self, f"c{one['constant']}") for one in layer["inputs"] if "constant" in one]
            unread.append(_computed(layer, [known[name] for name in named], held))
        return unread[-1]


def _computed(layer: dict[str, Any], read: list[Tensor], held: list[Tensor]) -> Tensor:
    options, x = layer.get("options", {}), read[0]
    if layer["op"] == "RESHAPE":
        return x.flatten(1)
    if layer["op"] == "AVERAGE_POOL_2D":
        return F.avg_pool2d(x, (options["filterHeight"], options["filterWidth"]))
    if layer["op"] == "ADD":
        made = read[0] + read[1]
    elif layer["op"] == "FULLY_CONNECTED":
        made = F.linear(x, *held)
    else:
        made = _convolved(layer, x, *held)
    return made.relu() if options["fusedActivationFunction"] else made


def _convolved(layer: dict[str, Any], x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A convolution with TFLite's padding, which is larger behind where it is odd."""
    strides = layer["options"]["strideH"], layer["options"]["strideW"]
    around: list[int] = []
    for size, kernel, stride in zip(x.shape[2:], weight.shape[2:], strides, strict=True):
        missing = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        around = [missing // 2, missing - missing // 2, *around]
    groups = weight.shape[0] if layer["op"] == "DEPTHWISE_CONV_2D" else 1
    return F.conv2d(F.pad(x, around), weight, bias, strides, groups=groups)


def trained_network(name: str, folder: Path | None) -> tuple[nn.Module, Callable[[int, int], list[Tensor]]]:
    """Gives a trained network and what gives inputs for it: so many, of one draw."""
    if name in DIGITS:
        return _digits(DIGITS[name])
    if name in EXAMPLES:
        return _example(EXAMPLES[name])
    assert folder is not None
    if FILES[name] == "kws":
        sys.path.insert(0, str(ROOT / "tools"))
        from load_mlperf_tiny import trained_model

        return trained_model(folder, "ds_cnn").eval(), lambda count, seed: _words(folder, count, seed)
    net, stem = Layers(folder, FILES[name]).eval(), FILES[name]
    if stem == "ad":
        return net, lambda count, seed: _drawn(_machines(folder), count, seed)
    # The network for objects was trained on bytes, the one for persons on numbers from 0 to 1.
    scale = 255.0 if stem == "ic" else 1.0
    size = 32 if stem == "ic" else 96
    return net, lambda count, seed: [x * scale for x in photos(size, count, seed)]


def _digits(cls: str) -> tuple[nn.Module, Callable[[int, int], list[Tensor]]]:
    sys.path.insert(0, str(ROOT / "examples" / "digits"))
    import learn
    import nets

    torch.manual_seed(0)
    learning, judging = learn.load()
    net = learn.fit(getattr(nets, cls)(), learning, EPOCHS, learn.RATE)
    if cls == "Stack":
        nets.unbalance(net)
    return net.eval(), lambda count, seed: _drawn(
        (judging if seed % 2 else learning).images[:, None].repeat_interleave(2, 0), count, seed
    )


def _example(name: str) -> tuple[nn.Module, Callable[[int, int], list[Tensor]]]:
    """Trains an example as its own train.py does, in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        for file in (ROOT / "examples" / name).glob("*.py"):
            shutil.copy(file, folder)
        subprocess.run([sys.executable, "train.py"], cwd=folder, check=True, capture_output=True)
        held, x = np.load(Path(folder) / "weights.npz"), np.load(Path(folder) / "samples.npz")["x"]
    net: nn.Module = runpy.run_path(str(ROOT / "examples" / name / "net.py"))["Net"]()
    net.load_state_dict({key: torch.from_numpy(value) for key, value in held.items()})
    inputs = torch.from_numpy(x)[:, None]
    return net.eval(), lambda count, seed: _drawn(inputs, count, seed)


def _drawn(inputs: Tensor, count: int, seed: int) -> list[Tensor]:
    """Some of many inputs: even draws are of the even ones, odd draws of the odd ones, so that none is in both."""
    half = inputs[seed % 2 :: 2]
    chosen = torch.randperm(len(half), generator=torch.Generator().manual_seed(seed))[:count]
    return list(half[chosen])


def photos(size: int, count: int, seed: int) -> list[Tensor]:
    """Gives squares of any size cut out of photos at random, from 0 to 1."""
    made = np.random.default_rng(seed)
    whole = [Image.open(path).convert("RGB") for path in _photo_files()]
    found = []
    for _ in range(count):
        photo = whole[made.integers(len(whole))]
        side = int(made.integers(size, min(photo.size) + 1))
        left, top = (int(made.integers(0, full - side + 1)) for full in photo.size)
        cut = photo.crop((left, top, left + side, top + side)).resize((size, size), Image.Resampling.BILINEAR)
        found.append(torch.from_numpy(np.array(cut, np.float32) / 255).permute(2, 0, 1)[None].contiguous())
    return found


def _photo_files() -> Iterator[Path]:
    import matplotlib
    import sklearn.datasets

    yield from sorted((Path(sklearn.datasets.__file__).parent / "images").glob("*.jpg"))
    yield Path(matplotlib.get_data_path()) / "sample_data" / "grace_hopper.jpg"


def _machines(folder: Path) -> Tensor:
    """Frames in a row."""
    frames = torch.from_numpy(np.load(folder / "ad_frames.npy").astype(np.float32))
    return torch.stack([frames[at : at + FRAMES].reshape(1, -1) for at in range(len(frames) - FRAMES + 1)])


def _words(folder: Path, count: int, seed: int) -> list[Tensor]:
    """One recorded word at other times, louder or quieter, and with noise."""
    recorded = np.load(folder / "kws_inputs.npy")[0].astype(np.float32)
    word = torch.from_numpy((recorded - WORD_ZERO_POINT) * WORD_SCALE).permute(2, 0, 1)[None]
    made = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(count):
        shift, loud = int(torch.randint(-8, 9, (1,), generator=made)), torch.rand(1, generator=made)
        noise = torch.randn(word.shape, generator=made) * word.std((2,), keepdim=True)
        found.append(word.roll(shift, 2) * (0.85 + 0.3 * loud) + noise * 0.1)
    return found
