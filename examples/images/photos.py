"""Real photographs: the two that come with scikit-learn, a temple and a flower. Each is divided like a
chess board: the black fields are for learning, the white ones for judging, so no pixel is in both. A
sample is a square cut out of one field, at a random place and scale, in grey, with random light."""

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

PHOTOS = [Image.fromarray(photo).convert("L") for photo in load_sample_images().images]
NAMES = ("temple", "flower")
WIDTH, HEIGHT = 160, 142  # of a field: there are four by three


def squares(count, size, seed, white):
    """`count` squares of size x size pixels as float32[count, 1, size, size], and which photo each is of."""
    random = np.random.default_rng(seed)
    fields = [(x, y) for x in range(4) for y in range(3) if (x + y) % 2 == white]
    labels = np.arange(count) % 2
    images = np.empty((count, 1, size, size), np.float32)
    for image, label in zip(images, labels):
        x, y = random.choice(fields)
        side = random.integers(90, HEIGHT)
        left = x * WIDTH + random.integers(0, WIDTH - side)
        top = y * HEIGHT + random.integers(0, HEIGHT - side)
        cut = PHOTOS[label].crop((left, top, left + side, top + side)).resize((size, size))
        grey = np.asarray(cut, np.float32)
        grey = (grey - grey.mean()) / (grey.std() + 1)  # no hint from how bright a photo is
        image[0] = grey * random.uniform(0.5, 1) + random.uniform(-0.3, 0.3)
    return images, labels
