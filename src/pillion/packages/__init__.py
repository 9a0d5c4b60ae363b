# SPDX-License-Identifier: Apache-2.0
"""Packages of C projects in the form that other tools take: CMake, CMSIS, Zephyr, Arduino, PlatformIO."""

FORM_NAMES = ("cmake", "cmsis", "zephyr", "arduino", "platformio")
