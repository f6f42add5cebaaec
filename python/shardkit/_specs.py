"""What the columns of a loader are given as: kinds of columns, functions, or lists of these."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, cast

from shardkit._options import column_names
from shardkit.columns import (
    Boxes,
    DenseMasks,
    Items,
    LabelMap,
    PackedMasks,
    Points,
    Stored,
    Tokens,
    Views,
)
from shardkit.dataset import open as open_dataset
from shardkit.functions import Map, Raw
from shardkit.images import Geometry, Image
from shardkit.schema import Column

Kind = Stored | Views | Image | LabelMap | DenseMasks | PackedMasks | Boxes | Points | Items | Tokens | None
Spec = Kind | Map | Callable[[Any], Any] | Sequence[Any]  # a list: a kind, and what is called with its values
_KINDS = (Stored, Views, Image, LabelMap, DenseMasks, PackedMasks, Boxes, Points, Items, Tokens)
GEOMETRIC = (Image, LabelMap, DenseMasks, PackedMasks, Boxes, Points)


def parts(name: str, spec: Spec) -> tuple[Kind, list[Map]]:
    """Return how a column is decoded, and what is called with its values."""
    given = list(spec) if isinstance(spec, (list, tuple)) else [spec]
    kind: Kind = None
    if given and (given[0] is None or isinstance(given[0], _KINDS)):
        kind = cast(Kind, given.pop(0))
    maps: list[Map] = []
    for each in given:
        if isinstance(each, type) and issubclass(each, (*_KINDS, Map)):
            raise TypeError(f"column {name}: give {each.__name__}(...), not the class")
        if isinstance(each, _KINDS):
            raise TypeError(f"column {name}: {each!r} comes before the functions, and once")
        if not isinstance(each, Map) and not callable(each):
            raise TypeError(f"column {name}: {each!r} is no way to decode it")
        maps.append(each if isinstance(each, Map) else Map(each))
    if isinstance(kind, Tokens) and maps:
        raise ValueError(f"column {name}: rows of tokens are of whole batches: give a batch_function")
    for i, each in enumerate(maps):
        if isinstance(each, Raw) and (i > 0 or kind is not None):
            raise ValueError(f"column {name}: Raw gets the stored bytes, and nothing comes before it")
        if each.collate is not None and i + 1 < len(maps):
            raise ValueError(f"column {name}: collate is for the last function")
    return kind, maps


def with_items(columns: Mapping[str, tuple[Kind, list[Map]]]) -> dict[str, tuple[Kind, list[Map]]]:
    """Return the columns with those that go along with boxes or masks."""
    made = dict(columns)
    for chooser, (kind, _) in columns.items():
        if not isinstance(kind, (Boxes, DenseMasks)):
            continue
        for name in kind.with_columns:
            along, maps = made.get(name, (None, []))
            if along is None or isinstance(along, Stored):
                along = Items()
            if not isinstance(along, (Boxes, DenseMasks, Points, Items)):
                raise ValueError(
                    f"column {name}: {along!r} cannot lose the entries of what {kind} leaves out; give Items, Points, "
                    "Boxes or masks"
                )
            if along.along not in ("", chooser):
                raise ValueError(f"column {name}: goes along with {along.along} and {chooser}; give one of the two")
            if not isinstance(along, Items):
                along = replace(along, of=along.of or kind.of)
            made[name] = (replace(along, along=chooser), maps)
    return made


def column_options(name: str, kind: Kind) -> dict[str, Any]:
    """Return the library's column."""
    if kind is None:
        kind = Stored()
    if isinstance(kind, Image) and kind.own_geometry:
        import hashlib

        # The same crops whatever other columns there are.
        stream = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=7).digest(), "little") + 1
        own = {"geometry": {**asdict(kind.geometry()), "stream": stream}}
        return {"name": name, "decode": kind.decode, **kind.options(), **own}
    if isinstance(kind, (Image, LabelMap, DenseMasks, Boxes, Points, Items)):
        return {"name": name, "decode": kind.decode, **kind.options()}
    return {"name": name, "decode": kind.decode, **asdict(kind)}


def stored_columns(datasets: list[dict[str, Any]], missing: str) -> dict[str, Column]:
    """Return the columns by name: those of the first dataset, which the others have, unless they may miss some."""
    made: dict[str, Column] = {}
    for each in datasets if missing == "absent" else datasets[:1]:
        for column in open_dataset(each["path"], generation=each.get("generation", 0)).all_columns:
            made.setdefault(column.name, column)
    return made


def column_specs(
    columns: Mapping[str, Spec] | Sequence[str] | None, datasets: list[dict[str, Any]], missing: str
) -> dict[str, Spec]:
    """Return how each column is decoded; all but the key when none are given."""
    if columns is None:
        columns = [name for name, column in stored_columns(datasets, missing).items() if not column.is_key]
        if not columns:
            raise ValueError(f"{datasets[0]['path']}: there is nothing to load: it has no column but the key")
    names = column_names(columns)
    assert names is not None
    return dict(columns) if isinstance(columns, Mapping) else dict.fromkeys(names)


def shared_geometry(kinds: Collection[Kind], geometry: Geometry | None) -> Geometry:
    """Return the geometry of the images of a sample that have none of their own, and of what lies on them."""
    known = [spec for spec in kinds if isinstance(spec, Image) and not spec.own_geometry]
    if geometry is None:
        geometries = {spec.geometry() for spec in known}
        if len(geometries) > 1:
            raise ValueError(
                "the images of a sample share one geometry: give it as `geometry`; own_geometry=True is for views "
                "that are cropped independently"
            )
        geometry = geometries.pop() if geometries else Geometry()
    elif not any(isinstance(spec, GEOMETRIC) for spec in kinds):
        raise ValueError("geometry is for images and what lies on them, and no column is decoded as one")
    elif any(isinstance(spec, Image) for spec in kinds) and not known:
        raise ValueError("geometry is for images without own_geometry, and there are none")
    for spec in known:
        if spec.geometry() not in (Geometry(), geometry):
            raise ValueError(f"geometry takes the place of that of {spec}: leave one out")
    return geometry
