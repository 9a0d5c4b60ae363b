"""Real digits (scikit-learn has 1797 of them) and things that are none: digits whose pixels are shuffled."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


def load():
    """Images as float32[N, 1, 8, 8] between -1 and 1: to learn from, to be judged by, and their labels."""
    pixels, labels = load_digits(return_X_y=True)
    images = (pixels / 8 - 1).reshape(-1, 1, 8, 8).astype(np.float32)
    return train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)


def shuffled(images, seed):
    pixels = images.reshape(len(images), -1)
    return np.random.default_rng(seed).permuted(pixels, axis=1).reshape(images.shape)
