"""Weights through a buffer arrive bit by bit, whatever their types, and need not exist together."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.multiprocessing import reductions

from rema_agents import weight_ipc
from rema_agents.checksum import Counted, checksum
from rema_agents.vllm.settings import engine_settings, goes_by_ipc
from rema_agents.weight_ipc import Receiver, chunks
from tests.served import needs_vllm

CPU = torch.device("cpu")


def mixed() -> dict[str, Tensor]:
    torch.manual_seed(0)
    return {
        "odd": torch.randn(3).bfloat16(),
        "wide": torch.randn(5, 7).double(),
        "transposed": torch.randn(4, 6).T,
        "one": torch.tensor(2.5),
        "none": torch.zeros(0, 3),
        "large": torch.randn(100),
        "last": torch.arange(5, dtype=torch.int8),
    }


def sizes(chunk: dict[str, Any]) -> list[int]:
    pairs = zip(chunk["shapes"], chunk["dtypes"], strict=True)
    return [math.prod(shape) * getattr(torch, dtype).itemsize for shape, dtype in pairs]


def test_tensors_of_any_type_arrive_as_they_were_in_parts_that_fit() -> None:
    sent, receiver, parts = Counted(lambda: mixed().items()), Receiver(CPU), []
    arrived: dict[str, Tensor] = {}
    for chunk in chunks(sent, CPU, room=300):
        arrived |= dict(receiver.take(chunk))
        parts.append(sizes(chunk))
    assert list(arrived) == list(mixed())
    assert all(
        torch.equal(arrived[name], tensor) and arrived[name].dtype == tensor.dtype for name, tensor in mixed().items()
    )
    assert checksum(arrived.items()) == sent.checksum
    assert [sum(part) for part in parts] == [286, 100, 400, 5]
    assert all(sum(part) <= 300 or len(part) <= 2 for part in parts)


def test_a_tensor_need_not_outlive_the_question_for_the_next() -> None:
    def one_at_a_time() -> Iterator[tuple[str, Tensor]]:
        place = torch.empty(8)
        for n in range(6):
            place.fill_(n)
            yield str(n), place
            place.fill_(-1)

    receiver = Receiver(CPU)
    arrived = [
        (name, tensor) for chunk in chunks(one_at_a_time(), CPU, room=70) for name, tensor in receiver.take(chunk)
    ]
    assert [(name, tensor.tolist()) for name, tensor in arrived] == [(str(n), [n] * 8) for n in range(6)]


def test_the_buffer_goes_when_all_has_been_sent() -> None:
    paths = {chunk["handle"]["path"] for chunk in chunks(mixed().items(), CPU, room=300)}
    assert len(paths) == 2, "one was large enough until the large tensor came"
    assert not any(Path(path).exists() for path in paths)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, ...]:
    """What torch shares a buffer on a GPU by, made up; the GPUs of sender and receiver are one."""
    shared = (torch.Tensor, torch.Size([9]), (1,), 0, torch.storage.TypedStorage, torch.uint8, 3, b"\x00handle", 9, 512,
              False, b"counter\xff", 64, b"event", True)  # fmt: skip
    monkeypatch.setattr(reductions, "reduce_tensor", lambda tensor: (reductions.rebuild_cuda_tensor, shared))
    monkeypatch.setattr(weight_ipc, "_name_of", lambda device: "GPU-1")
    return shared


def test_a_gpus_buffer_is_opened_with_what_torch_shared_it_by_on_the_receivers_device(
    cuda: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = list(inspect.signature(reductions.rebuild_cuda_tensor).parameters)
    assert [names[n] for n in (0, 4, 5, 6)] == ["tensor_cls", "storage_cls", "dtype", "storage_device"]
    assert len(names) == len(cuda)
    opened: list[Any] = []
    monkeypatch.setattr(reductions, "rebuild_cuda_tensor", lambda *arguments: opened.extend(arguments))
    handle = weight_ipc._cuda_handle(torch.empty(9, dtype=torch.uint8))
    weight_ipc._opened(handle, torch.device("cuda", 0))
    assert [list(a) if isinstance(a, tuple) else a for a in opened] == [*cuda[:1], [9], [1], *cuda[3:6], 0, *cuda[7:]]


@needs_vllm
@pytest.mark.xdist_group("vllm")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # what vLLM imports
def test_a_gpus_buffer_passes_vllms_coding_of_messages_without_pickle(cuda: tuple[Any, ...]) -> None:
    from vllm.v1.serial_utils import MsgpackDecoder, MsgpackEncoder

    handle = weight_ipc._cuda_handle(torch.empty(9, dtype=torch.uint8))
    chunk = {"handle": handle, "names": ["a"], "dtypes": ["bfloat16"], "shapes": [[2, 2]]}
    assert MsgpackDecoder().decode(MsgpackEncoder().encode(chunk)) == chunk


def test_a_buffer_on_another_gpu_is_refused_by_both_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_ipc, "_name_of", lambda device: "GPU-2")
    with pytest.raises(ValueError, match="the weights lie on the GPU GPU-1 and the engine is on GPU-2"):
        weight_ipc._opened({"gpu": "GPU-1", "arguments": []}, torch.device("cuda", 0))


@pytest.mark.parametrize(
    ("way", "on_cpu", "gpus", "by_ipc"),
    [("auto", True, 1, False), ("auto", False, 1, True), ("auto", False, 2, False), ("files", False, 1, False),
     ("ipc", True, 1, True)],
)  # fmt: skip
def test_weights_go_through_a_buffer_by_default_on_one_gpu_alone(
    way: str, on_cpu: bool, gpus: int, by_ipc: bool
) -> None:
    assert goes_by_ipc(way, on_cpu=on_cpu, tensor_parallel_size=gpus) is by_ipc
    told = engine_settings(on_cpu=on_cpu, by_ipc=by_ipc, gpu_memory_utilization=0.5)
    assert told.get("weight_transfer_config") == ({"backend": "ipc"} if by_ipc else None)


def test_a_way_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="weights go by auto, ipc, files, got 'nccl'"):
        goes_by_ipc("nccl", on_cpu=True, tensor_parallel_size=1)
    with pytest.raises(ValueError, match="for an engine on one GPU, not on 2: use files"):
        goes_by_ipc("ipc", on_cpu=False, tensor_parallel_size=2)
