import torch
from scene import HEIGHT, KINDS, WIDTH
from torch import nn

from pillion.modules import Cascade, KeywordDetector, Normalize, PosteriorSmoother, Resize, Yuv422ToRgb


class Motion(nn.Module):
    """The largest change in a coarse picture since the frame before, in steps of a byte."""

    def __init__(self):
        super().__init__()
        self.coarse = nn.AvgPool2d(4)
        self.register_buffer("past", torch.zeros(1, 3, HEIGHT // 8, WIDTH // 8))

    def forward(self, picture):
        coarse = self.coarse(picture.float())
        changed = (coarse - self.past).abs().amax((1, 2, 3))
        self.past = coarse
        return changed[:, None]


def separable(channels, results, stride):
    """A filter for each channel, then sums of channels: two layers when compiled."""
    return nn.Sequential(
        nn.Conv2d(channels, channels, 3, stride, groups=channels, bias=False),
        nn.Conv2d(channels, results, 1, bias=False),
        nn.BatchNorm2d(results),
        nn.ReLU(),
    )


class Recognizer(nn.Module):
    """From a picture to the probabilities of nobody, a person and an animal."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            Normalize(mean=0.5, std=0.25),
            nn.Conv2d(3, 8, 3, 2),
            nn.ReLU(),
            separable(8, 16, 2),
            separable(16, 24, 2),
            separable(24, 32, 1),
        )
        self.out = nn.Linear(32, len(KINDS))

    def scores(self, picture):
        return self.out(self.layers(picture).amax((2, 3)))

    def forward(self, picture):
        return self.scores(picture).softmax(1)


class Door(nn.Module):
    """From a frame to an event: 0 if nothing happened, otherwise who came, and how sure that is."""

    def __init__(self):
        super().__init__()
        self.camera = nn.Sequential(Yuv422ToRgb(), Resize(HEIGHT // 2, WIDTH // 2))
        nobody = torch.eye(1, len(KINDS))
        self.watch = Cascade(Motion(), Recognizer(), threshold=16, otherwise=nobody)
        self.smooth = PosteriorSmoother(len(KINDS), window=5)
        self.detect = KeywordDetector(threshold=0.7, refractory=25)

    def forward(self, pairs):
        _, posteriors = self.watch(self.camera(pairs))
        return self.detect(self.smooth(posteriors))


def example_inputs():
    return (torch.zeros(1, 4, HEIGHT, WIDTH // 2, dtype=torch.uint8),)


def pairs(frames):
    """A camera's lines [frames, 120, 320] as pairs of pixels [frames, 4, 120, 80]."""
    return torch.from_numpy(frames).reshape(-1, HEIGHT, WIDTH // 2, 4).permute(0, 3, 1, 2)
