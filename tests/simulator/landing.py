"""What lands in the simulator: files of records, and how they are planned and decoded without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from kedro_lakehouse.config.sources import SourceConfig
from kedro_lakehouse.ingestion.reading import FileReader
from kedro_lakehouse.sources.files import LandedFile

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from simulator.world import World


def land(world: World, table: str) -> None:
    """Let a file land: some records, each of an order that no other has; now and then a broken one."""
    landed, scheduler = world.landed[table], world.scheduler
    number = len(landed) + 1
    records = [
        Record(
            id=scheduler.pick(range(4)), order=100 * scheduler.pick(range(1000)) + 10 * number + row,
            op="delete" if table == "shop.item" and scheduler.chance(0.15) else "upsert",
            value=f"{number}.{row}", broken=scheduler.chance(world.broken),
        )
        for row in range(scheduler.pick([1, 1, 2, 3]))
    ]  # fmt: skip
    landed[LandedFile(f"memory://{table}/{number:03}", len(records), number)] = records


@dataclass(frozen=True)
class Record:
    """One landed record; a ``broken`` one is refused until the rules are corrected."""

    id: int
    order: int
    op: str
    value: str
    broken: bool = False


class SimulatedConfig(SourceConfig):
    """A source in memory."""

    file_format: Literal["simulated"] = Field("simulated", description="Records in memory.")


class SimulatedSource:
    """Files of the world that is being simulated."""

    config_model: ClassVar[type[SourceConfig]] = SimulatedConfig
    gives: ClassVar[Literal["changes", "extracts"]] = "changes"
    decoder = "dms"
    world: ClassVar[Any] = None

    def __init__(self, config: Any, name: Any, table: Any) -> None:
        del config, table
        self._name = name

    def files(self) -> list[LandedFile]:
        """What has landed by now."""
        world: World = SimulatedSource.world
        world.scheduler.touch(f"list {self._name}")
        if world.scheduler.current is not None and world.scheduler.chance(0.2):
            land(world, str(self._name))
        return sorted(world.landed[str(self._name)])

    def load_of(self, file: LandedFile) -> str:
        return "changes"

    def require_columns(self, looked: Any) -> None:
        """Every record has them."""

    def layout(self) -> None:
        """Records need none."""


class SimulatedReader(FileReader):
    """Reads files of records; nothing is read of them beforehand."""

    def look(self, files: Sequence[LandedFile]) -> Any:
        return list(files)

    def says_nothing(self, looked: Any) -> bool:
        return not looked

    def columns(self, looked: Any) -> Any:
        return ()

    def read(self, looked: Sequence[LandedFile]) -> Any:
        landed = SimulatedSource.world.landed[str(self.table)]
        return [(file.name, row, record) for file in looked for row, record in enumerate(landed[file])]


def events_of(
    landed: list[tuple[str, int, Record]], batch: int, corrected: Container[str]
) -> Iterator[dict[str, Any]]:
    """The checked events of landed records; those of corrected files are all valid."""
    for file, row, record in landed:
        yield {
            "id": record.id, "_order": record.order, "_op": record.op, "value": record.value,
            "_position": (file, row), "_batch": batch,
            "_reasons": ["broken"] if record.broken and file not in corrected else [],
        }  # fmt: skip
