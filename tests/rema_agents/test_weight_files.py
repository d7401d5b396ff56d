"""Weights as files in shared memory: all of the last ones, none of those before, and nothing in the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from rema_agents import weight_files
from rema_agents.checksum import checksum
from rema_agents.weight_files import WeightFiles, read

CPU = torch.device("cpu")


def weights(count: int, value: float) -> dict[str, Tensor]:
    return {f"layer.{n}": torch.full((4,), value + n) for n in range(count)}


@pytest.fixture
def files() -> Iterator[WeightFiles]:
    made = WeightFiles()
    yield made
    made.remove()
    assert not Path(made.folder).exists()


def test_what_was_written_last_is_read_in_however_many_files_it_lies(
    files: WeightFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weight_files, "_SHARD_BYTES", 32)
    for count, shards in ((5, 3), (2, 1)):
        written = weights(count, 10.0 * count)
        files.write(written.items())
        assert files.written
        assert len(list(Path(files.folder).iterdir())) == shards
        assert checksum(read(files.folder, CPU)) == checksum(written.items())


def test_tensors_that_share_memory_and_lie_askew_are_written_whole(files: WeightFiles) -> None:
    square = torch.arange(6.0).reshape(2, 3)
    written = {"one": square, "same": square, "turned": square.T}
    files.write(written.items())
    read_again = dict(read(files.folder, CPU))
    assert all(torch.equal(read_again[name], tensor) for name, tensor in written.items())


def test_weights_that_broke_off_are_not_there_to_be_taken(files: WeightFiles) -> None:
    def breaks_off() -> Iterator[tuple[str, Tensor]]:
        yield "one", torch.ones(2)
        raise OSError("no space left")

    files.write(weights(2, 1.0).items())
    with pytest.raises(OSError, match="no space left"):
        files.write(breaks_off())
    assert not files.written


def test_files_that_nobody_removed_go_with_their_owner() -> None:
    files = WeightFiles()
    folder = Path(files.folder)
    assert folder.is_dir()
    del files
    assert not folder.exists()
