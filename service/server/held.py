"""A request for work whose body is held back until it is whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.api.body import HELD_BODY, Body
from service.api.exchange import WAITED_SECONDS
from service.api.uploads import OVERLOADED

if TYPE_CHECKING:
    from service.api.uploads import Uploads

LONG_BYTES = 64 * 1024
"""A rest of a body from which on it is read straight into its place."""

_NO_ROOM = memoryview(b"")


class Held(Body):
    """The body so far, and how long it has been waited for."""

    __slots__ = ("_since", "_unparsed_from", "_uploads", "room")

    def __init__(self, uploads: Uploads) -> None:
        super().__init__()
        self._uploads = uploads
        self._since: float | None = None
        self._unparsed_from = 0
        self.room = _NO_ROOM
        """Where the rest of a long body belongs, for as long as it is on its way."""

    @property
    def waits(self) -> bool:
        """Whether the body did not come at once."""
        return self._since is not None

    def wait(self, now: float) -> bool:
        """The body is not whole yet. False where all bodies together are too much."""
        self._since = now
        self._uploads.begin()
        return self._uploads.grow(self.size, self.size)

    def hold(self, part: bytes) -> bool:
        """One more part came. False where all bodies together are too much."""
        self.add(part)
        return self._since is None or self._uploads.grow(len(part), self.size)

    def expect(self, length: int) -> None:
        """Make room for the rest of a body of this length, if it is long."""
        if length - self.size >= LONG_BYTES:
            self._unparsed_from = self.size
            self.room = self.make_room(length)

    def take(self, size: int) -> bool:
        """So much more stands in its room. False where all bodies together are too much."""
        self.room = self.room[size:]
        self.fill(size)
        return self._uploads.grow(size, self.size)

    def unparsed(self) -> bytes | memoryview:
        """What was taken of the body, and the parser does not know of."""
        return self.whole()[self._unparsed_from :]

    def state(self, now: float, *, overloaded: bool, is_whole: bool) -> dict[str, object]:
        """What the application is told beside the messages of ASGI, in the scope's state."""
        state: dict[str, object] = {HELD_BODY: self.whole()} if is_whole else {}
        if self._since is not None:
            state[WAITED_SECONDS] = now - self._since
            state[OVERLOADED] = overloaded
        return state

    def let_go(self) -> None:
        """It is held no longer."""
        if self._since is not None:
            self._uploads.end(self.size)
