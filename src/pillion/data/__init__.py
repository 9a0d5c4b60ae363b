# SPDX-License-Identifier: Apache-2.0
"""Reads data as users have it: arrays, images, sounds, tables, PyTorch datasets and loaders, functions in files.
Yields samples with labels that fit a program's inputs."""
