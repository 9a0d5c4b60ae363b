import torch
from machine import KINDS, RATE, STEP
from scipy.signal import butter
from torch import nn

from pillion.modules import BiquadCascade, KeywordDetector, PosteriorSmoother, WindowStatistics

EVERY, POINTS, BANDS = 4, 512, 40  # one value of four of the envelope; its spectrum


class Features(nn.Module):
    """The envelope's spectrum over 0.32 seconds, in bands of 9 Hz from 30 Hz on, and statistics of the newest 0.08
    seconds, of some machines at a time: [machines, 43] of the next 512 samples of each."""

    def __init__(self, machines=1):
        super().__init__()
        self.high_pass = BiquadCascade(butter(4, 1000, "highpass", fs=RATE, output="sos"), machines)
        self.envelope = BiquadCascade(butter(2, [10, 500], "bandpass", fs=RATE, output="sos"), machines)
        self.statistics = WindowStatistics()
        self.register_buffer("past", torch.zeros(machines, POINTS - STEP // EVERY))
        self.register_buffer("window", torch.hann_window(POINTS))
        bands = torch.zeros(POINTS // 2 + 1, BANDS)
        for band in range(BANDS):
            bands[10 + 3 * band : 13 + 3 * band, band] = 1
        self.register_buffer("bands", bands)

    def forward(self, x):
        x = self.high_pass(x)
        new = self.envelope(x.abs())[:, ::EVERY]
        signal = torch.cat([self.past, new], 1)
        self.past = signal[:, STEP // EVERY :]
        power = torch.fft.rfft(signal.unfold(-1, POINTS, POINTS) * self.window).abs().square()
        spectrum = torch.log(power @ self.bands + 1e-5)[:, 0]
        deviation, _, crest, kurtosis = self.statistics(x)
        return torch.cat([spectrum, *(torch.log(v + 1e-3)[:, None] for v in (deviation, crest, kurtosis))], 1)


def classifier():
    return nn.Sequential(nn.BatchNorm1d(BANDS + 3), nn.Linear(BANDS + 3, 24), nn.ReLU(), nn.Linear(24, 3))


class Monitor(nn.Module):
    """From 512 new samples to an event: 0 if nothing happened, otherwise the kind of fault, and its score."""

    def __init__(self):
        super().__init__()
        self.features, self.classifier = Features(), classifier()
        self.smooth = PosteriorSmoother(len(KINDS), window=8)
        self.detect = KeywordDetector(threshold=0.7, refractory=25)

    def forward(self, x):
        return self.detect(self.smooth(self.classifier(self.features(x)).softmax(1)))


def example_inputs():
    return (torch.zeros(1, STEP),)
