# SPDX-License-Identifier: Apache-2.0
"""Boxes of detectors: decoding of anchors, of distributions and of centre points, and suppression of overlaps.

Boxes are left, top, right and bottom, in the unit of the anchors or points."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pillion.modules.arguments import require, require_table


class AnchorDecoder(nn.Module):
    """Decodes boxes around anchors, as in SSD: codes (x, y, width, height) divided by `scales` are offsets in
    sizes of the anchor and logarithms of ratios. Anchors are (x, y, width, height), x and y of the centre."""

    anchors: Tensor
    factors: Tensor

    def __init__(
        self, anchors: Tensor, scales: tuple[float, float, float, float] = (10.0, 10.0, 5.0, 5.0)
    ) -> None:
        super().__init__()
        require(len(scales) == 4 and min(scales) > 0, self, "scales are four numbers above 0", scales)
        self.register_buffer("anchors", require_table(self, "anchors", anchors, 4), persistent=False)
        self.register_buffer("factors", 1 / torch.tensor(scales), persistent=False)

    def forward(self, codes: Tensor) -> Tensor:
        """Returns the boxes [batch, anchors, 4] of codes of the same shape."""
        middles, sizes = self.anchors[:, :2], self.anchors[:, 2:]
        middle = codes[..., :2] * (self.factors[:2] * sizes) + middles
        half = (codes[..., 2:] * self.factors[2:]).exp() * (sizes / 2)
        return torch.cat([middle - half, middle + half], -1)


class DflDecoder(nn.Module):
    """Decodes the distributions of a detector trained with distribution focal loss: `bins` logits for each side,
    whose mean is its distance from the point in strides."""

    points: Tensor
    strides: Tensor
    distances: Tensor

    def __init__(self, points: Tensor, strides: Tensor, bins: int = 16) -> None:
        super().__init__()
        points = require_table(self, "points", points, 2)
        strides = require_table(self, "strides", strides, 1)
        require(
            len(points) == len(strides), self, "points and strides are as many", (points.shape, strides.shape)
        )
        require(bins >= 2, self, "bins are 2 or more", bins)
        self.bins = bins
        self.register_buffer("points", points, persistent=False)
        self.register_buffer("strides", strides, persistent=False)
        self.register_buffer("distances", torch.arange(float(bins))[:, None], persistent=False)

    def forward(self, logits: Tensor) -> Tensor:
        """Returns the boxes [batch, points, 4] of logits [batch, 4 * bins, points], left sides first."""
        by_side = logits.transpose(1, 2).reshape(len(logits), -1, 4, self.bins).softmax(-1)
        sides = (by_side @ self.distances).squeeze(-1) * self.strides
        return torch.cat([self.points - sides[..., :2], self.points + sides[..., 2:]], -1)


class CentreDecoder(nn.Module):
    """Decodes the `count` highest peaks of a heat map, as in CenterNet: a peak is the maximum of its 3x3 pixels.
    Sizes and offsets are in pixels of the map, whose side is `stride` in the unit of the boxes."""

    def __init__(self, count: int, stride: float = 4.0) -> None:
        super().__init__()
        require(count >= 1 and stride > 0, self, "count is 1 or more, stride above 0", (count, stride))
        self.count, self.stride = count, stride

    def forward(self, heat: Tensor, sizes: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns boxes [batch, count, 4], scores and classes [batch, count] of maps [batch, classes, height,
        width], [batch, 2, height, width] (width and height) and [batch, 2, height, width] (x and y)."""
        peaks = torch.where(heat >= F.max_pool2d(heat, 3, 1, 1), heat, 0.0)
        best, kinds = peaks.flatten(2).max(1)
        scores, places = best.topk(self.count, 1)
        rows, columns = (torch.arange(float(size), device=heat.device) for size in heat.shape[2:])
        grid = torch.stack(torch.meshgrid(columns, rows, indexing="xy"))
        middle, half = offsets + grid, sizes / 2
        boxes = torch.cat([middle - half, middle + half], 1).flatten(2) * self.stride
        chosen = boxes.gather(2, places[:, None].expand(-1, 4, -1)).transpose(1, 2)
        return chosen, scores, kinds.gather(1, places)


@torch.library.custom_op("pillion::non_max_suppression", mutates_args=())
def non_max_suppression(
    boxes: Tensor, scores: Tensor, most: int, iou_threshold: float, score_threshold: float
) -> Tensor:
    """Returns the positions [batch, most] of the best boxes of [batch, number, 4]; no box overlaps a better one. -1
    where no score of [batch, number] above `score_threshold` is left."""
    areas = (boxes[..., 2:] - boxes[..., :2]).relu().prod(-1)
    left = torch.where(scores > score_threshold, scores, -torch.inf)
    places = []
    for _ in range(most):
        score, place = left.max(1, keepdim=True)
        box = boxes.gather(1, place[..., None].expand(-1, -1, 4))
        sides = torch.minimum(boxes[..., 2:], box[..., 2:]) - torch.maximum(boxes[..., :2], box[..., :2])
        limit = (areas + areas.gather(1, place)) * (iou_threshold / (1 + iou_threshold))
        left = left.masked_fill(sides.relu().prod(-1) > limit, -torch.inf).scatter(1, place, -torch.inf)
        places.append(torch.where(score > -torch.inf, place, -1))
    return torch.cat(places, 1)


@non_max_suppression.register_fake
def _(boxes: Tensor, scores: Tensor, most: int, iou_threshold: float, score_threshold: float) -> Tensor:
    return scores.new_empty((len(scores), most), dtype=torch.int64)


NON_MAX_SUPPRESSION: Any = torch.ops.pillion.non_max_suppression.default
"""The operator in exported programs."""


class NonMaxSuppression(nn.Module):
    """Keeps the best `max_boxes` boxes; no box overlaps a better one by more than `iou_threshold`. Results that stay
    empty because no score is left above `score_threshold` have score 0."""

    def __init__(self, max_boxes: int, iou_threshold: float = 0.5, score_threshold: float = 0.25) -> None:
        super().__init__()
        rule = "max_boxes is 1 or more, iou_threshold and score_threshold are between 0 and 1"
        holds = max_boxes >= 1 and 0 < iou_threshold < 1 and 0 < score_threshold < 1
        require(holds, self, rule, (max_boxes, iou_threshold, score_threshold))
        self.max_boxes = max_boxes
        self.iou_threshold, self.score_threshold = iou_threshold, score_threshold

    def forward(self, boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns boxes [batch, max_boxes, 4], their scores and their places [batch, max_boxes], of boxes [batch,
        number, 4] and scores [batch, number]."""
        found = NON_MAX_SUPPRESSION(boxes, scores, self.max_boxes, self.iou_threshold, self.score_threshold)
        places = found.clamp(min=0)
        best = torch.where(found >= 0, scores.gather(1, places), 0.0)
        return boxes.gather(1, places[..., None].expand(-1, -1, 4)), best, places
