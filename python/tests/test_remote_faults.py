"""The loader behind the proxy of tests/remote: whatever happens on the way, its samples are those on the disk."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import shardkit as sk

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "remote"))
import servers
from fault_proxy import KINDS, FaultProxy, Faults


def epoch(path: str) -> list[bytes]:
    loader = sk.Loader(path, 16, seed=3, columns=["label", "vector"])
    return [batch["label"].tobytes() + batch["vector"].tobytes() for batch in loader]


@pytest.mark.parametrize("kind", [*KINDS, "all"])
def test_an_epoch_is_that_of_the_disk(dataset: str, kind: str) -> None:
    shares = {kind: 0.2} if kind in KINDS else dict.fromkeys(KINDS, 0.05)
    with servers.plain(dataset) as origin, FaultProxy(origin, Faults(seed=1, shares=shares, stall=0.2)) as proxy:
        assert epoch(proxy.origin) == epoch(dataset)
        assert any(request.kind for request in proxy.requests)


def test_an_object_that_changes_ends_the_epoch(dataset: str) -> None:
    with servers.plain(dataset) as origin, FaultProxy(origin, Faults(change_after=3)) as proxy:
        with pytest.raises(Exception, match=r"\.shard.*status 412 \(request id proxy-.*has changed") as raised:
            epoch(proxy.origin)
        place: Any = raised.value
        assert proxy.origin in str(place)
