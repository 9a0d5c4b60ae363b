"""A synthetic camera at a door: 160 x 120 pixels in YUYV, five times a second. The recipe: a wall, a door and a floor in
a light that drifts, noise, and now and then somebody who walks by: a person, upright, or an animal, long and low."""

import numpy as np

WIDTH, HEIGHT, RATE = 160, 120, 5
KINDS = ("nobody", "person", "animal")
ROWS, COLUMNS = np.mgrid[:HEIGHT, :WIDTH].astype(np.float32)


def ellipse(y, x, height, width):
    """Where a pixel is inside of an ellipse."""
    return ((ROWS - y) / height) ** 2 + ((COLUMNS - x) / width) ** 2 < 1


def place(random):
    """The colours of a place: brightness and two colour differences of wall, door and floor, and where the door is."""
    wall, door, floor = (random.uniform((60, -12, -12), (190, 12, 12)) for _ in range(3))
    return wall, door, floor, random.uniform(15, 95), random.uniform(70, 100)


def empty(place):
    """The place without anybody: [3, 120, 160]."""
    wall, door, floor, left, ground = place
    picture = np.where(ground > ROWS, wall[:, None, None], floor[:, None, None])
    is_door = (abs(ROWS - ground + 33) < 33) & (abs(COLUMNS - left - 22) < 22)
    return np.where(is_door, door[:, None, None], picture)


def visitor(kind, y, x, size, turn, colors):
    """A visitor who stands on row y: pixels and their colour, part by part. `turn` moves the legs."""
    swing = 0.14 * size * np.sin(turn)
    if kind == 1:
        legs = [(0.2, side * swing, 0.22, 0.05) for side in (1, -1)]
        others = (0.57, 0, 0.25, 0.13), (0.9, 0, 0.11, 0.08)
    else:
        feet = enumerate((-0.2, -0.14, 0.14, 0.2))
        legs = [(0.1, foot * size + swing * (-1) ** n / 2, 0.12, 0.025) for n, foot in feet]
        others = (0.26, 0, 0.1, 0.26), (0.36, 0.3 * size, 0.09, 0.09)
    parts = zip([colors[0]] * len(legs) + [*colors[1:]], (*legs, *others))
    return [
        (ellipse(y - up * size, x + right, height * size, width * size), color)
        for color, (up, right, height, width) in parts
    ]


def yuyv(picture, light, random):
    """The camera's lines, uint8 [120, 320], of a picture [3, 120, 160] in some light."""
    y = light * picture[0] + random.normal(0, 3, (HEIGHT, WIDTH))
    u, v = (
        light * channel[:, ::2] + 128 + random.normal(0, 2, (HEIGHT, WIDTH // 2)) for channel in picture[1:]
    )
    lines = np.stack([y[:, ::2], u, y[:, 1::2], v], -1).reshape(HEIGHT, 2 * WIDTH)
    return np.clip(np.rint(lines), 0, 255).astype(np.uint8)


def record(visits, numbers, random):
    """Frames with these numbers, [frames, 120, 320], of one place. Visits have a second, a kind and a length."""
    where, light, frames = place(random), 1.0, []
    looks = [
        (random.uniform(55, 90) * (1, 0.8)[kind == 2], random.uniform((30, -25, -25), (220, 25, 25), (3, 3)))
        for _, kind, _ in visits
    ]
    ways = [(random.choice([-1, 1]), where[4] + random.uniform(5, 18)) for _ in visits]
    for n in numbers:
        picture, now = empty(where), n / RATE
        light = np.clip(light + random.normal(0, 0.004), 0.7, 1.2)
        for (start, kind, stay), (size, colors), (side, ground) in zip(visits, looks, ways):
            if start <= now < start + stay:
                x = 80 + side * ((now - start) / stay - 0.5) * 150
                for inside, color in visitor(kind, ground, x, size, 4 * now, colors):
                    picture = np.where(inside, color[:, None, None], picture)
        frames.append(yuyv(picture, light, random))
    return np.stack(frames)
