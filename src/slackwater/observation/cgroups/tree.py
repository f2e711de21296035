"""One kubepods tree: which cgroups it has, and what stands in their files.

Owns the discovery of groups by name and the descriptors of their files. A tick lists no
directory that did not change: kernfs shows as a directory's link count 2 + the number of its
child groups (kernfs_refresh_inode in fs/kernfs/inode.c), so one stat tells. One removal and one
creation keep that count, so a group that is gone when it is looked at makes its parent suspect.
"""

import enum
import os

import msgspec

from slackwater.model.cgroup import (
    CgroupController,
    CgroupMounts,
    CgroupReading,
    CgroupRef,
    CgroupVersion,
    CpuPressure,
    CpuTimes,
    Level,
    Tier,
)
from slackwater.model.gap import NOT_ASKED, VANISHED, Gap
from slackwater.model.needs import ReadingField
from slackwater.model.units import Bandwidth, Micros, Unlimited
from slackwater.observation.cgroups.files import GroupFolders
from slackwater.observation.cgroups.paths import container_id, pod_uid, tier_of
from slackwater.observation.cgroups.reader import CgroupReader

#: A directory's own two links, "." and the name in its parent.
_OWN_LINKS = 2
#: In a tree with more pods than this the directories of pods and containers are looked at in turns:
#: a container that joins a running pod, or takes another one's place, is seen after this many looks
#: at most. New pods are seen at once.
_SMALL_TREE = 64
_TURNS = 3


class Depth(enum.Enum):
    """How far down a tree is looked at; the value is the levels whose directories are listed."""

    TIERS = frozenset({Level.NODE})
    PODS = frozenset({Level.NODE, Level.TIER})
    CONTAINERS = frozenset({Level.NODE, Level.TIER, Level.POD})

    def lists(self, ref: CgroupRef) -> bool:
        return ref.level in self.value

    def shows(self, ref: CgroupRef) -> bool:
        """Guaranteed pods sit beside the tiers, but are none."""
        return self is not Depth.TIERS or ref.level in (Level.NODE, Level.TIER)


class Unread(msgspec.Struct, frozen=True):
    """A directory that could not be listed. What was known below it is still shown."""

    path: str
    gap: Gap


class Scan(msgspec.Struct, frozen=True):
    """The groups of a tree, parents before children."""

    refs: tuple[CgroupRef, ...]
    unread: tuple[Unread, ...] = ()


class _Listing(msgspec.Struct, frozen=True):
    """A directory as it was when it was listed. `links` is what its stat shows for that."""

    id: int
    links: int
    children: tuple[CgroupRef, ...]


