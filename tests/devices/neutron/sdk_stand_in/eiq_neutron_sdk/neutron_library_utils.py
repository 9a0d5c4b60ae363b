# SPDX-License-Identifier: Apache-2.0
import os
from types import SimpleNamespace


def getNeutronTargets():  # the SDK's spelling
    properties = (("imxrt700", False), ("imx95", True), ("mcxn94x", False))
    if os.environ.get("STAND_IN") == "newer_targets":
        return [SimpleNamespace(name=n, npu=SimpleNamespace(subsystem=s)) for n, s in properties]
    return [SimpleNamespace(name=n, subsystem=s) for n, s in properties]


def isNeutronTarget(name):
    return name in [target.name for target in getNeutronTargets()]
