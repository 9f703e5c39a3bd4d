"""The arrays that Strata computes with; kernels take contiguous ones of the first four types."""

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Int32s = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Int = int | np.int64  # the same type to the compiler