class CgroupTree:
    """Guards the descriptors of one kubepods tree.

    `kubepods` is relative to the mount. At Depth.TIERS nothing below the tiers is listed, nor
    asked for its links. A container that is replaced by another between two looks is noticed
    when the old one is read or looked at.
    """

    def __init__(
        self, mounts: CgroupMounts, kubepods: str, depth: Depth = Depth.CONTAINERS
    ) -> None:
        self._mounts = mounts
        self._kubepods = kubepods
        self._depth = depth
        self._folders = GroupFolders(mounts)
        self._reader = CgroupReader(mounts, self._folders)
        self._listings: dict[str, _Listing] = {}
        self._suspects: set[str] = {kubepods}
        self._parents: tuple[CgroupRef, ...] = ()
        self._containers: tuple[CgroupRef, ...] = ()
        self._turn = 0
        self._container_turn = 0
        self._scan = Scan(())

    @property
    def version(self) -> CgroupVersion | None:
        """Of the cpu controller, whose ids are the groups'."""
        home = self._mounts.identity()
        return None if isinstance(home, Gap) else home.version

    def look_to(self, depth: Depth) -> None:
        """From now on so far down."""
        if depth is not self._depth:
            self._depth = depth
            self._suspects.add(self._kubepods)

    def scan(self) -> Scan:
        """The whole tree, listed anew."""
        self._suspects.update(self._listings, (self._kubepods,))
        return self._walk()

    def refresh(self) -> Scan:
        """The tree as it is now. What did not change is not listed again.

        The same object as before means that nothing changed.
        """
        self._turn = (self._turn + 1) % _TURNS
        large = len(self._parents) > _SMALL_TREE
        for place, ref in enumerate(self._parents):
            if large and ref.level is Level.POD and place % _TURNS != self._turn:
                continue
            self._look_at(ref)
        return self._walk() if self._suspects else self._scan

    def look_at_containers(self) -> None:
        """Before a refresh, where their counters are not read at each tick: a container that was
        replaced by another keeps its pod's link count. In a large tree they take turns."""
        containers = self._containers
        self._container_turn = (self._container_turn + 1) % _TURNS
        large = len(self._parents) > _SMALL_TREE
        for ref in containers[self._container_turn :: _TURNS] if large else containers:
            self._look_at(ref)

    def look_at_everything(self) -> None:
        """Before a refresh, where whatever starts has to be seen at once, however large the tree:
        a new container may run on CPUs that another one holds alone."""
        for ref in (*self._parents, *self._containers):
            self._look_at(ref)

    def read(self, ref: CgroupRef, wants: frozenset[ReadingField], at: Micros) -> CgroupReading:
        """What stands in the group's files. A field that is not wanted is a Gap."""
        reading = self._reader.read(ref, wants, at)
        if _saw_vanished(reading):
            self._suspects.add(_parent(ref.path))
        return reading

    def counters(
        self, ref: CgroupRef, wants: frozenset[ReadingField], quota: Bandwidth | Gap
    ) -> tuple[CpuTimes | Gap, CpuPressure | Gap]:
        """What changes at each tick, alone. `quota` is the group's, as far as it is known."""
        times: CpuTimes | Gap = NOT_ASKED
        if ReadingField.TIMES in wants:
            free = isinstance(quota, Bandwidth) and isinstance(quota.limit, Unlimited)
            times = self._reader.times_without_quota(ref) if free else self._reader.times(ref)
        pressure = self._reader.pressure(ref) if ReadingField.PRESSURE in wants else NOT_ASKED
        if times is VANISHED or pressure is VANISHED:
            self._suspects.add(_parent(ref.path))
        return times, pressure

    def keep_counters(self, groups: frozenset[int]) -> None:
        """Closes what is open of all other groups: their counters are not asked for any more."""
        self._reader.keep(groups)

    def protected(self) -> tuple[CgroupRef, ...]:
        """What best-effort work must not hurt: the burstable tier and the guaranteed pods, which
        sit beside it; known at every depth."""
        top = self._listings.get(self._kubepods)
        children = top.children if top is not None else ()
        return tuple(ref for ref in children if ref.tier is not Tier.BESTEFFORT)

    def close(self) -> None:
        self._reader.close()

    def _look_at(self, ref: CgroupRef) -> None:
        """Makes a directory suspect that has other children now, or its parent if it is gone."""
        listing = self._listings.get(ref.path)
        try:
            status = os.stat(self._folders.home(ref.path))
        except OSError:
            self._suspects.add(_parent(ref.path))
            return
        if status.st_ino != ref.id:
            self._suspects.add(_parent(ref.path))
        elif listing is not None and listing.links != status.st_nlink:
            self._suspects.add(ref.path)

    def _walk(self) -> Scan:
        """The tree from its root; lists what is suspect or unknown, and believes the rest."""
        suspects, self._suspects = self._suspects, set()
        node = self._find_node()
        if isinstance(node, Gap):
            self._suspects.add(self._kubepods)
            return self._remember(Scan((), (Unread(self._kubepods, node),)))
        gone: set[int] = set()
        unread: list[Unread] = []
        refs = [node]
        for ref in refs:  # it grows while it is walked: parents before children
            if not self._depth.lists(ref):
                continue
            match self._children(ref, suspects):
                case tuple() as children:
                    refs += children
                case gap if gap is VANISHED:
                    self._suspects.add(_parent(ref.path))
                    gone.add(ref.id)
                case gap:
                    self._suspects.add(ref.path)
                    unread.append(Unread(ref.path, gap))
                    refs += self._known_children(ref)
        shown = (ref for ref in refs if ref.id not in gone and self._depth.shows(ref))
        return self._remember(Scan(tuple(shown), tuple(unread)))

    def _remember(self, scan: Scan) -> Scan:
        """The scan, or the one before if it says the same; drops all that is no longer there."""
        if scan == self._scan:
            return self._scan
        self._scan = scan
        self._parents = tuple(ref for ref in scan.refs if ref.level is not Level.CONTAINER)
        self._containers = tuple(ref for ref in scan.refs if ref.level is Level.CONTAINER)
        paths = {ref.path for ref in self._parents}
        self._listings = {path: kept for path, kept in self._listings.items() if path in paths}
        self._reader.keep(frozenset(ref.id for ref in scan.refs))
        return scan

    def _find_node(self) -> CgroupRef | Gap:
        home = self._mounts.identity()
        if isinstance(home, Gap):
            return home
        directory = self._folders.home(self._kubepods)
        try:
            return CgroupRef(self._kubepods, os.stat(directory).st_ino, Level.NODE)
        except OSError as error:
            return Gap(f"{directory}: {error.strerror}")

    def _children(self, ref: CgroupRef, suspects: set[str]) -> tuple[CgroupRef, ...] | Gap:
        known = self._listings.get(ref.path)
        if known is not None and known.id == ref.id and ref.path not in suspects:
            return known.children
        made = self._list(ref)
        if isinstance(made, Gap):
            return made
        self._listings[ref.path] = made
        return made.children

    def _known_children(self, ref: CgroupRef) -> tuple[CgroupRef, ...]:
        known = self._listings.get(ref.path)
        return known.children if known is not None and known.id == ref.id else ()

    def _list(self, ref: CgroupRef) -> _Listing | Gap:
        try:
            fd = self._folders.open(CgroupController.CPU, ref.path, ref.id)
            if isinstance(fd, Gap):
                return fd
            try:
                # The entry's inode number is the child's id: kernfs_fop_readdir in fs/kernfs/dir.c.
                with os.scandir(fd) as entries:
                    found = [
                        (e.name, e.inode()) for e in entries if e.is_dir(follow_symlinks=False)
                    ]
            finally:
                os.close(fd)
        except OSError as error:
            return self._folders.refusal(ref.path, ref.path, ref.id, error)
        children = (_classified(ref, name, identity) for name, identity in found)
        return _Listing(
            ref.id, _OWN_LINKS + len(found), tuple(child for child in children if child is not None)
        )


def _classified(parent: CgroupRef, name: str, identity: int) -> CgroupRef | None:
    """The group of this name below this one; None if it is not part of a kubepods tree."""
    path = f"{parent.path}/{name}" if parent.path else name
    if parent.level is Level.POD:
        if container_id(name) is None:
            return None
        return CgroupRef(path, identity, Level.CONTAINER, parent.tier, parent.owner)
    tier = tier_of(name) if parent.level is Level.NODE else None
    if tier is not None:
        return CgroupRef(path, identity, Level.TIER, tier)
    uid = pod_uid(name)
    return None if uid is None else CgroupRef(path, identity, Level.POD, parent.tier, uid)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _saw_vanished(reading: CgroupReading) -> bool:
    return (
        reading.times is VANISHED
        or reading.quota is VANISHED
        or reading.burst is VANISHED
        or reading.weight is VANISHED
        or reading.idle is VANISHED
        or reading.cpus is VANISHED
        or reading.pressure is VANISHED
    )
