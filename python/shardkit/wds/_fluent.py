"""The stages of a pipeline as methods, as webdataset has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from shardkit.wds import _stages
from shardkit.wds._order import shuffle

_Fluent = TypeVar("_Fluent", bound="Fluent")


class Fluent:
    """Methods that return a copy of the pipeline with one more stage."""

    def compose(self: _Fluent, *args: Any) -> _Fluent:
        """Return a copy with more stages."""
        raise NotImplementedError

    def shuffle(self: _Fluent, size: int, **kw: Any) -> _Fluent:
        """As the function `shuffle`; 0 leaves the order."""
        return self.compose(shuffle(size, **kw))

    def decode(self: _Fluent, *args: Any, **kw: Any) -> _Fluent:
        """As the function `decode`."""
        return self.compose(_stages.decode(*args, **kw))

    def map(self: _Fluent, f: Callable[[Any], Any], handler: Any = _stages.reraise_exception) -> _Fluent:
        """As the function `map`."""
        return self.compose(_stages.map(f, handler))

    def map_dict(self: _Fluent, handler: Any = _stages.reraise_exception, **kw: Any) -> _Fluent:
        """As the function `map_dict`."""
        return self.compose(_stages.map_dict(handler, **kw))

    def map_tuple(self: _Fluent, *args: Any, handler: Any = _stages.reraise_exception) -> _Fluent:
        """As the function `map_tuple`."""
        return self.compose(_stages.map_tuple(*args, handler=handler))

    def select(self: _Fluent, predicate: Callable[[Any], Any]) -> _Fluent:
        """As the function `select`."""
        return self.compose(_stages.select(predicate))

    def to_tuple(self: _Fluent, *args: Any, **kw: Any) -> _Fluent:
        """As the function `to_tuple`."""
        return self.compose(_stages.to_tuple(*args, **kw))

    def rename(self: _Fluent, **kw: Any) -> _Fluent:
        """As the function `rename`."""
        return self.compose(_stages.rename(**kw))

    def rename_keys(self: _Fluent, *args: Any, **kw: Any) -> _Fluent:
        """As the function `rename_keys`."""
        return self.compose(_stages.rename_keys(*args, **kw))

    def extract_keys(self: _Fluent, *args: Any, **kw: Any) -> _Fluent:
        """As the function `extract_keys`."""
        return self.compose(_stages.extract_keys(*args, **kw))

    def associate(self: _Fluent, associator: Any) -> _Fluent:
        """As the function `associate`."""
        return self.compose(_stages.associate(associator))

    def rsample(self: _Fluent, p: float = 0.5) -> _Fluent:
        """As the function `rsample`."""
        return self.compose(_stages.rsample(p))

    def log_keys(self: _Fluent, logfile: str | None = None) -> _Fluent:
        """As the function `log_keys`."""
        return self.compose(_stages.log_keys(logfile))

    def slice(self: _Fluent, *args: Any) -> _Fluent:
        """As `itertools.islice`."""
        return self.compose(_stages.slice(*args))

    def batched(
        self: _Fluent, batchsize: int, collation_fn: Any = _stages.default_collation_fn, partial: bool = True
    ) -> _Fluent:
        """As the function `batched`."""
        return self.compose(_stages.batched(batchsize, collation_fn, partial))

    def listed(self: _Fluent, batchsize: int, partial: bool = True) -> _Fluent:
        """Make lists of so many samples."""
        return self.compose(_stages.batched(batchsize, None, partial))

    def unbatched(self: _Fluent) -> _Fluent:
        """As the function `unbatched`."""
        return self.compose(_stages.unbatched())

    def unlisted(self: _Fluent) -> _Fluent:
        """As the function `unlisted`."""
        return self.compose(_stages.unlisted())

    def xdecode(self, *_: Any, **__: Any) -> NoReturn:
        """Not here."""
        raise NotImplementedError("xdecode is not here: decode(wds.handle_extension(...)) has a function by extension")

    def mcached(self) -> NoReturn:
        """Not here."""
        raise NotImplementedError("mcached is not here: list(dataset) keeps samples in memory")

    def lmdb_cached(self, *_: Any, **__: Any) -> NoReturn:
        """Not here."""
        raise NotImplementedError("lmdb_cached is not here: sk.pack makes a dataset of what was decoded")
