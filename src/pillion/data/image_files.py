# SPDX-License-Identifier: Apache-2.0
"""Images from untrusted files, converted to model inputs."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from pillion.data.reading_options import Reading
from pillion.data.sample import Array, InputSpec, input_mismatch_error, normalize_channels
from pillion.errors import PillionError, error_reason
from pillion.host_io.atomic_files import regular_file

KINDS = ("PNG", "JPEG", "BMP", "PPM", "WEBP")
"""Accepted formats, by Pillow's names: still images with 8 bits."""
MOST_BYTES = 1 << 28
MOST_PIXELS = 1 << 26
"""Largest image decoded: 64 million pixels, whatever a file's header claims."""
MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")
"""Pillow modes with 8 bits per channel."""
BYTES = 255.0


def require_pillow() -> None:
    """Raises if Pillow is not installed."""
    if importlib.util.find_spec("PIL") is None:
        raise PillionError(
            "images cannot be read",
            rule="images are read by Pillow",
            here="no package `PIL` in this environment",
            help="pip install 'pillion[data]'",
        )


def read_image(path: Path, wanted: InputSpec, reading: Reading) -> Array:
    """Reads an image as uint8 [height, width, channels] with the input's channels and, when fitting, its size."""
    height, width, channels, _ = image_layout(wanted, str(path))
    image = _decode_image(path)
    image = image.convert("L" if channels == 1 else "RGB")
    if image.size != (width, height):
        image = _fit_to_size(image, width, height, reading, path, wanted)
    return np.asarray(image, np.uint8).reshape(height, width, channels)


def read_image_as_it_is(path: Path) -> Array:
    """Reads an image as uint8 [height, width, 3], for the user's transform."""
    return np.asarray(_decode_image(path).convert("RGB"), np.uint8)


def _decode_image(path: Path) -> Any:
    """Returns the decoded image. All of Pillow's errors become one."""
    require_pillow()
    from PIL import Image

    regular_file(path, "image", MOST_BYTES)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = Image.open(path, formats=KINDS)
            if image.width * image.height > MOST_PIXELS:
                raise ValueError(
                    f"it claims {image.width} x {image.height} pixels, {MOST_PIXELS:,} are the most"
                )
            if image.mode not in MODES:
                raise ValueError(f"its pixels are of mode {image.mode}, not 8 bits a channel")
            image.load()
    except Exception as error:  # decoders raise any error: OSError, SyntaxError, struct.error, …
        raise PillionError(
            f"the image {path} cannot be read",
            rule=f"images are {', '.join(KINDS)} with 8 bits a channel",
            here=error_reason(error),
            help="open it in a viewer and save it again, or take it out of the folder",
        ) from None
    return image


def _fit_to_size(image: Any, width: int, height: int, reading: Reading, path: Path, spec: InputSpec) -> Any:
    from PIL import Image

    if reading.fit == "exact":
        raise input_mismatch_error(
            str(path),
            spec,
            f"an image of {image.height} x {image.width}",
            rule=f"images of {height} x {width} pixels",
            help="--fit resize stretches images, --fit crop scales the shorter side and cuts out the middle; or compile for their size",
        )
    if reading.fit == "resize":
        return image.resize((width, height), Image.Resampling.BILINEAR)
    factor = max(width / image.width, height / image.height)
    size = (max(width, round(image.width * factor)), max(height, round(image.height * factor)))
    if size[0] * size[1] > MOST_PIXELS:
        raise input_mismatch_error(
            str(path),
            spec,
            f"{image.height} x {image.width} pixels",
            rule="a shape that can be cut to the model's",
        )
    left, top = (size[0] - width) // 2, (size[1] - height) // 2
    return image.resize(size, Image.Resampling.BILINEAR).crop((left, top, left + width, top + height))


def image_layout(wanted: InputSpec, place: str) -> tuple[int, int, int, bool]:
    """Returns height, width and channels of an input, and whether channels are the last axis."""
    match wanted.of_one:
        case (1 | 3 as channels, height, width):
            return height, width, channels, False
        case (height, width, 1 | 3 as channels):
            return height, width, channels, True
        case (height, width):
            return height, width, 1, True
    raise input_mismatch_error(
        place,
        wanted,
        f"input `{wanted.name}` is {wanted}",
        rule="images go into inputs with height, width and 1 or 3 channels",
        help="--transform file.py:function makes an input of an image; file.py:function as --data gives whole samples",
    )


def as_input(image: Array, wanted: InputSpec, reading: Reading) -> Array:
    """Converts a uint8 image to one sample of an input: divided by 255, normalized, in the input's layout. Inputs that
    are bytes get the image as it is, unless it is normalized."""
    is_normalized = reading.mean or reading.std or reading.divide
    real = (
        image
        if wanted.is_bytes and not is_normalized
        else normalize_channels(image.astype(np.float32), reading, image.shape[-1], divide=BYTES)
    )
    _, _, _, channels_last = image_layout(wanted, "an image")
    return (real if channels_last else real.transpose(2, 0, 1)).reshape(1, *wanted.of_one)
