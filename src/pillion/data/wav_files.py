# SPDX-License-Identifier: Apache-2.0
"""Sounds from untrusted .wav files, converted to model inputs."""

from __future__ import annotations

import wave
from pathlib import Path
from shlex import quote

import numpy as np

from pillion.data.reading_options import Reading
from pillion.data.sample import Array, InputSpec, element_count, input_mismatch_error, normalize_channels
from pillion.errors import PillionError
from pillion.host_io.atomic_files import regular_file

MOST_BYTES = 1 << 28


def read_sound(path: Path) -> Array:
    """Reads a .wav file as mono in -1..1; channels are averaged."""
    size = regular_file(path, ".wav", MOST_BYTES).stat().st_size
    try:
        with wave.open(str(path), "rb") as sound:
            width, channels, frames = sound.getsampwidth(), sound.getnchannels(), sound.getnframes()
            if frames * width * channels > size:
                raise ValueError(f"it claims {frames:,} samples, the file has {size:,} bytes")
            raw = sound.readframes(frames)
        if len(raw) != frames * width * channels:
            raise ValueError(f"it ends after {len(raw):,} of {frames * width * channels:,} bytes")
        samples = _decode_samples(raw, width)
    except (wave.Error, EOFError, ValueError, OSError, RuntimeError) as error:
        raise PillionError(
            f"the sound {path} cannot be read",
            rule="a .wav file of whole numbers (PCM) with 8, 16, 24 or 32 bits",
            here=(str(error).splitlines() or ["it ends in the middle of its header"])[0],
            help="ffmpeg -i IN.wav -c:a pcm_s16le OUT.wav writes such a file",
        ) from None
    return samples.reshape(-1, channels).mean(axis=1, dtype=np.float32)


def rate_of(path: Path) -> int:
    """Returns the sample rate of a .wav file in Hz; 0 if it cannot be read."""
    try:
        with wave.open(str(path), "rb") as sound:
            return sound.getframerate()
    except (wave.Error, EOFError, OSError, RuntimeError):
        return 0  # read_sound reports the error


def require_same_rate(path: Path, first: Path) -> None:
    """Raises if a sound's sample rate differs from the first sound's."""
    rate, first_rate = rate_of(path), rate_of(first)
    if rate and first_rate and rate != first_rate:
        raise PillionError(
            f"the sounds {first.name} and {path.name} have different rates",
            rule="all sounds of the data have one number of samples a second; none is resampled unasked",
            here=f"{first}: {first_rate:,} Hz, {path}: {rate:,} Hz",
            help=f"ffmpeg -i {quote(path.name)} -ar {first_rate} OUT.wav resamples one",
        )


def _decode_samples(raw: bytes, width: int) -> Array:
    """Decodes little-endian samples of a byte width; 8-bit samples are unsigned."""
    if width == 1:
        return (np.frombuffer(raw, np.uint8).astype(np.float32) - 128) / np.float32(128)
    if width == 3:
        padded = np.zeros((len(raw) // 3, 4), np.uint8)
        padded[:, 1:] = np.frombuffer(raw, np.uint8).reshape(-1, 3)
        return padded.view("<i4").reshape(-1).astype(np.float32) / np.float32(2**31)
    if width not in (2, 4):
        raise ValueError(f"{8 * width} bits a sample")
    dtype = np.dtype(f"<i{width}")
    return np.frombuffer(raw, dtype).astype(np.float32) / np.float32(2 ** (8 * width - 1))


def as_input(sound: Array, wanted: InputSpec, reading: Reading, place: str) -> Array:
    """Converts a sound to one sample of an input; when fitting, cuts its middle or pads with silence."""
    length = element_count(wanted.of_one)
    if max(wanted.of_one, default=1) != length:
        raise input_mismatch_error(
            place,
            wanted,
            f"{len(sound):,} numbers of one channel",
            rule="sounds go as they are into inputs with one long axis",
            help="--transform file.py:function makes features of a sound, for instance a spectrogram",
        )
    if len(sound) != length:
        sound = _crop_or_pad(sound, length, wanted, reading, place)
    return normalize_channels(sound, reading).reshape(1, *wanted.of_one)


def _crop_or_pad(sound: Array, length: int, spec: InputSpec, reading: Reading, location: str) -> Array:
    if reading.fit != "crop":
        raise input_mismatch_error(
            location,
            spec,
            f"{len(sound):,} numbers",
            rule=f"sounds of {length:,} numbers",
            help="--fit crop takes the middle of longer ones, and puts silence around shorter ones",
        )
    if len(sound) > length:
        start = (len(sound) - length) // 2
        return sound[start : start + length]
    before = (length - len(sound)) // 2
    return np.pad(sound, (before, length - len(sound) - before))
