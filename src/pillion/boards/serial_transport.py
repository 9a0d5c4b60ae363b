# SPDX-License-Identifier: Apache-2.0
"""The lines to a board: a serial port, a server of RTT, or RTT through a debug probe."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any, Protocol

from pillion.errors import PillionError

BAUD = 115_200
_WRITE_SECONDS = 5.0
_ATTACH_SECONDS = 5.0
_POLL_SECONDS = 0.002
_INSTALL = "pip install 'pillion[board]'"
EXAMPLES = "serial:/dev/ttyACM0, serial:COM3@921600, rtt:localhost:19021, pyocd:stm32f407vg"


class Transport(Protocol):
    """A line that carries bytes both ways. Each call may raise a PillionError if the line is gone."""

    seconds_per_byte: float

    def write(self, data: bytes) -> None:
        """Sends all bytes."""

    def read(self, seconds: float) -> bytes:
        """Returns the bytes that are there, after waiting for one at most so long."""

    def close(self) -> None:
        """Ends the use of the line."""


def is_board_place(on: object) -> bool:
    """Whether a name for `--on` is a line to a board."""
    return isinstance(on, str) and ":" in on and on.partition(":")[0] in _OPENERS


def open_transport(place: str) -> Transport:
    """Opens `serial:PORT[@BAUD]`, `rtt:HOST:PORT` or `pyocd:TARGET`."""
    kind, _, address = place.partition(":")
    if not address or kind not in _OPENERS:
        raise _place_error(place, "a kind of line, and its address")
    return _OPENERS[kind](place, address)


def require_board_extra(module: str) -> ModuleType:
    """Returns a module of the extra `board`; raises with its name if it is missing."""
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as error:
        raise PillionError(
            "the packages that reach boards are not installed",
            rule=f"{module.partition('.')[0]} opens the line to a board",
            here=str(error),
            help=_INSTALL,
        ) from None


def _place_error(place: str, rule: str) -> PillionError:
    return PillionError(f"{place} names no board", rule=rule, here=place, help=EXAMPLES)


class SerialTransport:
    """A port of this computer or, by RTT, one of a server, through pyserial."""

    def __init__(self, place: str, url: str, baud: int) -> None:
        self.place, self.seconds_per_byte = place, 11 / baud
        self._serial = require_board_extra("serial")
        try:
            self._port = self._serial.serial_for_url(
                url, baud, timeout=0, write_timeout=_WRITE_SECONDS, exclusive=True
            )
        except ValueError as error:
            raise _place_error(place, f"what pyserial opens: {error}") from None
        except (OSError, self._serial.SerialException) as error:
            raise _opening_error(place, error) from None

    def write(self, data: bytes) -> None:
        """Sends all bytes."""
        try:
            self._port.write_timeout = 0.5 + 2 * len(data) * self.seconds_per_byte
            self._port.write(data)
        except self._serial.SerialTimeoutException:
            pass  # the line takes nothing: the answer, or its absence, shows why
        except (OSError, self._serial.SerialException) as error:
            raise _gone_error(self.place, str(error)) from None

    def read(self, seconds: float) -> bytes:
        """Returns the bytes that are there, after waiting for one at most so long."""
        try:
            self._port.timeout = seconds
            first: bytes = self._port.read(1)
            self._port.timeout = 0
            return first + self._port.read(self._port.in_waiting) if first else b""
        except (OSError, self._serial.SerialException, TypeError) as error:
            raise _gone_error(self.place, str(error)) from None

    def close(self) -> None:
        """Ends the use of the port."""
        with suppress(OSError):
            self._port.close()


def _open_serial(place: str, address: str) -> Transport:
    port, at, speed = address.rpartition("@")
    if not at:
        port, speed = address, str(BAUD)
    if not re.fullmatch(r"[1-9]\d{0,7}", speed):
        raise _place_error(place, "a port, and after @ its speed in baud: digits")
    return SerialTransport(place, port, int(speed))


def _open_rtt_server(place: str, address: str) -> Transport:
    match = re.fullmatch(r"(?:([\w.-]+):)?(\d{1,5})", address)
    if match is None:
        raise _place_error(place, "the host and the port of a server of RTT")
    return SerialTransport(place, f"socket://{match[1] or 'localhost'}:{match[2]}", 1_000_000)


def _opening_error(place: str, error: Exception) -> PillionError:
    text = str(error)
    if "busy" in text or "exclusively lock" in text or "PermissionError(13" in text:
        return PillionError(
            f"{place} is in use by another program",
            rule="one program at a time has the port",
            here=text,
            help="close the serial monitor or the other `pillion` that has it",
        )
    if "Permission denied" in text:
        return PillionError(
            f"{place} may not be opened",
            rule="this user may read and write the port",
            here=text,
            help="sudo usermod -aG dialout $USER, and log in again",
        )
    return PillionError(
        f"{place} cannot be opened",
        rule="the board is connected, and this is its port",
        here=f"{text}; ports here: {', '.join(_known_ports()) or 'none'}",
        help=EXAMPLES,
    )


def _known_ports() -> list[str]:
    """Returns the serial ports of this computer."""
    try:
        return [port.device for port in require_board_extra("serial.tools.list_ports").comports()]
    except Exception:
        return []


def _gone_error(place: str, here: str) -> PillionError:
    return PillionError(
        f"the line {place} broke off",
        rule="the board stays connected during a run",
        here=here,
        help="connect it again; some boards get another port after a reset",
    )


class ProbeTransport:
    """RTT in the memory of a chip, read and written by pyOCD through a debug probe."""

    seconds_per_byte = 1e-5

    def __init__(self, place: str, target: str) -> None:
        self.place = place
        self._session = open_probe(place, {"target_override": target})
        try:
            self._control = self._attach()
        except BaseException:
            self._session.close()
            raise

    def _attach(self) -> Any:
        """Returns the control block, for which the chip gets some seconds to start."""
        rtt = require_board_extra("pyocd.debug.rtt")
        deadline = time.monotonic() + _ATTACH_SECONDS
        while True:
            try:
                control = rtt.RTTControlBlock.from_target(self._session.target)
                control.start()
                if control.up_channels and control.down_channels:
                    return control
                here = "a control block without channels"
            except Exception as error:  # pyOCD raises many kinds, some of them without a common base
                here = f"{type(error).__name__}: {error}"
            if time.monotonic() > deadline:
                raise PillionError(
                    f"{self.place} has no channels of RTT",
                    rule=f"the program has a control block of RTT in RAM {_ATTACH_SECONDS:g} s after its start",
                    here=here,
                    help="use a board_port.c that speaks RTT, or --on serial:PORT",
                )
            time.sleep(_POLL_SECONDS)

    def write(self, data: bytes) -> None:
        """Sends all bytes."""
        deadline = time.monotonic() + _WRITE_SECONDS
        while data:
            data = data[self._call(partial(self._control.down_channels[0].write, data)) :]
            if data and time.monotonic() > deadline:
                raise _gone_error(self.place, f"{len(data)} bytes were not taken in {_WRITE_SECONDS:g} s")

    def read(self, seconds: float) -> bytes:
        """Returns the bytes that are there, after waiting for one at most so long."""
        deadline = time.monotonic() + seconds
        while True:
            data = bytes(self._call(self._control.up_channels[0].read))
            if data or time.monotonic() > deadline:
                return data
            time.sleep(_POLL_SECONDS)

    def _call(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:
            raise _gone_error(self.place, f"{type(error).__name__}: {error}") from None

    def close(self) -> None:
        """Ends the use of the probe."""
        with suppress(Exception):
            self._session.close()


def open_probe(place: str, options: Mapping[str, object], unique_id: str | None = None) -> Any:
    """Returns an open session of pyOCD with the only probe, or with the probe of an id."""
    helpers = require_board_extra("pyocd.core.helpers")
    try:
        session = helpers.ConnectHelper.session_with_chosen_probe(
            blocking=False, return_first=unique_id is None, unique_id=unique_id, options=dict(options)
        )
        if session is not None:
            session.open()
            return session
        here = f"no probe with {unique_id}" if unique_id else "no probe"
    except Exception as error:  # pyOCD raises many kinds, some of them without a common base
        here = f"{type(error).__name__}: {error}"
    raise PillionError(
        f"no debug probe reaches {place}",
        rule="a probe that pyOCD knows is connected, and the target is one that it knows",
        here=here,
        help="pyocd list; pyocd pack find TARGET, and pyocd pack install TARGET",
    )


_OPENERS: Mapping[str, Callable[[str, str], Transport]] = {
    "serial": _open_serial,
    "rtt": _open_rtt_server,
    "pyocd": ProbeTransport,
}
