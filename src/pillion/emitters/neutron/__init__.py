# SPDX-License-Identifier: Apache-2.0
"""What the NPU is given: NXP's own code where its SDK is installed, else the segment as TFLite under Pillion's mark."""

from __future__ import annotations

from pillion.emitters.neutron.payload import DevicePayload, Payload, Port, compose, parse
from pillion.schemas.ir_payload import IrPayload, ir_payload

__all__ = ["DevicePayload", "IrPayload", "Payload", "Port", "compose", "ir_payload", "parse"]
