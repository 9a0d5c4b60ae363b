"""Real photographs: the two that come with scikit-learn, a temple and a flower. A sample is a square
cut out of one of them, at a random place and scale, in grey, with random light. The left half of each
photograph is for learning, the right half for judging: no pixel is in both."""

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

PHOTOS = [Image.fromarray(photo).convert("L") for photo in load_sample_images().images]
NAMES = ("temple", "flower")


def squares(count, size, seed, right_half):
    """`count` squares of size x size pixels as float32[count, 1, size, size], and which photo each is of."""
    random = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    images = np.empty((count, 1, size, size), np.float32)
    for image, label in zip(images, labels):
        photo = PHOTOS[label]
        side = random.integers(90, 200)
        left = random.integers(0, photo.width // 2 - side) + right_half * photo.width // 2
        top = random.integers(0, photo.height - side)
        cut = photo.crop((left, top, left + side, top + side)).resize((size, size))
        grey = np.asarray(cut, np.float32)
        grey = (grey - grey.mean()) / (grey.std() + 1)  # no hint from how bright a photo is
        image[0] = grey * random.uniform(0.5, 1) + random.uniform(-0.3, 0.3)
    return images, labels
