import numpy as np
from features import spectrogram
from speech import recordings

import pillion

program = pillion.load("words.pte")
for noise_db in (20, 10, 0):
    clips, labels = recordings(150, seed=2, noise_db=noise_db)
    answers = np.stack([program.run(spectrogram(clip)[None])[0] for clip in clips])
    print(
        f"{noise_db:2} dB above the noise: {(answers.argmax(-1).ravel() == labels).mean():.1%} right in int8"
    )
