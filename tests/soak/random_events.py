"""One cluster's life, told by a seed: what people do to it, and what befalls it.

    RandomEvents.step ─► one event (people, machines, storms, crashes) ─► some time passes
    RandomEvents.quiet ─► no more events; waits until nothing moves any more

UserActions speak to the API itself; scheduler, controllers and nodes each speak through a layer of faults.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from echelon.api.errors import ApiError
from echelon.api.scheme import PODS
from echelon.base.rng import Rng
from echelon.testing.virtual_plane import PROCESSES, Name, VirtualPlane

from .api_access import ApiAccess, Event
from .faults import FaultyVerbs, Weather
from .manifests import Maker, priority_classes
from .node_events import NodeEvents
from .user_actions import SUBMITTED, UserActions

Tell = Callable[[str], None]

#: So many submitted objects are enough for a while.
_CROWD = 30
#: Draws until one is found that there is something to do to.
_DRAWS = 500
#: Long enough for every back-off to have ended.
_STILL_SECONDS = 150.0
_PATIENCE_SECONDS = 7200.0


class RandomEvents:
    """UserActions, machines and weather around one plane.

    Seeds have characters: plain, cramped, stormy, full of trees, or full of pods that mind each other.
    """

    def __init__(self, plane: VirtualPlane, seed: int, tell: Tell) -> None:
        self.plane = plane
        self.weather = Weather(plane.clock)
        self._rng = Rng(seed)
        self._tell = tell
        character = seed % 5
        self._cramped = character == 1
        self._maker = Maker(self._rng, choosy=60 if character == 4 else 12)
        self._hand = ApiAccess(plane, self._maker)
        people = self._people = UserActions(self._hand, self._rng)
        machines = NodeEvents(self._hand, 3 if self._cramped else 5, 6 if self._cramped else 11)
        #: Processes that are down, and when they come back.
        self._down: dict[Name, float] = {}
        #: How each process speaks to the API; one of them may have a burning fuse.
        self._ways: dict[Name, FaultyVerbs] = {}
        self._burning: Name | None = None
        chances = [*people.chances(), *machines.chances(), (6, self._storm), (6, self._crash)]
        often: tuple[Event, ...] = ()
        if character == 2:
            often = (self._storm, self._crash, self._crash)
        elif character == 3:
            often = (people.submit_tree, people.submit_job_set, people.submit_gang, people.refill, people.lose_member)
        self._events = [event for weight, event in chances for _ in range(weight + 12 * often.count(event))]

    async def begin(self) -> None:
        for one in priority_classes():
            await self._hand.create(one)
        for block in range(1 if self._cramped else 2):
            for rack in range(2):
                for number in range(2):
                    await self._hand.create(self._maker.node(block, rack, number))
        for name in PROCESSES:
            self._start(name)

    async def step(self) -> None:
        """One event, and some time."""
        await self._bury()
        for name in [name for name, back in self._down.items() if back <= self.plane.clock.now()]:
            self._start(name)
        self._tell(await self._happen())
        await self.plane.clock.sleep(self._pause())

    async def _happen(self) -> str:
        """Something of which there was something to do it to."""
        crowded = await self._is_crowded()
        for _ in range(_DRAWS):
            event = self._maker.pick(self._events)
            if crowded and event.__name__.startswith("submit"):
                continue
            try:
                said = await event()
            except ApiError as error:
                # UserActions make mistakes and come too late; the server said no, that is all.
                said = f"{event.__name__.strip('_')}: refused: {error}"
            if said:
                return said
        raise AssertionError("nothing can happen any more")

    async def quiet(self, each: Callable[[], Awaitable[None]]) -> None:
        """Wait until nothing has been written for a while, with all processes up; `each` runs every few seconds."""
        await self._bury()
        for name in list(self._down):
            self._start(name)
        await self._people.let_go()
        self._tell("quiet")
        still_since, revision, end = self.plane.clock.now(), "", self.plane.clock.now() + _PATIENCE_SECONDS
        while self.plane.clock.now() - still_since < _STILL_SECONDS:
            assert self.plane.clock.now() < end, f"still busy after {_PATIENCE_SECONDS:g} s without any event"
            await self.plane.clock.sleep(10)
            await each()
            now = str(self.plane.store.revision)
            if now != revision:
                still_since, revision = self.plane.clock.now(), now

    def _pause(self) -> float:
        """Often none or an instant, sometimes minutes."""
        kind = self._rng.below(10)
        if kind < 2:
            return 0.0
        if kind < 6:
            return self._rng.below(100) / 100
        return float(self._rng.below(15)) if kind < 9 else float(15 + self._rng.below(60))

    # -- weather and accidents -------------------------------------------------------------------------

    async def _storm(self) -> str:
        seconds = self._maker.between(2, 40)
        self.weather.storm(seconds)
        return f"storm for {seconds} s"

    async def _crash(self) -> str:
        """A process dies, at once or in the middle of whatever it does next."""
        name = self._maker.pick(PROCESSES)
        if name in self._down or self._burning is not None:
            return ""
        calls = self._maker.pick((0, 1, 2, 3, 5, 8, 13))
        self._ways[name].fuse = calls
        self._burning = name
        return f"crash {name} after {calls} calls"

    async def _bury(self) -> None:
        """What was dying is dead now; it comes back sooner or later."""
        if self._burning is None:
            return
        name, self._burning = self._burning, None
        await self.plane.kill(name)
        self._down[name] = self.plane.clock.now() + self._maker.pick((0, 0, 1, 10, 30))

    def _start(self, name: Name) -> None:
        self._down.pop(name, None)
        way = FaultyVerbs(self.plane.verbs, self.plane.clock, self.weather, Rng(self._rng.word()))
        self._ways[name] = way
        self.plane.start(name, lambda _: way)

    @property
    def whole(self) -> bool:
        """Whether everything is up and the weather is fine."""
        return not self._down and self._burning is None and not self.weather.stormy

    async def _is_crowded(self) -> bool:
        return sum([len(await self._hand.all(kind)) for kind in SUBMITTED if kind is not PODS]) > _CROWD
