import torch
from motion import AXES, KINDS, STEP
from torch import nn

from pillion.modules import BiquadCascade, KeywordDetector, PosteriorSmoother

WINDOW = 80  # samples: 0.8 seconds


class Classifier(nn.Module):
    """Scores of a window [1, 6, 80]."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(AXES, 16, 5, 2),
            nn.ReLU(),
            nn.Conv1d(16, 16, 5, 2, groups=16),
            nn.Conv1d(16, 24, 1),
            nn.ReLU(),
            nn.Conv1d(24, 24, 5, 2),
            nn.ReLU(),
        )
        self.out = nn.Linear(24, len(KINDS))

    def forward(self, x):
        return self.out(self.layers(x).mean(2))


class Wrist(nn.Module):
    """From 10 new samples of 6 axes to an event: 0 if nothing happened, otherwise the gesture, and its score. The
    filter takes gravity away, and the window moves on by 10 samples."""

    def __init__(self):
        super().__init__()
        self.no_gravity, self.classifier = BiquadCascade.dc_blocker(0.97, AXES), Classifier()
        self.register_buffer("past", torch.zeros(1, AXES, WINDOW - STEP))
        self.smooth = PosteriorSmoother(len(KINDS), window=4)
        self.detect = KeywordDetector(threshold=0.7, refractory=15)

    def forward(self, x):
        window = torch.cat([self.past, self.no_gravity(x.transpose(1, 2))], 2)
        self.past = window[:, :, STEP:]
        return self.detect(self.smooth(self.classifier(window).softmax(1)))


def example_inputs():
    return (torch.zeros(1, STEP, AXES),)
