# SPDX-License-Identifier: Apache-2.0
"""Data as people have it: arrays, images, sounds, tables, datasets and loaders of PyTorch, functions in files. What comes out is one sample
after another, as a program's inputs want it, with its label."""
