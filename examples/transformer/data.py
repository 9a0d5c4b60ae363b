"""The 1797 handwritten digits that come with scikit-learn, read as a sentence of eight words: the rows of
an image, from top to bottom, with eight pixels each."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


def load():
    """Rows as float32[N, 8, 8] between -1 and 1: four fifths to learn from, one to be judged by."""
    pixels, labels = load_digits(return_X_y=True)
    rows = (pixels / 8 - 1).reshape(-1, 8, 8).astype(np.float32)
    return train_test_split(rows, labels, test_size=0.2, random_state=0, stratify=labels)
