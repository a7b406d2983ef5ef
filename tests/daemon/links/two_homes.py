"""Two homes with a link, their daemons in one process: frames go from one to the other by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from narval.ask.asker import PROGRAM
from narval.ask.operations import invoke
from narval.daemon.daemon import Daemon
from tests.daemon.at_work import Scene

TOKEN = "0" * 64
OTHER = {"home": "office", "office": "home"}


class TwoHomes:
    """The homes `home` and `office`, each the other's peer under its name."""

    def __init__(self, folder: Path, settings: str = "", **files: str) -> None:
        self.scenes = {
            name: Scene(folder / name, settings=settings or "timezone = 'UTC'\n") for name in OTHER
        }
        for name, scene in self.scenes.items():
            digest = TOKEN if name == "home" else "1" * 64
            scene.write("etc/peers.toml", f'[{OTHER[name]}]\ntoken_sha256 = "{digest}"\nagents = ["*"]\n')
        self.daemons: dict[str, Daemon] = {}
        self.frames = dict.fromkeys(OTHER, b"")
        """All that each home has said to the other."""

    def write(self, name: str, path: str, text: str) -> None:
        """A file of a home."""
        self.scenes[name].write(path, text)

    async def open(self, *names: str) -> None:
        """Start daemons; without a name both."""
        for name in names or OTHER:
            self.daemons[name] = await self.scenes[name].open()

    async def close(self, *names: str) -> None:
        """End daemons; without a name all."""
        for name in names or [*self.daemons]:
            del self.daemons[name]
            await self.scenes[name].end()

    async def ask(self, home: str, operation: str, agent: str = "", /, **arguments: Any) -> Any:
        """An operation of a home, of the home's own agent unless another is named."""
        return await invoke(self.daemons[home], PROGRAM.asking(agent), operation, arguments)

    async def frame(self, name: str, frame: bytes | None = None) -> bytes:
        """The next frame of a home, for one that has come."""
        answer = await self.ask(name, "exchange", peer=OTHER[name], frame=frame)
        assert isinstance(answer, bytes)
        self.frames[name] += answer
        return answer

    async def exchange(self, times: int = 4, asking: str = "home") -> None:
        """Let frames go there and back, from a beginning on."""
        frame = await self.frame(asking)
        for _ in range(times):
            answer = await self.frame(OTHER[asking], frame)
            frame = await self.frame(asking, answer)
        await self.rest()

    async def rest(self) -> None:
        """Let both come to rest."""
        for daemon in self.daemons.values():
            await daemon.main_loop.until_idle()

    async def send(self, name: str, to: str, *texts: str, agent: str = "", **more: Any) -> list[str]:
        """Send elements from a home."""
        elements = [text.encode() for text in texts]
        return list((await self.ask(name, "send", agent, to=to, elements=elements, **more))["messages"])

    async def memory(self, name: str, xpath: str, agent: str = "") -> list[dict[str, Any]]:
        """The elements of an agent."""
        await self.daemons[name].main_loop.until_idle()
        return list(await self.ask(name, "memory", agent, xpath=xpath))
