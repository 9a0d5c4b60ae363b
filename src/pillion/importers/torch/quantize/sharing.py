# SPDX-License-Identifier: Apache-2.0
"""Which tensors of a graph have the same scale and zero point: a union-find over results and over reads of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch.fx import Node

Site = Node | tuple[Node, Node]
"""The result of a node, or the read of one node by another."""


@dataclass(frozen=True)
class Norm:
    """What of a norm decides how finely its operand has to be held."""

    axes: int
    """The number of last axes over which it goes."""
    centred: bool
    eps: float


@dataclass
class Group:
    """The sites that have common parameters, and what is known of these."""

    fixed: tuple[float, int] | None = None
    symmetric: bool = False
    shares: bool = False
    """Whether they hold shares of one, each in [0, 1]."""
    scores: bool = False
    """Whether a softmax along the last axis reads them."""
    norm: Norm | None = None
    """The norm that reads them, if one does."""


@dataclass
class Sharing:
    """The groups of sites that share parameters. Groups with fixed parameters never merge with others."""

    _parents: dict[Site, Site] = field(default_factory=dict)
    _groups: dict[Site, Group] = field(default_factory=dict)

    def __contains__(self, site: Site) -> bool:
        return site in self._parents

    def add(self, site: Site, fixed: tuple[float, int] | None = None) -> Group:
        """Gives the site's group, a new one if need be."""
        if site not in self._parents:
            self._parents[site] = site
            self._groups[site] = Group(fixed)
        return self.group(site)

    def root(self, site: Site) -> Site:
        """Gives the site that speaks for a group."""
        parent = self._parents[site]
        while parent != site:
            self._parents[site] = self._parents[parent]
            site, parent = parent, self._parents[parent]
        return site

    def group(self, site: Site) -> Group:
        """Gives the group of a site."""
        return self._groups[self.root(site)]

    def join(self, first: Site, second: Site) -> None:
        """Makes one group of two."""
        self.add(first), self.add(second)
        a, b = self.root(first), self.root(second)
        if a != b:
            self._parents[b] = a
            joined = self._groups.pop(b)
            self._groups[a].symmetric |= joined.symmetric
            self._groups[a].shares |= joined.shares
            self._groups[a].scores |= joined.scores
            self._groups[a].norm = self._groups[a].norm or joined.norm
