import torch
from torch import nn

from pillion.modules import KeywordDetector, PosteriorSmoother

RATE, FRAME, HOP, POINTS, BANDS = 16000, 480, 320, 512, 32  # samples, but for the last
SAMPLES = 49 * HOP + FRAME  # of a window: 50 frames


def filters():
    """Triangles, evenly spaced on the mel scale of hearing: [257, 32]."""
    mel = torch.linspace(60, 2700, BANDS + 2)
    edges = 700 * (10 ** (mel / 2595) - 1)
    bins = torch.linspace(0, RATE / 2, POINTS // 2 + 1)[:, None]
    left, middle, right = edges[:-2], edges[1:-1], edges[2:]
    return torch.minimum((bins - left) / (middle - left), (right - bins) / (right - middle)).clamp(min=0)


class Spotter(nn.Module):
    """From a second of sound to the scores of something else and of the wake word. No layer has padding in time."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(FRAME))
        self.register_buffer("filters", filters())
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, (5, 4), stride=(1, 2), padding=(0, 1)),
            nn.ReLU(),
            nn.Conv2d(16, 16, (5, 3), padding=(0, 1), groups=16),
            nn.Conv2d(16, 24, 1),
            nn.ReLU(),
            nn.Conv2d(24, 24, (9, 3), stride=(1, 2), padding=(0, 1), groups=24),
            nn.Conv2d(24, 24, 1),
            nn.ReLU(),
        )
        self.classifier = nn.Linear(24 * 8, 2)

    def features(self, samples):
        spectrum = torch.stft(samples, POINTS, HOP, FRAME, self.window, center=False, return_complex=True)
        mel = spectrum.abs().square().transpose(1, 2) @ self.filters
        return torch.log(mel + 1e-4)[:, None]

    def scores(self, features):
        return self.classifier(self.layers(features).amax(2).flatten(1))

    def forward(self, samples):
        return self.scores(self.features(samples))


class WakeWord(nn.Module):
    """From each second of sound to an event, 1 if the word was heard, and how sure that is."""

    def __init__(self, spotter):
        super().__init__()
        self.spotter = spotter
        self.smoother = PosteriorSmoother(2, window=8)
        self.detector = KeywordDetector(threshold=0.8, refractory=50)

    def forward(self, samples):
        return self.detector(self.smoother(self.spotter(samples).softmax(1)))


def wake_word():
    return WakeWord(Spotter())


def example_inputs():
    return (torch.zeros(1, SAMPLES),)
