"""TensorType: the shape, dtype and weak flag of a value, the `aval` of every stage.

Invariant: types are interned, so two equal types are one object; the call path compares addresses.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from typing import Any

from braze import dtypes
from braze.dtypes import DType

_INTERNED: dict[tuple[tuple[int, ...], DType, bool], TensorType] = {}
_LOCK = threading.Lock()


class TensorType:
    """The type of a dense array: `f32[3,4]`.

    Attributes:
        shape: sizes of the axes.
        dtype: the element type, a NumPy dtype.
        weak_type: whether it came from Python scalars alone and yields in promotion.

    >>> TensorType((3, 4), dtypes.F32)
    f32[3,4]
    """

    __slots__ = ("__weakref__", "dtype", "nbytes", "ndim", "shape", "size", "weak_type")

    shape: tuple[int, ...]
    dtype: DType
    weak_type: bool
    ndim: int
    size: int
    nbytes: int

    def __new__(cls, shape: Iterable[int], dtype: DType, weak_type: bool = False) -> TensorType:
        key = (tuple(shape), dtype, weak_type)
        found = _INTERNED.get(key)
        return found if found is not None else cls._intern(key)

    @classmethod
    def _intern(cls, key: tuple[tuple[int, ...], DType, bool]) -> TensorType:
        shape = tuple(int(n) for n in key[0])  # NumPy integers would print as np.int64(3)
        made = object.__new__(cls)
        made.shape, made.dtype, made.weak_type = shape, key[1], bool(key[2])
        made.ndim = len(shape)
        made.size = math.prod(shape)
        made.nbytes = made.size * made.dtype.itemsize
        with _LOCK:
            return _INTERNED.setdefault((shape, made.dtype, made.weak_type), made)

    @property
    def strong(self) -> TensorType:
        """This type without the weak flag."""
        return TensorType(self.shape, self.dtype) if self.weak_type else self

    def with_(
        self, *, shape: Iterable[int] | None = None, dtype: DType | None = None, weak_type: bool | None = None
    ) -> TensorType:
        """This type with some parts replaced."""
        return TensorType(
            self.shape if shape is None else shape,
            self.dtype if dtype is None else dtype,
            self.weak_type if weak_type is None else weak_type,
        )

    def __repr__(self) -> str:
        return f"{dtypes.short(self.dtype)}[{','.join(map(str, self.shape))}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return (TensorType, (self.shape, self.dtype, self.weak_type))
