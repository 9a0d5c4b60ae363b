"""Trains both networks, writes their C, and six images with the answers that the firmware must give."""

import numpy as np
import torch
from nets import Guard, Reader
from torch.nn import functional as F

import pillion
from data import load, shuffled

TARGET = "cortex-m33+int8"


def fit(net, images, labels):
    """Trains for ten epochs and compiles for int8 images."""
    x, y = torch.from_numpy(images), torch.from_numpy(labels)
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    for _ in range(10):
        for chosen in torch.randperm(len(y)).split(32):
            loss = F.cross_entropy(net(x[chosen]), y[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    name = type(net).__name__.lower()
    samples = [(image[None],) for image in x[:200]]
    return pillion.compile(
        net.eval(), x[:1], target=TARGET, calibrate=samples, name=name, io_dtype="int8", io_layout="nhwc"
    )


def as_int8(program, images):
    """What a camera would have to send: the images in the scale of the program's input."""
    quantization = program.graph.inputs[0].type.quant
    q = np.round(images / quantization.scale + quantization.zero_point)
    return np.clip(q, -128, 127).astype(np.int8).reshape(len(images), 1, 8, 8, 1)


def classes(program, images):
    return np.array([program.run(image)[0].argmax() for image in as_int8(program, images)])


torch.manual_seed(0)
torch.set_num_threads(1)
learning, judging, labels, truth = load()
others = shuffled(learning, seed=1)
guard = fit(Guard(), np.concatenate([learning, others]), np.repeat([1, 0], len(learning)))
reader = fit(Reader(), learning, labels)

strange = shuffled(judging, seed=2)
print(f"guard: {classes(guard, judging).mean():.1%} of digits pass,", end=" ")
print(f"{classes(guard, strange).mean():.1%} of other things pass")
print(f"reader: {(classes(reader, judging) == truth).mean():.1%} of digits are right")

guard.save("guard/")
reader.save("reader/")
images = np.stack([judging[0], strange[0], judging[1], strange[1], judging[2], judging[3]])
assert (as_int8(guard, images) == as_int8(reader, images)).all()  # the same scale: -1 to 1
passed, digits = classes(guard, images), classes(reader, images)
with open("expected.txt", "w") as file:
    file.writelines(f"digit {d}\n" if p else "nothing\n" for p, d in zip(passed, digits))
pixels = ",\n".join("{" + ", ".join(map(str, image.ravel())) + "}" for image in as_int8(guard, images))
with open("images.h", "w") as file:
    file.write(
        f"enum {{ IMAGES = {len(images)} }};\nstatic const int8_t images[IMAGES][64] = {{\n{pixels}}};\n"
    )
