# SPDX-License-Identifier: Apache-2.0
"""Union-find over results and reads that share scale and zero point."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch.fx import Node

Site = Node | tuple[Node, Node]
"""The result of a node, or the read of one node by another."""


@dataclass(frozen=True)
class NormParams:
    """Parameters of a norm that determine its operand's required precision."""

    axes: int
    """Number of last axes that it normalizes."""
    centred: bool
    eps: float


@dataclass
class ScaleGroup:
    """Common parameters of some sites."""

    fixed: tuple[float, int] | None = None
    demanded: bool = False
    """Whether a device or another runtime demands the fixed parameters."""
    symmetric: bool = False
    shares: bool = False
    """Whether the values are softmax outputs in [0, 1]."""
    scores: bool = False
    """Whether a softmax along the last axis reads the values."""
    norm: NormParams | None = None
    """The norm that reads the values."""
    samples: bool = False
    """Whether the values are samples of 16 bits."""


@dataclass
class Sharing:
    """Groups of sites that share parameters."""

    _parents: dict[Site, Site] = field(default_factory=dict)
    _groups: dict[Site, ScaleGroup] = field(default_factory=dict)

    def __contains__(self, site: Site) -> bool:
        return site in self._parents

    def add(self, site: Site, fixed: tuple[float, int] | None = None) -> ScaleGroup:
        """Returns the site's group, created if necessary."""
        if site not in self._parents:
            self._parents[site] = site
            self._groups[site] = ScaleGroup(fixed)
        return self.group(site)

    def root(self, site: Site) -> Site:
        """Returns the representative of a group."""
        parent = self._parents[site]
        while parent != site:
            self._parents[site] = self._parents[parent]
            site, parent = parent, self._parents[parent]
        return site

    def group(self, site: Site) -> ScaleGroup:
        """Returns the group of a site."""
        return self._groups[self.root(site)]

    def join(self, first: Site, second: Site) -> None:
        """Merges two groups."""
        self.add(first), self.add(second)
        a, b = self.root(first), self.root(second)
        if a != b:
            self._parents[b] = a
            joined = self._groups.pop(b)
            for name in ("demanded", "symmetric", "shares", "scores", "norm", "samples"):
                setattr(self._groups[a], name, getattr(self._groups[a], name) or getattr(joined, name))
